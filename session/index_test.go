package session_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/session"
)

var indexed = session.Options{UserField: "user_id"}

func ids(t *testing.T, store *session.Store[user], who string) []string {
	t.Helper()
	list, err := store.List(ctx, who)
	require.NoError(t, err)
	got := []string{}
	for _, sess := range list {
		require.Empty(t, sess.Token())
		got = append(got, sess.ID)
	}
	return got
}

// tick lets a clock that stands still go on by the least that tells one login from the next.
func tick(t *testing.T, s *redistest.Server) {
	if !s.IsReal() {
		s.Advance(t, time.Microsecond)
	}
}

func members(c redis.Cmdable, who string) []string {
	return c.ZRange(ctx, "session:user:"+who, 0, -1).Val()
}

func TestListAndDestroyAll(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c := s.Client(t)
		store := newStore[user](t, c, &indexed)
		a := create(t, store, tanaka)
		tick(t, s)
		b, other := create(t, store, tanaka), create(t, store, user{UserID: 43})
		require.Equal(t, []string{a.ID, b.ID}, ids(t, store, "42"), "in the order of their logins")
		require.Equal(t, []string{other.ID}, ids(t, store, "43"))
		require.Empty(t, ids(t, store, "44"))
		list, err := store.List(ctx, "42")
		require.NoError(t, err)
		require.Equal(t, tanaka, list[0].Data)
		require.True(t, a.CreatedAt.Equal(list[0].CreatedAt))
		ttl := c.PTTL(ctx, "session:user:42").Val()
		require.Greater(t, ttl, 12*time.Hour)
		require.LessOrEqual(t, ttl, 12*time.Hour+5*time.Minute)

		require.NoError(t, store.Destroy(ctx, a.ID))
		require.Equal(t, []string{b.ID}, members(c, "42"))
		third, fourth := create(t, store, tanaka), create(t, store, tanaka)
		n, err := store.DestroyAll(ctx, "42", third.ID)
		require.NoError(t, err)
		require.Equal(t, 2, n, "all other devices")
		for _, gone := range []string{b.ID, fourth.ID} {
			requireGone(t, c, gone)
		}
		_, err = store.Load(ctx, third.Token())
		require.NoError(t, err)
		require.Equal(t, []string{third.ID}, members(c, "42"))
		n, err = store.DestroyAll(ctx, "42")
		require.NoError(t, err)
		require.Equal(t, 1, n, "everywhere")
		n, err = store.DestroyAll(ctx, "42")
		require.NoError(t, err)
		require.Zero(t, n)
		require.Equal(t, []string{other.ID}, ids(t, store, "43"), "of another user nothing ends")
		require.Zero(t, c.Exists(ctx, "session:user:42").Val())
	})
}

// More sessions than one pipeline asks for.
func TestManySessionsOfOneUser(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		store := newStore[user](t, s.Client(t), &indexed)
		var want []string
		for range 230 {
			want = append(want, create(t, store, tanaka).ID)
			tick(t, s)
		}
		require.Equal(t, want, ids(t, store, "42"))
		n, err := store.DestroyAll(ctx, "42", want[7])
		require.NoError(t, err)
		require.Equal(t, 229, n)
		require.Equal(t, []string{want[7]}, ids(t, store, "42"))
	})
}

// What cannot be ended keeps nobody else logged in, and the count is right; a script cache that was emptied is no hindrance.
func TestDestroyAllBesideAKeyOfAnotherType(t *testing.T) {
	t.Parallel()
	own, _ := redistest.Own(t)
	for name, s := range map[string]*redistest.Server{"miniredis": redistest.Mini(t), "redis": own} {
		t.Run(name, func(t *testing.T) {
			c := s.Client(t)
			store := newStore[user](t, c, &indexed)
			var made []*session.Session[user]
			for range 3 {
				made = append(made, create(t, store, tanaka))
				tick(t, s)
			}
			theirs := "session:" + made[1].ID
			require.NoError(t, c.Set(ctx, theirs, "theirs", 0).Err())
			require.NoError(t, c.ScriptFlush(ctx).Err())
			n, err := store.DestroyAll(ctx, "42")
			require.ErrorContains(t, err, "WRONGTYPE")
			require.ErrorContains(t, err, theirs)
			require.Equal(t, 2, n)
			require.Equal(t, "theirs", c.Get(ctx, theirs).Val())
			requireGone(t, c, made[0].ID)
			requireGone(t, c, made[2].ID)
		})
	}
}

