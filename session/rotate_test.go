package session_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/session"
)

func TestRotate(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		store := newStore[user](t, c, nil)
		sess := create(t, store, tanaka)
		old, ends := sess.Token(), c.HGet(ctx, "session:"+sess.ID, "_x").Val()
		other, err := store.Load(ctx, old)
		require.NoError(t, err)
		other.Data.Username = "suzuki"
		require.NoError(t, store.Save(ctx, other))

		sess.Data.Role = "root"
		require.NoError(t, store.Rotate(ctx, sess))
		require.NotEqual(t, old, sess.Token())
		require.Equal(t, old[:20], sess.Token()[:20], "the ID stays")
		requireTTL(t, c, sess.ID, 30*time.Minute)
		require.Equal(t, ends, c.HGet(ctx, "session:"+sess.ID, "_x").Val(), "it prolongs no lifetime")
		_, err = store.Load(ctx, old)
		require.ErrorIs(t, err, session.ErrNotFound, "without Grace the old token has ended")
		require.ErrorIs(t, store.Rotate(ctx, other), session.ErrConflict)
		require.Equal(t, old, other.Token())
		loaded, err := store.Load(ctx, sess.Token())
		require.NoError(t, err)
		require.Equal(t, user{42, "suzuki", "root"}, loaded.Data, "the changed field was written, and that one alone")
		require.NoError(t, store.Rotate(ctx, sess), "again")
		require.NoError(t, store.Save(ctx, loaded), "a request under way still saves")

		byID, err := store.ByID(ctx, sess.ID)
		require.NoError(t, err)
		require.EqualError(t, store.Rotate(ctx, byID), "session: rotate: the session was loaded by its ID, not by its token")
	})
}

// Of ten that rotate at once one wins, and with Grace nobody is logged out.
func TestParallelRotates(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		for name, grace := range map[string]time.Duration{"no grace": 0, "grace": time.Minute} {
			store := newStore[user](t, s.Client(t), &session.Options{Grace: grace})
			sess := create(t, store, tanaka)
			old := sess.Token()
			requests := make([]*session.Session[user], 10)
			for i := range requests {
				var err error
				requests[i], err = store.Load(ctx, old)
				require.NoError(t, err)
			}
			var all sync.WaitGroup
			errs := make([]error, len(requests))
			for i, request := range requests {
				all.Go(func() { errs[i] = store.Rotate(ctx, request) })
			}
			all.Wait()
			won := 0
			for i, err := range errs {
				if err == nil {
					won++
					_, err := store.Load(ctx, requests[i].Token())
					require.NoError(t, err, name)
					continue
				}
				require.ErrorIs(t, err, session.ErrConflict, name)
				require.Equal(t, old, requests[i].Token())
			}
			require.Equal(t, 1, won, name)
			_, err := store.Load(ctx, old)
			if grace > 0 {
				require.NoError(t, err, "a request under way is served")
			} else {
				require.ErrorIs(t, err, session.ErrNotFound)
			}
		}
	})
}

func TestGrace(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		for name, every := range stores {
			store := newStore[user](t, c, &session.Options{Grace: time.Minute, TouchEvery: every})
			brief := newStore[user](t, c, &session.Options{Grace: 100 * time.Millisecond, TouchEvery: every})
			sess := create(t, store, tanaka)
			first := sess.Token()
			require.NoError(t, store.Rotate(ctx, sess))
			late, err := store.Load(ctx, first)
			require.NoError(t, err, name)
			require.Equal(t, tanaka, late.Data)
			require.Equal(t, first, late.Token())
			require.ErrorIs(t, store.Rotate(ctx, late), session.ErrConflict, "the old token is good for reading, not for a new one")
			late.Data.Role = "member"
			require.NoError(t, store.Save(ctx, late))

			second := sess.Token()
			require.NoError(t, store.Rotate(ctx, sess))
			_, err = store.Load(ctx, first)
			require.ErrorIs(t, err, session.ErrNotFound, "only the last but one")
			_, err = store.Load(ctx, second)
			require.NoError(t, err, name)

			third := sess.Token()
			require.NoError(t, brief.Rotate(ctx, sess))
			if !s.IsReal() { // whose clock stands still
				s.Advance(t, 99*time.Millisecond)
				_, err = brief.Load(ctx, third)
				require.NoError(t, err, name)
			}
			s.Advance(t, 200*time.Millisecond)
			_, err = brief.Load(ctx, third)
			require.ErrorIs(t, err, session.ErrNotFound, name)
			_, err = store.Load(ctx, sess.Token())
			require.NoError(t, err, name)

			// The next Rotate without Grace ends what the last one left, and leaves no field behind.
			require.NoError(t, newStore[user](t, c, nil).Rotate(ctx, sess))
			require.Equal(t, []any{nil, nil}, c.HMGet(ctx, "session:"+sess.ID, "_p", "_g").Val())
		}
	})
}

