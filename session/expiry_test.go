package session_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/session"
)

// The documented defaults, to the minute, in virtual time.
func TestIdleTimeAndLifetime(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		store := newStore[user](t, c, nil)
		unused := create(t, store, tanaka)
		redistest.Sleep(30*time.Minute - time.Millisecond)
		requireTTL(t, c, unused.ID, time.Millisecond)
		redistest.Sleep(time.Millisecond)
		_, err := store.Load(ctx, unused.Token())
		require.ErrorIs(t, err, session.ErrNotFound)

		used := create(t, store, tanaka)
		began := time.Now()
		for time.Since(began) < 12*time.Hour {
			sess, err := store.Load(ctx, used.Token())
			require.NoError(t, err, "after %v", time.Since(began))
			most := min(30*time.Minute, 12*time.Hour-time.Since(began))
			requireTTL(t, c, used.ID, most)
			require.Equal(t, began, sess.CreatedAt.Round(0).In(began.Location()))
			require.LessOrEqual(t, time.Until(sess.ExpiresAt), most)
			require.GreaterOrEqual(t, time.Until(sess.ExpiresAt), most-time.Minute)
			redistest.Sleep(time.Minute)
		}
		requireGone(t, c, used.ID)
	})
}

// Whatever an operation does, 0 < PTTL <= min(idle, what is left of the lifetime), on every kind of store, and a session
// in use ends with its lifetime.
func TestEveryOperationKeepsTheTTLInBounds(t *testing.T) {
	t.Parallel()
	const idle, lifetime, step = 4500 * time.Millisecond, 9 * time.Second, 600 * time.Millisecond
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		kinds := map[string]*session.Store[user]{}
		sessions := map[string]*session.Session[user]{}
		for name, every := range map[string]time.Duration{"throttled": step, "every use": -1} {
			kinds[name] = newStore[user](t, c, &session.Options{IdleTimeout: idle, Lifetime: lifetime, TouchEvery: every})
			sess := create(t, kinds[name], tanaka)
			sessions[name] = sess
			requireTTL(t, c, sess.ID, idle)
			ttl := c.PTTL(ctx, "session:"+sess.ID).Val()
			require.Greater(t, ttl+s.Now(t).Sub(sess.CreatedAt), idle-50*time.Millisecond, "4500ms means 4500ms")
		}
		for i, living := 0, len(kinds); living > 0; i++ {
			s.Advance(t, step)
			living = 0
			for name, store := range kinds {
				sess := sessions[name]
				var err error
				switch i % 4 {
				case 0:
					_, err = store.Load(ctx, sess.Token())
				case 1:
					err = store.Touch(ctx, sess.ID)
				case 2:
					sess.Data.UserID++
					err = store.Save(ctx, sess)
				case 3:
					_, err = store.ByID(ctx, sess.ID)
				}
				ttl := c.PTTL(ctx, "session:"+sess.ID).Val()
				if age := s.Now(t).Sub(sess.CreatedAt); age < lifetime {
					living++
					require.NoError(t, err, "%s: operation %d, at %v", name, i, age)
					require.Greater(t, ttl, time.Duration(0), "%s: operation %d, at %v", name, i, age)
				}
				require.LessOrEqual(t, ttl, idle)
			}
		}
		s.Advance(t, time.Millisecond) // Redis ends it after the millisecond of its end
		for name, store := range kinds {
			sess := sessions[name]
			requireGone(t, c, sess.ID)
			_, err := store.Load(ctx, sess.Token())
			require.ErrorIs(t, err, session.ErrNotFound, name)
			require.ErrorIs(t, store.Save(ctx, sess), session.ErrNotFound, name)
			requireGone(t, c, sess.ID)
		}
	})
}

// In the last IdleTimeout of its lifetime a session cannot be renewed, so no read tries to.
func TestTouchesEndWithTheLifetimeInSight(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		n := redistest.Count(c)
		store := newStore[user](t, c, &session.Options{IdleTimeout: 30 * time.Minute, Lifetime: time.Hour})
		sess := create(t, store, tanaka)
		require.NoError(t, store.Touch(ctx, sess.ID)) // the script is there now
		load := func() (trips int, lastSeen time.Duration) {
			n.Reset()
			loaded, err := store.Load(ctx, sess.Token())
			require.NoError(t, err)
			return n.Trips(), time.Since(loaded.LastSeen)
		}
		for range 29 { // each time due, the last at 29 minutes
			redistest.Sleep(time.Minute)
			trips, _ := load()
			require.Equal(t, 2, trips)
		}
		redistest.Sleep(5 * time.Minute)
		trips, seen := load()
		require.Equal(t, 2, trips, "the one that meets the end of the lifetime")
		require.Zero(t, seen)
		for range 5 {
			redistest.Sleep(5 * time.Minute)
			trips, seen = load()
			require.Equal(t, 1, trips)
		}
		require.Equal(t, 25*time.Minute, seen, "it stands still")
		requireTTL(t, c, sess.ID, time.Minute)

		brief := newStore[user](t, c, &session.Options{IdleTimeout: time.Hour, Lifetime: time.Minute})
		sess = create(t, brief, tanaka)
		requireTTL(t, c, sess.ID, time.Minute)
		store = brief
		redistest.Sleep(50 * time.Second)
		trips, seen = load()
		require.Equal(t, 1, trips)
		require.Equal(t, 50*time.Second, seen)
	})
}