// One that cannot be ended keeps none of hundreds alive, and its entry stays: it may be a session that lives.
func TestDestroyAllOfHundredsBesideAKeyOfAnotherType(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		prefix := redistest.ID() + ":"
		store := newStore[user](t, c, &session.Options{Prefix: prefix, UserField: indexed.UserField})
		first := create(t, store, tanaka)
		tick(t, s)
		for range 250 {
			create(t, store, tanaka)
		}
		own := c.HGetAll(ctx, prefix+first.ID).Val()
		require.NoError(t, c.Set(ctx, prefix+first.ID, "theirs", 0).Err())
		index := prefix + "user:42"
		for _, id := range c.ZRange(ctx, index, 0, -1).Val() {
			require.NoError(t, c.ZIncrBy(ctx, index, -600e6, id).Err()) // as if it were ten minutes old
		}
		n, err := store.DestroyAll(ctx, "42")
		require.ErrorContains(t, err, "WRONGTYPE")
		require.ErrorContains(t, err, prefix+first.ID)
		require.Equal(t, 250, n)
		require.NoError(t, c.Del(ctx, prefix+first.ID).Err())
		require.NoError(t, c.HSet(ctx, prefix+first.ID, own).Err())
		n, err = store.DestroyAll(ctx, "42")
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}

func TestSessionsOfNobodyAreNotIndexed(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c := s.Client(t)
		store := newStore[user](t, c, &indexed)
		sess := create(t, store, user{Username: "guest"})
		require.EqualValues(t, 1, c.DBSize(ctx).Val())
		for _, nobody := range []string{"", "0"} {
			_, err := store.List(ctx, nobody)
			require.ErrorContains(t, err, "nobody's")
			_, err = store.DestroyAll(ctx, nobody)
			require.ErrorContains(t, err, "nobody's")
		}
		require.NoError(t, store.Destroy(ctx, sess.ID))
		require.Zero(t, c.DBSize(ctx).Val())
	})
}

// A change of the user moves the session, by whatever verb it is made. The entry of before goes at once where it is old
// enough that nobody can be about to move the session back.
func TestChangeOfUserMovesTheEntry(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c := s.Client(t)
		store := newStore[user](t, c, &indexed)
		sess := create(t, store, user{})
		for i, change := range []func(to int64) error{
			func(to int64) error { sess.Data.UserID = to; return store.Save(ctx, sess) },
			func(to int64) error { sess.Data.UserID = to; return store.Rotate(ctx, sess) },
			func(to int64) error {
				return store.Update(ctx, sess, func(u *user) error { u.UserID = to; return nil })
			},
			func(to int64) error { sess.Data.UserID = to; return store.Save(ctx, sess) },
		} {
			to := int64(50 + i)
			require.NoError(t, change(to))
			require.Equal(t, []string{sess.ID}, ids(t, store, fmt.Sprint(to)))
			require.Equal(t, []string{sess.ID}, members(c, fmt.Sprint(to)))
			require.Empty(t, ids(t, store, fmt.Sprint(to-1)))
			if !s.IsReal() {
				require.Empty(t, members(c, fmt.Sprint(to-1)))
				s.Advance(t, 5*time.Minute)
			}
		}
		require.NoError(t, store.Rotate(ctx, sess))
		require.Equal(t, []string{sess.ID}, members(c, "53"), "a Rotate without a change changes nothing")
		sess.Data.UserID = 0
		require.NoError(t, store.Save(ctx, sess))
		require.Empty(t, ids(t, store, "53"), "it is nobody's now")
		if !s.IsReal() {
			require.EqualValues(t, 1, c.DBSize(ctx).Val())
		}
	})
}

