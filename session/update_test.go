package session_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/session"
)

func increment(u *user) error {
	u.UserID++
	return nil
}

// No increment is lost, and none is made twice: those that gave up say so.
func TestParallelUpdatesCount(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		store := newStore[user](t, s.Client(t), nil)
		sess := create(t, store, user{})
		var all sync.WaitGroup
		errs := make([]error, 20)
		for i := range errs {
			all.Go(func() {
				mine, err := store.Load(ctx, sess.Token())
				if err == nil {
					err = store.Update(ctx, mine, increment)
				}
				errs[i] = err
			})
		}
		all.Wait()
		var done int64
		for _, err := range errs {
			if err == nil {
				done++
				continue
			}
			require.ErrorIs(t, err, session.ErrConflict)
		}
		after, err := store.Load(ctx, sess.Token())
		require.NoError(t, err)
		require.Equal(t, done, after.Data.UserID)
		require.Greater(t, done, int64(10))
	})
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		store := newStore[user](t, c, nil)
		sess := create(t, store, tanaka)
		other, err := store.Load(ctx, sess.Token())
		require.NoError(t, err)
		other.Data.Username = "suzuki"
		require.NoError(t, store.Save(ctx, other))

		sess.Data.Role = "dropped"
		require.NoError(t, store.Update(ctx, sess, increment))
		require.Equal(t, user{43, "suzuki", "admin"}, sess.Data, "fresh, and without what was not saved")
		require.Equal(t, other.Token(), sess.Token())
		requireTTL(t, c, sess.ID, 30*time.Minute)
		sess.Data.Role = "member"
		require.NoError(t, store.Save(ctx, sess), "it can be saved afterwards")

		// An error of the function leaves everything as it was.
		mine := errors.New("mine")
		before := c.HGetAll(ctx, "session:"+sess.ID).Val()
		err = store.Update(ctx, sess, func(u *user) error { u.UserID = 0; return mine })
		require.ErrorIs(t, err, mine)
		require.Equal(t, user{43, "suzuki", "member"}, sess.Data)
		require.NoError(t, store.Update(ctx, sess, func(*user) error { return nil }))
		require.Equal(t, before, c.HGetAll(ctx, "session:"+sess.ID).Val(), "nothing changed, nothing is written")
	})
}

// Who always finds another writer's version gives up, after a while or with the context.
func TestUpdateGivesUp(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		direct, hooked := s.Client(t), s.Client(t)
		others, store := newStore[user](t, direct, nil), newStore[user](t, hooked, nil)
		sess := create(t, others, tanaka)
		hooked.AddHook(beforeScript(func() {
			rival, err := others.Load(ctx, sess.Token())
			require.NoError(t, err)
			require.NoError(t, others.Update(ctx, rival, increment))
		}))
		tries := 0
		count := func(u *user) error { tries++; return increment(u) }
		err := store.Update(ctx, sess, count)
		require.ErrorIs(t, err, session.ErrConflict)
		require.NotErrorIs(t, err, session.ErrUnknown)
		require.Equal(t, 20, tries)

		ended, cancel := context.WithCancel(ctx)
		err = store.Update(ended, sess, func(u *user) error {
			if u.UserID > 65 {
				cancel()
			}
			return increment(u)
		})
		require.ErrorIs(t, err, context.Canceled)
	})
}

// An Update whose reply was lost is applied once.
func TestUpdateWithLostReplies(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		p := s.Proxy(t)
		direct, store := newStore[user](t, s.Client(t), nil), newStore[user](t, p.Client(t), nil)
		sess := create(t, direct, tanaka)
		require.NoError(t, store.Update(ctx, sess, increment)) // the script is there now
		want := sess.Data.UserID
		for name, lose := range map[string]func(int, ...string){
			"reply dropped": p.DropReplies, "closed after": p.CloseAfter, "closed before": p.CloseBefore,
		} {
			for range 3 {
				lose(2, "evalsha")
				require.NoError(t, store.Update(ctx, sess, increment), name)
				want++
				after, err := direct.ByID(ctx, sess.ID)
				require.NoError(t, err)
				require.Equal(t, want, after.Data.UserID, name)
				require.Equal(t, want, sess.Data.UserID, name)
			}
		}
	})
}

// Where the reply was lost and another wrote before the question could be asked again, nobody can know.
func TestUpdateOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		p := s.Proxy(t)
		c := p.Client(t)
		direct, store := newStore[user](t, s.Client(t), nil), newStore[user](t, c, nil)
		sess := create(t, direct, tanaka)
		require.NoError(t, store.Update(ctx, sess, increment))
		scripts := 0
		c.AddHook(beforeScript(func() {
			if scripts++; scripts == 2 {
				rival, err := direct.Load(ctx, sess.Token())
				require.NoError(t, err)
				rival.Data.Role = "other"
				require.NoError(t, direct.Save(ctx, rival))
			}
		}))
		p.CloseAfter(1, "evalsha")
		err := store.Update(ctx, sess, increment)
		require.ErrorIs(t, err, session.ErrUnknown)
		require.NotErrorIs(t, err, session.ErrConflict)
		after, err := direct.Load(ctx, sess.Token())
		require.NoError(t, err)
		require.Equal(t, user{44, "tanaka", "other"}, after.Data, "once, and never twice")

		p.CloseAfter(1000, "evalsha")
		err = store.Update(ctx, sess, increment)
		require.ErrorIs(t, err, session.ErrUnknown, "no reply ever came")
		p.CloseAfter(0)
		after, err = direct.Load(ctx, sess.Token())
		require.NoError(t, err)
		require.EqualValues(t, 45, after.Data.UserID)
	})
}

func TestManyUpdatesOverABadNetwork(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		p := s.Proxy(t)
		direct := newStore[user](t, s.Client(t), nil)
		sess := create(t, direct, user{})
		var all sync.WaitGroup
		var mu sync.Mutex
		var done, unknown int64
		for range 8 {
			store := newStore[user](t, p.Client(t), nil)
			all.Go(func() {
				for range 5 {
					p.CloseAfter(1, "evalsha")
					mine, err := store.Load(ctx, sess.Token())
					if err == nil {
						err = store.Update(ctx, mine, increment)
					}
					mu.Lock()
					switch {
					case err == nil:
						done++
					case errors.Is(err, session.ErrUnknown):
						unknown++
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
		after, err := direct.Load(ctx, sess.Token())
		require.NoError(t, err)
		require.GreaterOrEqual(t, after.Data.UserID, done)
		require.LessOrEqual(t, after.Data.UserID, done+unknown)
	})
}
