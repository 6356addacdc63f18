package session_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/session"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	c := redistest.Mini(t).Client(t)
	for name, tt := range map[string]struct {
		opts session.Options
		want string
	}{
		"idle":     {session.Options{IdleTimeout: -1}, "session: new: option IdleTimeout: -1ns is under 1ms"},
		"lifetime": {session.Options{Lifetime: 1}, "session: new: option Lifetime: 1ns is under 1ms"},
		"touch": {
			session.Options{IdleTimeout: time.Minute, TouchEvery: time.Minute},
			"session: new: option TouchEvery: 1m0s is not less than IdleTimeout, 1m0s",
		},
	} {
		_, err := session.New[user](c, &tt.opts)
		require.EqualError(t, err, tt.want, name)
	}
	_, err := session.New[user](nil, nil)
	require.EqualError(t, err, "session: new: no client")
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
	require.Empty(t, (*session.Session[user])(nil).Token())
	require.Empty(t, new(session.Session[user]).Token())
	require.Zero(t, n.Trips())
}