// An entry that stayed behind, of a session that is another's by now, destroys nothing, is not listed, and goes with time.
func TestEntryOfAnothersSession(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	c := s.Client(t)
	store := newStore[user](t, c, &indexed)
	sess := create(t, store, user{UserID: 43})
	require.NoError(t, c.ZAdd(ctx, "session:user:42", redis.Z{Score: float64(s.Now(t).UnixMicro()), Member: sess.ID}).Err())
	require.Empty(t, ids(t, store, "42"))
	n, err := store.DestroyAll(ctx, "42")
	require.NoError(t, err)
	require.Zero(t, n)
	require.Equal(t, []string{sess.ID}, members(c, "42"), "for a while it may be one that is about to be created")
	s.Advance(t, 5*time.Minute)
	require.Empty(t, ids(t, store, "42"))
	require.Empty(t, members(c, "42"))
	_, err = store.Load(ctx, sess.Token())
	require.NoError(t, err)
}

// Sessions that expired leave nothing for long: the next login or List drops what is old, and the index has a TTL.
func TestIndexIsPruned(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	c := s.Client(t)
	store := newStore[user](t, c, &indexed)
	for range 100 {
		create(t, store, tanaka)
	}
	s.Advance(t, 31*time.Minute)
	require.Len(t, members(c, "42"), 100)
	last := create(t, store, tanaka)
	require.Equal(t, []string{last.ID}, ids(t, store, "42"))
	require.Equal(t, []string{last.ID}, members(c, "42"), "List drops what is not there")
	for range 100 {
		create(t, store, tanaka)
	}
	s.Advance(t, 12*time.Hour+4*time.Minute)
	last = create(t, store, tanaka)
	require.Len(t, members(c, "42"), 102)
	s.Advance(t, 2*time.Minute)
	next := create(t, store, tanaka)
	require.Equal(t, []string{last.ID, next.ID}, members(c, "42"), "and so does a login")
	s.Advance(t, 12*time.Hour+5*time.Minute)
	require.Zero(t, c.DBSize(ctx).Val())
}

// Without a bound of the lifetime a session that is used stays in the index.
func TestIndexOfUnboundedSessions(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		for name, every := range stores {
			store := newStore[user](t, c, &session.Options{UserField: "user_id", Lifetime: -1, TouchEvery: every})
			sess := create(t, store, tanaka)
			for i := range 300 {
				redistest.Sleep(20 * time.Minute)
				var err error
				switch i / 100 {
				case 0:
					_, err = store.Load(ctx, sess.Token())
				case 1:
					err = store.Touch(ctx, sess.ID)
				case 2:
					sess.Data.Username += "x"
					err = store.Save(ctx, sess)
				}
				require.NoError(t, err, name)
				if i%10 == 0 {
					create(t, store, tanaka) // which drops what is old
				}
				require.Contains(t, members(c, "42"), sess.ID)
			}
			n, err := store.DestroyAll(ctx, "42")
			require.NoError(t, err)
			require.Greater(t, n, 0)
			requireGone(t, c, sess.ID)
		}
	})
}

// A request that lasts, as a websocket does, keeps its session for days, and another may change the user meanwhile.
func TestIndexOfAnUnboundedSessionThatAnotherRequestMoved(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	c := s.Client(t)
	for every, touch := range stores {
		store := newStore[user](t, c, &session.Options{UserField: "user_id", Lifetime: -1, TouchEvery: touch})
		for renews, renew := range map[string]func(*session.Session[user]) error{
			"save without a change": func(sess *session.Session[user]) error { return store.Save(ctx, sess) },
			"save": func(sess *session.Session[user]) error {
				sess.Data.Role += "x"
				return store.Save(ctx, sess)
			},
			"rotate": func(sess *session.Session[user]) error { return store.Rotate(ctx, sess) },
		} {
			for _, before := range []int64{0, 43} {
				name := fmt.Sprintf("%s, %s, from %d", every, renews, before)
				long := create(t, store, user{UserID: before})
				login, err := store.Load(ctx, long.Token())
				require.NoError(t, err)
				login.Data.UserID = 42
				require.NoError(t, store.Save(ctx, login))
				for range 5 {
					s.Advance(t, 25*time.Minute)
					require.NoError(t, renew(long), name)
				}
				require.Equal(t, []string{long.ID}, ids(t, store, "42"), name)
				n, err := store.DestroyAll(ctx, "42")
				require.NoError(t, err)
				require.Equal(t, 1, n, name)
				requireGone(t, c, long.ID)
				require.ErrorIs(t, renew(long), session.ErrNotFound, name)
			}
		}
	}
}

