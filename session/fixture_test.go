package session_test

import (
	"encoding/csv"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
)

// load runs a file of plain Redis commands, one a line, with quotes around an argument that needs them.
func load(t *testing.T, c *redis.Client, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		r := csv.NewReader(strings.NewReader(line))
		r.Comma = ' '
		words, err := r.Read()
		require.NoError(t, err, line)
		args := make([]any, len(words))
		for i, word := range words {
			args[i] = word
		}
		require.NoError(t, c.Do(ctx, args...).Err(), line)
	}
}

func TestReadsWhatTheFirstVersionWrote(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c := s.Client(t)
		load(t, c, "testdata/v0.redis")
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

// This version writes what testdata holds, apart from what is random and the time.
func TestWritesWhatTheFirstVersionWrote(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c := s.Client(t)
		load(t, c, "testdata/v0.redis")
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
