package session_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/session"
)

func TestOddTokensAreRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	c := redistest.Mini(t).Client(t)
	store := newStore[user](t, c, nil)
	sess := create(t, store, tanaka)
	n := redistest.Count(c)
	token := sess.Token()
	id, secret, _ := strings.Cut(token, ".")
	require.Equal(t, sess.ID, id)
	for _, odd := range []string{
		"", ".", id, id + ".", "." + secret, token + ".", " " + token, token + " ", token + "\n", strings.ToLower(token),
		strings.Repeat("A", 100_000), "../x", "\x00", strings.Replace(token, ".", "\x00", 1), "{tag}", "*", "名前",
		token[:46] + "0", token[:46] + "é", token + "A", id + ":" + secret, "user:" + token[5:],
	} {
		_, err := store.Load(ctx, odd)
		require.ErrorIs(t, err, session.ErrNotFound, "%q", odd)
		require.EqualError(t, err, "session: load: session: not found")
		if odd == id {
			continue // a good ID, if not a token
		}
		_, err = store.ByID(ctx, odd)
		require.ErrorIs(t, err, session.ErrNotFound)
		require.ErrorIs(t, store.Touch(ctx, odd), session.ErrNotFound)
		require.ErrorIs(t, store.Destroy(ctx, odd), session.ErrNotFound)
	}
	require.Zero(t, n.Trips())
	err := store.Destroy(ctx, token)
	require.ErrorIs(t, err, session.ErrNotFound, "a token in place of an ID is no logout, and must not look like one")
	require.NotContains(t, err.Error(), secret)
}

// Who knows an ID, or what Redis stores, cannot open the session.
func TestOnlyTheSecretOpens(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		for name, every := range stores {
			store := newStore[user](t, c, &session.Options{TouchEvery: every})
			sess, other := create(t, store, tanaka), create(t, store, tanaka)
			hash := c.HGet(ctx, "session:"+sess.ID, "_t").Val()
			require.NotEmpty(t, hash)
			_, otherSecret, _ := strings.Cut(other.Token(), ".")
			for _, wrong := range []string{hash, hash[:26], otherSecret, sess.ID, strings.Repeat("A", 26)} {
				_, err := store.Load(ctx, sess.ID+"."+wrong)
				require.ErrorIs(t, err, session.ErrNotFound, name)
			}
			_, err := store.Load(ctx, sess.Token())
			require.NoError(t, err, name)
		}
	})
}

// A wrong secret keeps nobody's session alive.
func TestWrongSecretRenewsNothing(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		for name, every := range stores {
			store := newStore[user](t, c, &session.Options{TouchEvery: every})
			sess := create(t, store, tanaka)
			require.NoError(t, c.PExpire(ctx, "session:"+sess.ID, 60_000_000_000).Err())
			_, err := store.Load(ctx, sess.ID+"."+strings.Repeat("A", 26))
			require.ErrorIs(t, err, session.ErrNotFound, name)
			requireTTL(t, c, sess.ID, 60_000_000_000)
		}
	})
}