// What cannot be entered in the index is not renewed, be it asked for again and again, or it would outlive its entry.
func TestNoRenewalWithoutAnEntry(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	c := s.Client(t)
	for name, every := range stores {
		store := newStore[user](t, c, &session.Options{UserField: "user_id", Lifetime: -1, TouchEvery: every})
		sess := create(t, store, tanaka)
		require.NoError(t, c.Set(ctx, "session:user:42", "theirs", 0).Err())
		s.Advance(t, 20*time.Minute)
		_, err := store.Load(ctx, sess.Token())
		require.ErrorContains(t, err, "WRONGTYPE", name)
		requireTTL(t, c, sess.ID, 10*time.Minute)
		require.NoError(t, c.Del(ctx, "session:user:42").Err())
		_, err = store.Load(ctx, sess.Token())
		require.NoError(t, err, name)
		require.Equal(t, 30*time.Minute, c.PTTL(ctx, "session:"+sess.ID).Val(), name)
		require.Equal(t, []string{sess.ID}, members(c, "42"), name)
		require.NoError(t, store.Destroy(ctx, sess.ID))
	}
}

func TestIndexNeedsItsOption(t *testing.T) {
	t.Parallel()
	c := redistest.Mini(t).Client(t)
	n := redistest.Count(c)
	store := newStore[user](t, c, nil)
	_, err := store.List(ctx, "42")
	require.EqualError(t, err, `session: list "42": there is no index of users: Options.UserField is not set`)
	_, err = store.DestroyAll(ctx, "42")
	require.EqualError(t, err, `session: destroy all of "42": there is no index of users: Options.UserField is not set`)
	_, err = session.New[user](c, &session.Options{UserField: "name"})
	require.EqualError(t, err, `session: new: Options.UserField is "name", must be in the tag of a field of session_test.user`)
	store = newStore[user](t, c, &indexed)
	_, err = store.DestroyAll(ctx, "42", "not an ID")
	require.ErrorIs(t, err, session.ErrNotFound)
	require.Zero(t, n.Trips())
}

func TestIndexOfAnotherType(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c := s.Client(t)
		require.NoError(t, c.Set(ctx, "session:user:42", "theirs", 0).Err())
		store := newStore[user](t, c, &indexed)
		guest := create(t, store, user{})
		guest.Data.UserID = 42
		for name, err := range map[string]error{
			"create":      second(store.Create(ctx, tanaka)),
			"list":        second(store.List(ctx, "42")),
			"destroy all": second(store.DestroyAll(ctx, "42")),
			"save":        store.Save(ctx, guest),
			"rotate":      store.Rotate(ctx, guest),
		} {
			require.ErrorContains(t, err, "WRONGTYPE", name)
			require.ErrorContains(t, err, `"session:user:42"`, name)
		}
		require.EqualValues(t, 2, c.DBSize(ctx).Val())
		require.Equal(t, "theirs", c.Get(ctx, "session:user:42").Val())
	})
}

func second[T any](_ T, err error) error { return err }