// A store with a shorter IdleTimeout writes to a session that another's IdleTimeout had bounded by its lifetime: it is
// renewed again from then on.
func TestMixedIdleTimes(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		long := newStore[user](t, c, &session.Options{IdleTimeout: 2 * time.Hour, Lifetime: time.Hour})
		short := newStore[user](t, c, &session.Options{IdleTimeout: 10 * time.Minute})
		sess := create(t, long, tanaka)
		eager := newStore[user](t, c, &session.Options{IdleTimeout: 10 * time.Minute, TouchEvery: -1})
		for range 2 { // the first takes the mark of the lifetime's end away
			redistest.Sleep(time.Second)
			loaded, err := eager.Load(ctx, sess.Token())
			require.NoError(t, err)
			require.Zero(t, time.Since(loaded.LastSeen))
			requireTTL(t, c, sess.ID, 10*time.Minute)
		}
		require.False(t, c.HExists(ctx, "session:"+sess.ID, "_s").Val())
		for range 9 {
			redistest.Sleep(6 * time.Minute)
			_, err := short.Load(ctx, sess.Token())
			require.NoError(t, err)
		}
		requireTTL(t, c, sess.ID, 6*time.Minute)
		redistest.Sleep(6 * time.Minute)
		requireGone(t, c, sess.ID)
	})
}

func TestNoLifetime(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		store := newStore[user](t, c, &session.Options{Lifetime: -1})
		sess := create(t, store, tanaka)
		require.False(t, c.HExists(ctx, "session:"+sess.ID, "_x").Val())
		for range 100 {
			redistest.Sleep(20 * time.Minute)
			_, err := store.Load(ctx, sess.Token())
			require.NoError(t, err)
			requireTTL(t, c, sess.ID, 30*time.Minute)
		}
		redistest.Sleep(30 * time.Minute)
		requireGone(t, c, sess.ID)
	})
}

// A TTL that a foreign hand took away is put back by the next use, and a lifetime that has passed meanwhile ends it.
func TestLostTTLIsHealed(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		for name, every := range stores {
			store := newStore[user](t, c, &session.Options{TouchEvery: every})
			sess := create(t, store, tanaka)
			require.NoError(t, c.Persist(ctx, "session:"+sess.ID).Err())
			_, err := store.ByID(ctx, sess.ID)
			require.NoError(t, err, name)
			_, err = store.Load(ctx, sess.Token())
			require.NoError(t, err, name)
			requireTTL(t, c, sess.ID, 30*time.Minute)

			require.NoError(t, c.Persist(ctx, "session:"+sess.ID).Err())
			require.NoError(t, c.HSet(ctx, "session:"+sess.ID, "_x", 1).Err())
			_, err = store.Load(ctx, sess.Token())
			require.ErrorIs(t, err, session.ErrNotFound, name)
			requireGone(t, c, sess.ID)
		}
	})
}

// A process whose clock is off sees the same sessions, touches them as often, and keeps them as long.
func TestClocksOfProcessesDoNotMatter(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		n := redistest.Count(c)
		options := &session.Options{Lifetime: 2 * time.Hour}
		for _, off := range []time.Duration{0, time.Hour, -time.Hour} {
			store := newStore[user](t, c, options)
			now := func() time.Time { return time.Now().Add(off) }
			store.SetClock(now)
			sess := create(t, store, tanaka)
			require.NoError(t, store.Touch(ctx, sess.ID)) // the script is there now
			n.Reset()
			began := time.Now()
			for range 4 * 90 { // 90 minutes
				redistest.Sleep(15 * time.Second)
				loaded, err := store.Load(ctx, sess.Token())
				require.NoError(t, err)
				require.LessOrEqual(t, now().Sub(loaded.LastSeen), time.Minute, "by this process's clock")
				require.LessOrEqual(t, loaded.ExpiresAt.Sub(now()), 30*time.Minute)
				require.True(t, began.Equal(loaded.CreatedAt), "by Redis' clock")
			}
			require.Equal(t, 4*90+90, n.Trips(), "with a clock off by %v", off)
			redistest.Sleep(30*time.Minute - time.Millisecond)
			requireTTL(t, c, sess.ID, time.Millisecond)
			redistest.Sleep(time.Millisecond)
			requireGone(t, c, sess.ID)
		}
	})
}

// Until a renewal is due a read is one round trip that writes nothing.
func TestReadsWithinTouchEveryWriteNothing(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		n := redistest.Count(c)
		store := newStore[user](t, c, nil)
		sess := create(t, store, tanaka)
		n.Reset()
		for range 50 {
			_, err := store.Load(ctx, sess.Token())
			require.NoError(t, err)
		}
		require.Equal(t, 50, n.Trips())
		require.Subset(t, []string{"hgetall", "pttl"}, n.Commands())
	})
}

// A lifetime may be over while Redis still creates the session: nothing is left of it then.
func TestALifetimeThatEndsAtOnce(t *testing.T) {
	t.Parallel()
	c, prefix := redistest.Real(t).Client(t), redistest.ID()+":"
	for _, idle := range []time.Duration{time.Millisecond, time.Hour} {
		store := newStore[user](t, c, &session.Options{Prefix: prefix, IdleTimeout: idle, Lifetime: time.Millisecond})
		for range 1500 {
			create(t, store, tanaka)
		}
	}
	redistest.Eventually(t, func() bool {
		keys := c.Keys(ctx, prefix+"*").Val()
		for _, key := range keys {
			require.NotEqual(t, time.Duration(-1), c.PTTL(ctx, key).Val(), "%s never ends: %v", key, c.HGetAll(ctx, key).Val())
		}
		return len(keys) == 0
	}, "gone")
}
