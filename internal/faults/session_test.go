package faults_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/session"
)

type user struct {
	Name  string `redis:"user_id"`
	Count int64  `redis:"count"`
}

// noSession are the answers that a broken Redis must not be taken for.
var noSession = []error{session.ErrNotFound, session.ErrConflict, session.ErrTooLarge}

// unsent are those and ErrUnknown, where Redis executes nothing.
var unsent = append([]error{session.ErrUnknown}, noSession...)

func (c *check) store() *session.Store[user] {
	s, err := session.New[user](c.client, &session.Options{Prefix: "session:" + c.world.tag, UserField: "user_id"})
	require.NoError(c, err)
	return s
}

func (c *check) login(s *session.Store[user]) *session.Session[user] {
	sess, err := s.Create(c, user{Name: "tanaka" + c.world.tag})
	require.NoError(c, err)
	return sess
}

// sessionReads are what a store reads of a session.
func (c *check) sessionReads(s *session.Store[user], sess *session.Session[user]) ops {
	return ops{
		"Load": func(ctx context.Context) error { _, err := s.Load(ctx, sess.Token()); return err },
		"ByID": func(ctx context.Context) error { _, err := s.ByID(ctx, sess.ID); return err },
		"List": func(ctx context.Context) error { _, err := s.List(ctx, sess.Data.Name); return err },
	}
}

// sessionStores are what stores data, each on a session of its own.
func (c *check) sessionStores(s *session.Store[user]) ops {
	saved, updated, rotated := c.login(s), c.login(s), c.login(s)
	return c.sessionCreates(s).and(ops{
		"Save": func(ctx context.Context) error { saved.Data.Count++; return s.Save(ctx, saved) },
		"Update": func(ctx context.Context) error {
			return s.Update(ctx, updated, func(u *user) error { u.Count++; return nil })
		},
		"Rotate": func(ctx context.Context) error { return s.Rotate(ctx, rotated) },
	})
}

// sessionCreates is a login.
func (c *check) sessionCreates(s *session.Store[user]) ops {
	return ops{"Create": func(ctx context.Context) error {
		_, err := s.Create(ctx, user{Name: "suzuki" + c.world.tag})
		return err
	}}
}

// sessionEnds are the writes that need no memory.
func (c *check) sessionEnds(s *session.Store[user]) ops {
	touched, destroyed := c.login(s), c.login(s)
	return ops{
		"Touch":   func(ctx context.Context) error { return s.Touch(ctx, touched.ID) },
		"Destroy": func(ctx context.Context) error { return s.Destroy(ctx, destroyed.ID) },
	}
}

// stillLoggedIn requires a session as it was.
func (c *check) stillLoggedIn(s *session.Store[user], sess *session.Session[user]) {
	loaded, err := s.Load(c, sess.Token())
	require.NoError(c, err)
	require.Equal(c, sess.Data, loaded.Data)
}

// status is what the holder of a token gets from a server, behind Require.
func (c *check) status(s *session.Store[user], token string) int {
	m, err := session.NewManager(s, &session.ManagerOptions{Cookie: "sid", Insecure: true})
	require.NoError(c, err)
	r := httptest.NewRequest(http.MethodGet, "/", nil).WithContext(c)
	r.AddCookie(&http.Cookie{Name: "sid", Value: token})
	w := httptest.NewRecorder()
	m.Handler(m.Require(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))).ServeHTTP(w, r)
	return w.Code
}

// countedSessions counts in sessions under load, one for each goroutine: of what was answered everything is kept, unless the
// fault loses writes, and nothing was applied that was neither answered nor reported as unknown.
func (c *check) countedSessions(loses bool) {
	s := c.store()
	var counted [8]struct {
		sess              *session.Session[user]
		answered, unknown atomic.Int64
	}
	for i := range counted {
		counted[i].sess = c.login(s)
	}
	require.NoError(c, c.world.settle(c))
	c.underLoad(func(worker int) error {
		n := &counted[worker]
		err := s.Update(c, n.sess, func(u *user) error { u.Count++; return nil })
		switch {
		case err == nil:
			n.answered.Add(1)
		case errors.Is(err, session.ErrUnknown):
			n.unknown.Add(1)
		}
		return err
	}, noSession...)
	for i := range counted {
		n := &counted[i]
		loaded, err := s.Load(c, n.sess.Token())
		require.NoError(c, err, "nobody is logged out")
		c.within(loaded.Data.Count, n.answered.Load(), n.unknown.Load(), loses)
	}
}

// within requires that a count is what was answered, and as much of what is unknown as may be; less where the fault loses
// what was answered.
func (c *check) within(count, answered, unknown int64, loses bool) {
	require.LessOrEqual(c, count, answered+unknown)
	if !loses {
		require.GreaterOrEqual(c, count, answered)
	}
}