// The sessions and the index lie on different nodes.
func TestIndexThroughEveryClient(t *testing.T) {
	t.Parallel()
	for name, c := range clients(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			type named struct {
				Name string `redis:"name"`
			}
			store := newStore[named](t, c, &session.Options{UserField: "name"})
			who := redistest.ID()
			for range 12 {
				create(t, store, named{who})
			}
			list, err := store.List(ctx, who)
			require.NoError(t, err)
			require.Len(t, list, 12)
			to := redistest.ID()
			sess := list[0]
			sess.Data.Name = to
			require.NoError(t, store.Save(ctx, sess))
			n, err := store.DestroyAll(ctx, who, list[1].ID)
			require.NoError(t, err)
			require.Equal(t, 10, n)
			n, err = store.DestroyAll(ctx, to)
			require.NoError(t, err)
			require.Equal(t, 1, n)
		})
	}
}

func TestIndexWithLostReplies(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		p, c := s.Proxy(t), s.Client(t)
		direct, store := newStore[user](t, c, &indexed), newStore[user](t, p.Client(t), &indexed)
		for _, lose := range []func(int, ...string){p.DropReplies, p.CloseAfter} {
			lose(1)
			a := create(t, store, tanaka)
			b := create(t, store, user{})
			require.Equal(t, []string{a.ID}, ids(t, direct, "42"))
			lose(1)
			b.Data.UserID = 42
			require.NoError(t, store.Save(ctx, b))
			require.ElementsMatch(t, []string{a.ID, b.ID}, ids(t, direct, "42"))
			lose(1, "zrange")
			require.Len(t, ids(t, store, "42"), 2)
			lose(1, "evalsha")
			_, err := store.DestroyAll(ctx, "42")
			require.NoError(t, err)
			require.Empty(t, ids(t, direct, "42"))
			requireGone(t, c, a.ID)
			requireGone(t, c, b.ID)
		}
	})
}

func TestIndexWhenRedisStops(t *testing.T) {
	t.Parallel()
	s, p := redistest.Own(t)
	c := s.Client(t, func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 })
	store := newStore[user](t, c, &indexed)
	create(t, store, tanaka)
	p.Stop()
	for name, err := range map[string]error{
		"create": second(store.Create(ctx, tanaka)), "list": second(store.List(ctx, "42")), "destroy all": second(store.DestroyAll(ctx, "42")),
	} {
		require.NotErrorIs(t, err, session.ErrNotFound, name)
		var cause *net.OpError
		require.ErrorAs(t, err, &cause, name)
	}
}

// dying is a client whose process stops after some requests.
type dying struct {
	redispatterns.Client
	left atomic.Int32
}

var errDead = errors.New("the process has stopped")

func (d *dying) Process(ctx context.Context, cmd redis.Cmder) error {
	if d.left.Add(-1) < 0 {
		cmd.SetErr(errDead)
		return errDead
	}
	return d.Client.Process(ctx, cmd)
}

func (d *dying) Pipelined(ctx context.Context, fn func(redis.Pipeliner) error) ([]redis.Cmder, error) {
	if d.left.Add(-1) < 0 {
		return nil, errDead
	}
	return d.Client.Pipelined(ctx, fn)
}

