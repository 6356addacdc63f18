package session_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/session"
)

func TestReadsWhatTheFirstVersionWrote(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c := s.Client(t)
		redistest.Load(t, c, "testdata/v0.redis")
		store := newStore[user](t, c, nil)
		for token, want := range map[string]user{
			"SESSIONOFTANAKA22222.LOGIN2SECRET2OF2TANAKA2222": {42, "tanaka", "admin"},
			"SESSIONWITHOUTABOUND.FOREVERSECRETFOREVERSECRET": {43, "", "of two words"},
			"SESSIONATITSEND22222.ENDINGSECRETENDINGSECRETEN": {44, "suzuki", "member"},
		} {
			sess, err := store.Load(ctx, token)
			require.NoError(t, err)
			require.Equal(t, want, sess.Data)
			require.Equal(t, token, sess.Token())
			require.True(t, sess.CreatedAt.Equal(time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)), "%v", sess.CreatedAt)
			sess.Data.Role += "2"
			require.NoError(t, store.Save(ctx, sess))
			sess, err = store.Load(ctx, token)
			require.NoError(t, err)
			require.Equal(t, want.Role+"2", sess.Data.Role)
			requireTTL(t, c, sess.ID, 30*time.Minute)
			require.NoError(t, store.Destroy(ctx, sess.ID))
			requireGone(t, c, sess.ID)
		}
	})
}

func TestReadsTheGraceThatTheFirstVersionWrote(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c := s.Client(t)
		redistest.Load(t, c, "testdata/v0.redis")
		store := newStore[user](t, c, &session.Options{Grace: time.Minute})
		for _, secret := range []string{"PREVIOUSSECRETPREVIOUSSECR", "ROTATEDSECRETROTATEDSECRET"} {
			sess, err := store.Load(ctx, "SESSIONOFROTATION222."+secret)
			require.NoError(t, err)
			require.Equal(t, user{45, "sato", "member"}, sess.Data)
			err = store.Rotate(ctx, sess)
			if secret == "ROTATEDSECRETROTATEDSECRET" {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, session.ErrConflict)
			}
		}
		_, err := store.Load(ctx, "SESSIONOFROTATION222.PREVIOUSSECRETPREVIOUSSECR")
		require.ErrorIs(t, err, session.ErrNotFound, "rotated twice since")
	})
}

func TestReadsTheIndexThatTheFirstVersionWrote(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c := s.Client(t)
		redistest.Load(t, c, "testdata/v0.redis")
		const lifetime = 100 * 365 * 24 * time.Hour // as long as the fixture's: entries older than that go at a login
		store := newStore[user](t, c, &session.Options{UserField: "user_id", Lifetime: lifetime})
		list, err := store.List(ctx, "42")
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, "SESSIONOFTANAKA22222", list[0].ID)
		require.Equal(t, []string{"SESSIONOFTANAKA22222"}, c.ZRange(ctx, "session:user:42", 0, -1).Val(), "the dead entry is old enough to go")
		sess := create(t, store, tanaka)
		require.Regexp(t, `^\d{16}$`, fmt.Sprintf("%.0f", c.ZScore(ctx, "session:user:42", sess.ID).Val()), "µs, as in the fixture")
		n, err := store.DestroyAll(ctx, "42")
		require.NoError(t, err)
		require.Equal(t, 2, n)
		requireGone(t, c, "SESSIONOFTANAKA22222")
	})
}

// This version writes what testdata holds, apart from what is random and the time.
func TestWritesWhatTheFirstVersionWrote(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c := s.Client(t)
		redistest.Load(t, c, "testdata/v0.redis")
		want := c.HGetAll(ctx, "session:SESSIONOFTANAKA22222").Val()
		sess := create(t, newStore[user](t, c, nil), tanaka)
		got := c.HGetAll(ctx, "session:"+sess.ID).Val()
		require.Len(t, sess.ID, len("SESSIONOFTANAKA22222"))
		require.Len(t, sess.Token(), len("SESSIONOFTANAKA22222.LOGIN2SECRET2OF2TANAKA2222"))
		for _, varies := range []string{"_v", "_t", "_c", "_x"} {
			require.Contains(t, want, varies)
			require.Contains(t, got, varies)
			if varies != "_v" {
				require.Len(t, got[varies], len(want[varies]), varies)
			}
			delete(want, varies)
			delete(got, varies)
		}
		require.Equal(t, want, got)
	})
}