// A grace that is damaged opens nothing, and breaks nothing.
func TestDamagedGrace(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		store := newStore[user](t, c, &session.Options{Grace: time.Minute})
		sess := create(t, store, tanaka)
		old := sess.Token()
		require.NoError(t, store.Rotate(ctx, sess))
		require.NoError(t, c.HSet(ctx, "session:"+sess.ID, "_g", "soon").Err())
		_, err := store.Load(ctx, old)
		require.ErrorIs(t, err, session.ErrNotFound)
		require.NoError(t, c.HDel(ctx, "session:"+sess.ID, "_g").Err())
		_, err = store.Load(ctx, old)
		require.ErrorIs(t, err, session.ErrNotFound)
		_, err = store.Load(ctx, sess.Token())
		require.NoError(t, err)
	})
}

// When the reply is lost the session has the token that holds, be the request lost before Redis or after.
func TestRotateWithLostReplies(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		p := s.Proxy(t)
		direct, store := newStore[user](t, s.Client(t), nil), newStore[user](t, p.Client(t), nil)
		sess := create(t, direct, tanaka)
		require.NoError(t, store.Rotate(ctx, sess)) // the script is there now
		for name, lose := range map[string]func(int, ...string){
			"reply dropped": p.DropReplies, "closed after": p.CloseAfter, "closed before": p.CloseBefore,
		} {
			lose(1, "evalsha")
			old := sess.Token()
			sess.Data.UserID++
			require.NoError(t, store.Rotate(ctx, sess), name)
			require.Equal(t, 1, p.Hits())
			require.NotEqual(t, old, sess.Token())
			loaded, err := direct.Load(ctx, sess.Token())
			require.NoError(t, err, name)
			require.Equal(t, sess.Data, loaded.Data)
		}
	})
}

// The caller's context ends while the reply is lost: what holds is asked for all the same.
func TestRotateWhoseContextEnds(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		p := s.Proxy(t)
		direct := newStore[user](t, s.Client(t), nil)
		sess := create(t, direct, tanaka)
		require.NoError(t, direct.Rotate(ctx, sess)) // the script is there now
		for name, lose := range map[string]func(int, ...string){"after": p.CloseAfter, "before": p.CloseBefore} {
			ending, cancel := context.WithCancel(ctx)
			c := p.Client(t)
			c.AddHook(afterScript(cancel))
			lose(1, "evalsha")
			old := sess.Token()
			err := newStore[user](t, c, nil).Rotate(ending, sess)
			require.Equal(t, 1, p.Hits(), name)
			if name == "after" {
				require.NoError(t, err, "it was applied")
				require.NotEqual(t, old, sess.Token())
			} else {
				require.Error(t, err, "it was not")
				require.NotErrorIs(t, err, session.ErrUnknown)
				require.Equal(t, old, sess.Token())
			}
			_, err = direct.Load(ctx, sess.Token())
			require.NoError(t, err, "%s: sess has the token that holds", name)
		}
	})
}

// With no answer at all it is unknown, says so, and ends.
func TestRotateInABlackHole(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	p := s.Proxy(t)
	c := p.Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled, o.ReadTimeout = true, 30*time.Second })
	store := newStore[user](t, c, nil)
	sess := create(t, store, tanaka)
	old := sess.Token()
	p.BlackHole(true)
	soon, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := store.Rotate(soon, sess)
	require.ErrorIs(t, err, session.ErrUnknown)
	var timeout interface{ Timeout() bool }
	require.ErrorAs(t, err, &timeout)
	require.Less(t, time.Since(began), 15*time.Second, "five seconds, on a machine that is not busy")
	require.Equal(t, old, sess.Token())
	p.BlackHole(false)
}

func TestRotateThatFailsKeepsTheToken(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		store := newStore[user](t, c, nil)
		sess := create(t, store, tanaka)
		old := sess.Token()
		require.NoError(t, c.Set(ctx, "session:"+sess.ID, "theirs", 0).Err())
		err := store.Rotate(ctx, sess)
		require.ErrorContains(t, err, "WRONGTYPE")
		require.False(t, errors.Is(err, session.ErrUnknown))
		require.Equal(t, old, sess.Token())
	})
}