// A process that stops between any two of its requests leaves no session out of its user's index, and no key without TTL.
func TestProcessStopsBetweenAnyTwoRequests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]redis.Cmdable{
		"redis": redistest.Real(t).Client(t), "cluster": redistest.ThreeMasters(t).Client(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := c.(redispatterns.Client)
			for _, lifetime := range []time.Duration{time.Hour, -1} {
				for op, run := range map[string]func(*session.Store[user], *session.Session[user]) error{
					"create": func(store *session.Store[user], _ *session.Session[user]) error {
						return second(store.Create(ctx, user{UserID: 1}))
					},
					"rotate": func(store *session.Store[user], sess *session.Session[user]) error {
						sess.Data.UserID = 2
						return store.Rotate(ctx, sess)
					},
					"save": func(store *session.Store[user], sess *session.Session[user]) error {
						sess.Data.UserID = 2
						return store.Save(ctx, sess)
					},
					"update": func(store *session.Store[user], sess *session.Session[user]) error {
						return store.Update(ctx, sess, func(u *user) error { u.UserID = 2; return nil })
					},
					"become nobody": func(store *session.Store[user], sess *session.Session[user]) error {
						sess.Data.UserID = 0
						return store.Save(ctx, sess)
					},
					"destroy": func(store *session.Store[user], sess *session.Session[user]) error {
						return store.Destroy(ctx, sess.ID)
					},
					"destroy all": func(store *session.Store[user], _ *session.Session[user]) error {
						return second(store.DestroyAll(ctx, "1"))
					},
					"touch": func(store *session.Store[user], sess *session.Session[user]) error {
						return store.Touch(ctx, sess.ID)
					},
				} {
					for requests := int32(0); ; requests++ {
						require.Less(t, requests, int32(10), op)
						opts := &session.Options{Prefix: redistest.ID() + ":", UserField: "user_id", Lifetime: lifetime}
						d := &dying{Client: client}
						d.left.Store(requests)
						healthy := newStore[user](t, client, opts)
						sessions := []*session.Session[user]{create(t, healthy, user{UserID: 1}), create(t, healthy, user{UserID: 1})}
						_ = run(newStore[user](t, d, opts), sessions[0])
						requireIndexed(t, c, healthy, opts.Prefix)
						for _, who := range []string{"1", "2"} {
							_, err := healthy.DestroyAll(ctx, who)
							require.NoError(t, err)
						}
						for _, sess := range sessions {
							if left, err := healthy.ByID(ctx, sess.ID); err == nil {
								require.Zero(t, left.Data.UserID, "%s, stopped after %d: a session escaped", op, requests)
							}
						}
						if d.left.Load() >= 0 {
							break // it came to its end
						}
					}
				}
			}
		})
	}
}

// requireIndexed looks at every key with a prefix: each session of a user is in the user's index.
func requireIndexed(t *testing.T, c redis.Cmdable, store *session.Store[user], prefix string) {
	t.Helper()
	scan := func(ctx context.Context, node *redis.Client) error {
		keys, err := node.Keys(ctx, prefix+"*").Result()
		if err != nil {
			return err
		}
		for _, key := range keys {
			if ttl := node.PTTL(ctx, key).Val(); ttl == -1 {
				return fmt.Errorf("%s has no TTL", key)
			}
			if node.Type(ctx, key).Val() != "hash" {
				continue
			}
			who := node.HGet(ctx, key, "user_id").Val()
			if who == "0" {
				continue
			}
			if err := c.ZScore(ctx, prefix+"user:"+who, key[len(prefix):]).Err(); err != nil {
				return fmt.Errorf("%s is not in the index of %s: %w", key, who, err)
			}
		}
		return nil
	}
	switch c := c.(type) {
	case *redis.ClusterClient:
		require.NoError(t, c.ForEachMaster(ctx, scan))
	case *redis.Client:
		require.NoError(t, scan(ctx, c))
	}
}

// Of requests that move one session to and fro at once, the last has its way and the index is right.
func TestParallelMoves(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		opts := &session.Options{Prefix: redistest.ID() + ":", UserField: "user_id"}
		store := newStore[user](t, c, opts)
		for range 10 {
			sess := create(t, store, user{UserID: 1})
			var all sync.WaitGroup
			for i := range 6 {
				mine, err := store.ByID(ctx, sess.ID)
				require.NoError(t, err)
				all.Go(func() {
					mine.Data.UserID = int64(1 + i%3)
					_ = store.Save(ctx, mine)
				})
			}
			all.Wait()
			requireIndexed(t, c, store, opts.Prefix)
		}
	})
}

// What an entry in the index costs.
func TestBytesPerIndexEntry(t *testing.T) {
	t.Parallel()
	s, _ := redistest.Own(t)
	c := s.Client(t)
	store := newStore[user](t, c, &indexed)
	for range 100 {
		create(t, store, tanaka)
	}
	each := c.MemoryUsage(ctx, "session:user:42").Val() / 100
	t.Logf("%d bytes per entry", each)
	require.LessOrEqual(t, each, int64(50))
}
