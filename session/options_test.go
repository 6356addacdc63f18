package session_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/session"
)

// century is the longest that an option may last.
const century = 100 * 365 * 24 * time.Hour

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	c := redistest.Mini(t).Client(t)
	for name, tt := range map[string]struct {
		opts session.Options
		want string
	}{
		"idle":     {session.Options{IdleTimeout: -1}, "session: new: Options.IdleTimeout is -1ns, must be at least 1ms and at most 876000h0m0s"},
		"lifetime": {session.Options{Lifetime: 1}, "session: new: Options.Lifetime is 1ns, must be negative, or at least 1ms and at most 876000h0m0s"},
		"touch": {
			session.Options{IdleTimeout: time.Minute, TouchEvery: time.Minute},
			"session: new: Options.TouchEvery is 1m0s, must be less than IdleTimeout, 1m0s",
		},
		"grace": {session.Options{Grace: -1}, "session: new: Options.Grace is -1ns, must be 0, or at least 1ms and at most 876000h0m0s"},
		"endless idle": {
			session.Options{IdleTimeout: math.MaxInt64},
			"session: new: Options.IdleTimeout is 2562047h47m16.854775807s, must be at least 1ms and at most 876000h0m0s",
		},
		"endless lifetime": {
			session.Options{Lifetime: math.MaxInt64, UserField: "user_id"},
			"session: new: Options.Lifetime is 2562047h47m16.854775807s, must be negative, or at least 1ms and at most 876000h0m0s",
		},
		"endless grace": {
			session.Options{Grace: century + 1},
			"session: new: Options.Grace is 876000h0m0.000000001s, must be 0, or at least 1ms and at most 876000h0m0s",
		},
	} {
		_, err := session.New[user](c, &tt.opts)
		require.EqualError(t, err, tt.want, name)
	}
	_, err := session.New[user](nil, nil)
	require.EqualError(t, err, "session: new: the client is nil")
}

// The longest times are within what Redis can say and this process can add up.
func TestLongestTimes(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c := s.Client(t)
		for _, lifetime := range []time.Duration{century, -1} {
			for _, every := range stores {
				store := newStore[user](t, c, &session.Options{
					IdleTimeout: century, Lifetime: lifetime, Grace: century, TouchEvery: every, UserField: "user_id",
				})
				sess := create(t, store, tanaka)
				old := sess.Token()
				require.NoError(t, store.Rotate(ctx, sess))
				for _, token := range []string{old, sess.Token()} {
					loaded, err := store.Load(ctx, token)
					require.NoError(t, err)
					require.Equal(t, tanaka, loaded.Data)
				}
				ttl := c.PTTL(ctx, "session:"+sess.ID).Val()
				require.Greater(t, ttl, century-time.Hour)
				require.LessOrEqual(t, ttl, century)
				list, err := store.List(ctx, "42")
				require.NoError(t, err)
				require.Len(t, list, 1)
				n, err := store.DestroyAll(ctx, "42")
				require.NoError(t, err)
				require.Equal(t, 1, n)
			}
		}
	})
}

// Options are copied, and New sends nothing.
func TestOptionsAreCopied(t *testing.T) {
	t.Parallel()
	c := redistest.Mini(t).Client(t)
	n := redistest.Count(c)
	opts := &session.Options{Prefix: "a:"}
	store := newStore[user](t, c, opts)
	require.Zero(t, n.Trips())
	opts.Prefix = "b:"
	sess := create(t, store, tanaka)
	require.EqualValues(t, 1, c.Exists(ctx, "a:"+sess.ID).Val())
}

func TestArgumentsAreCheckedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	c := redistest.Mini(t).Client(t)
	n := redistest.Count(c)
	store := newStore[user](t, c, nil)
	require.ErrorContains(t, store.Save(ctx, nil), "not one that a Store returned")
	require.ErrorContains(t, store.Save(ctx, &session.Session[user]{ID: redistest.ID()[:20]}), "not one that a Store returned")
	for _, odd := range []*session.Session[user]{nil, {}, {ID: redistest.ID()[:20]}} {
		require.ErrorContains(t, store.Update(ctx, odd, increment), "not one that a Store returned")
		require.ErrorContains(t, store.Rotate(ctx, odd), "not one that a Store returned")
	}
	require.Empty(t, (*session.Session[user])(nil).Token())
	require.Empty(t, new(session.Session[user]).Token())
	require.Zero(t, n.Trips())
}

func TestMaxBytes(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		n := redistest.Count(c)
		names := len("user_id") + len("username") + len("role")
		store := newStore[user](t, c, &session.Options{MaxBytes: names + 10})
		fits, over := user{UserID: 42, Username: "12345678"}, user{UserID: 42, Username: "123456789"}
		_, err := store.Create(ctx, over)
		require.ErrorIs(t, err, session.ErrTooLarge)
		require.EqualError(t, err, "session: create: 30 bytes, more than 29: session: too large")
		require.Zero(t, n.Trips())
		sess := create(t, store, fits)
		before := c.HGetAll(ctx, "session:"+sess.ID).Val()
		sess.Data = over
		require.ErrorIs(t, store.Save(ctx, sess), session.ErrTooLarge)
		require.ErrorIs(t, store.Rotate(ctx, sess), session.ErrTooLarge)
		require.ErrorIs(t, store.Update(ctx, sess, func(u *user) error { u.Role = "x"; return nil }), session.ErrTooLarge)
		require.Equal(t, before, c.HGetAll(ctx, "session:"+sess.ID).Val())
		sess.Data = user{UserID: 42, Username: "1234567", Role: "x"}
		require.NoError(t, store.Save(ctx, sess))

		byDefault := newStore[user](t, c, nil)
		_, err = byDefault.Create(ctx, user{Username: strings.Repeat("x", 16<<10)})
		require.ErrorIs(t, err, session.ErrTooLarge)
		create(t, byDefault, user{Username: strings.Repeat("x", 16<<10-names-1)})
	})
}
