package session_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/session"
)

// What got no reply is sent again. Each write has then happened once, and of sessions that nobody knows one was made with
// each lost reply of Create.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t) // it counts keys
		p, direct := s.Proxy(t), s.Client(t)
		store := newStore[user](t, p.Client(t), nil)
		everyUse := newStore[user](t, p.Client(t), &session.Options{TouchEvery: -1})
		create(t, store, tanaka) // the scripts are there from now on
		for name, lose := range map[string]func(int, ...string){"reply dropped": p.DropReplies, "connection closed": p.CloseAfter} {
			before := keys(t, direct)
			lose(2, "evalsha")
			sess := create(t, store, tanaka)
			require.Equal(t, 2, p.Hits(), name)
			require.Equal(t, before+3, keys(t, direct), "%s: one session, and two that nobody has the token of", name)
			requireTTL(t, direct, sess.ID, 30*time.Minute)

			lose(1, "hgetall")
			loaded, err := store.Load(ctx, sess.Token())
			require.NoError(t, err, name)
			require.Equal(t, tanaka, loaded.Data)
			require.True(t, sess.CreatedAt.Equal(loaded.CreatedAt))

			for kind, renews := range map[string]*session.Store[user]{"due": store, "every use": everyUse} {
				require.NoError(t, direct.Expire(ctx, "session:"+sess.ID, 10*time.Minute).Err())
				lose(1, "evalsha")
				loaded, err = renews.Load(ctx, sess.Token())
				require.NoError(t, err, "%s, %s", name, kind)
				require.Equal(t, 1, p.Hits())
				require.Equal(t, tanaka, loaded.Data)
				require.Greater(t, direct.TTL(ctx, "session:"+sess.ID).Val(), 20*time.Minute, "it is renewed")
			}

			lose(2, "evalsha")
			loaded.Data.Role = "member"
			require.NoError(t, store.Save(ctx, loaded), name)
			require.Equal(t, 2, p.Hits())
			require.Equal(t, "member", direct.HGet(ctx, "session:"+sess.ID, "role").Val())

			lose(1, "evalsha")
			require.NoError(t, store.Touch(ctx, sess.ID), name)

			lose(1, "evalsha")
			require.NoError(t, store.Destroy(ctx, sess.ID), name)
			requireGone(t, direct, sess.ID)
		}
	})
}

// keys counts the sessions in the test's database.
func keys(t *testing.T, c *redis.Client) int {
	t.Helper()
	found, err := c.Keys(ctx, "session:*").Result()
	require.NoError(t, err)
	return len(found)
}

// What a Save cannot know it says, and may be repeated.
func TestSaveOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		p := s.Proxy(t)
		hasty := p.Client(t, func(o *redis.Options) { o.MaxRetries = 1 })
		store := newStore[user](t, p.Client(t), nil)
		sess := create(t, newStore[user](t, s.Client(t), nil), tanaka)
		sess.Data.Role = "member"
		p.DropReplies(1000)
		err := newStore[user](t, hasty, nil).Save(ctx, sess)
		require.Error(t, err)
		require.NotErrorIs(t, err, session.ErrNotFound)
		p.DropReplies(0)
		require.NoError(t, newStore[user](t, s.Client(t), nil).Save(ctx, sess))
		loaded, err := store.Load(ctx, sess.Token())
		require.NoError(t, err)
		require.Equal(t, sess.Data, loaded.Data)
	})
}

// operations are all that a store sends; each must report a failure.
func operations(store *session.Store[user], sess *session.Session[user]) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"create": func(ctx context.Context) error { _, err := store.Create(ctx, tanaka); return err },
		"load":   func(ctx context.Context) error { _, err := store.Load(ctx, sess.Token()); return err },
		"by ID":  func(ctx context.Context) error { _, err := store.ByID(ctx, sess.ID); return err },
		"save": func(ctx context.Context) error {
			sess.Data.UserID++
			return store.Save(ctx, sess)
		},
		"update":  func(ctx context.Context) error { return store.Update(ctx, sess, increment) },
		"rotate":  func(ctx context.Context) error { return store.Rotate(ctx, sess) },
		"touch":   func(ctx context.Context) error { return store.Touch(ctx, sess.ID) },
		"destroy": func(ctx context.Context) error { return store.Destroy(ctx, sess.ID) },
	}
}

func TestEndedContextSendsNothing(t *testing.T) {
	t.Parallel()
	c := redistest.Mini(t).Client(t)
	n := redistest.Count(c)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for _, every := range stores {
		store := newStore[user](t, c, &session.Options{TouchEvery: every})
		sess := create(t, store, tanaka)
		n.Reset()
		for name, op := range operations(store, sess) {
			err := op(ended)
			require.ErrorIs(t, err, context.Canceled, name)
			require.ErrorContains(t, err, "session: "+name)
		}
		require.Zero(t, n.Trips())
	}
}

// A call with a deadline of failSoon returns within failLate, even on a busy machine.
const failSoon, failLate = 100 * time.Millisecond, 10 * time.Second

func TestRedisStopped(t *testing.T) {
	t.Parallel()
	s, p := redistest.Own(t)
	c := s.Client(t, func(o *redis.Options) {
		o.MaxRetries, o.DialerRetries = -1, 1
		o.PoolSize = 1000 // after as many failed dials go-redis would dial in the background, which outlives Close by a second
	})
	ops := map[string]func(context.Context) error{}
	for kind, every := range stores {
		store := newStore[user](t, c, &session.Options{TouchEvery: every})
		for name, op := range operations(store, create(t, store, tanaka)) {
			ops[kind+", "+name] = op
		}
	}
	p.Stop()
	for name, op := range ops {
		fails := func(within time.Duration) error {
			bounded, cancel := context.WithTimeout(ctx, within)
			defer cancel()
			began := time.Now()
			err := op(bounded)
			require.Less(t, time.Since(began), failLate, name)
			require.Error(t, err, name)
			require.NotErrorIs(t, err, session.ErrNotFound, name)
			return err
		}
		_ = fails(failSoon) // which may end in the midst of a try, whose reason is then the context's
		var cause *net.OpError
		require.ErrorAs(t, fails(failLate), &cause, name)
	}
}

// A server that accepts and never answers: with ContextTimeoutEnabled each call ends with its context.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		p := s.Proxy(t)
		c := p.Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled, o.ReadTimeout = true, 30*time.Second })
		for _, every := range stores {
			store := newStore[user](t, c, &session.Options{TouchEvery: every})
			sess := create(t, store, tanaka)
			p.BlackHole(true)
			for name, op := range operations(store, sess) {
				if name == "rotate" {
					continue // has more time: TestRotateInABlackHole
				}
				soon, cancel := context.WithTimeout(ctx, failSoon)
				began := time.Now()
				err := op(soon)
				cancel()
				require.Less(t, time.Since(began), failLate, name)
				require.NotErrorIs(t, err, session.ErrNotFound, name)
				var timeout interface{ Timeout() bool }
				require.ErrorAs(t, err, &timeout, name)
				require.True(t, timeout.Timeout(), "%s: %v", name, err)
			}
			p.BlackHole(false)
		}
	})
}

// A key of another type is somebody else's: the error names it, and it stays as it is.
func TestKeyOfAnotherType(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		for _, every := range stores {
			store := newStore[user](t, c, &session.Options{TouchEvery: every})
			sess := create(t, store, tanaka)
			key := "session:" + sess.ID
			require.NoError(t, c.Set(ctx, key, "theirs", 0).Err())
			for name, op := range operations(store, sess) {
				if name == "create" {
					continue // has a key of its own
				}
				err := op(ctx)
				require.ErrorContains(t, err, "WRONGTYPE", name)
				require.ErrorContains(t, err, key, name)
				require.NotErrorIs(t, err, session.ErrNotFound, name)
			}
			require.Equal(t, "theirs", c.Get(ctx, key).Val())
		}
	})
}

// A full Redis refuses a login, and says so.
func TestRedisOutOfMemory(t *testing.T) {
	t.Parallel()
	s, _ := redistest.Own(t)
	c := s.Client(t)
	store := newStore[user](t, c, nil)
	sess := create(t, store, tanaka)
	require.NoError(t, c.ConfigSet(ctx, "maxmemory", "1").Err())
	_, err := store.Create(ctx, tanaka)
	require.True(t, redis.IsOOMError(errors.Unwrap(err)), "%v", err)
	require.EqualValues(t, 1, c.DBSize(ctx).Val())
	_, err = store.Load(ctx, sess.Token())
	require.NoError(t, err, "a read goes on")
	require.NoError(t, store.Touch(ctx, sess.ID), "and so does its renewal")
	require.NoError(t, store.Destroy(ctx, sess.ID))
}

// In a full Redis what must renew the index too goes on, and no login that is refused leaves an entry.
func TestRedisOutOfMemoryWithAnIndexToRenew(t *testing.T) {
	t.Parallel()
	s, _ := redistest.Own(t)
	c := s.Client(t)
	for name, every := range stores {
		store := newStore[user](t, c, &session.Options{UserField: "user_id", Lifetime: -1, TouchEvery: every})
		sess := create(t, store, tanaka)
		key := "session:" + sess.ID
		require.NoError(t, c.ConfigSet(ctx, "maxmemory", "1").Err())
		for renews, renew := range map[string]func() error{
			"load":  func() error { _, err := store.Load(ctx, sess.Token()); return err },
			"touch": func() error { return store.Touch(ctx, sess.ID) },
		} {
			for _, k := range []string{key, "session:user:42"} {
				require.NoError(t, c.Expire(ctx, k, 10*time.Minute).Err())
			}
			require.NoError(t, renew(), "%s, %s", name, renews)
			for _, k := range []string{key, "session:user:42"} {
				require.Greater(t, c.TTL(ctx, k).Val(), 20*time.Minute, "%s, %s: %s is renewed", name, renews, k)
			}
		}
		_, err := store.Create(ctx, tanaka)
		require.True(t, redis.IsOOMError(errors.Unwrap(errors.Unwrap(err))), "%v", err)
		require.Equal(t, []string{sess.ID}, members(c, "42"))
		require.NoError(t, c.ConfigSet(ctx, "maxmemory", "0").Err())
		require.NoError(t, store.Destroy(ctx, sess.ID))
	}
}

// The server is the test's own: other tests lose replies of scripts that they know to be there.
func TestScriptFlushIsHealed(t *testing.T) {
	t.Parallel()
	own, _ := redistest.Own(t)
	c, cluster := own.Client(t), redistest.ThreeMasters(t).Client(t)
	mini := redistest.Mini(t).Client(t)
	auto := func(ap *redis.AutoPipeliner, err error) *redis.AutoPipeliner {
		require.NoError(t, err)
		t.Cleanup(func() { _ = ap.Close() })
		return ap
	}
	flush := func() {
		require.NoError(t, mini.ScriptFlush(ctx).Err())
		require.NoError(t, c.ScriptFlush(ctx).Err())
		require.NoError(t, cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
			return c.ScriptFlush(ctx).Err()
		}))
	}
	for name, c := range map[string]redispatterns.Client{
		"miniredis": mini, "client": c, "cluster": cluster, "autopipeliner": auto(c.AutoPipeline()),
		"async autopipeliner": auto(c.AsyncAutoPipeline()), "autopipelined cluster": auto(cluster.AutoPipeline()),
	} {
		t.Run(name, func(t *testing.T) { testScriptFlush(t, c, flush) })
	}
}

func testScriptFlush(t *testing.T, c redispatterns.Client, flush func()) {
	for _, every := range stores {
		store := newStore[user](t, c, &session.Options{TouchEvery: every})
		for range 3 {
			everyOperation(t, store, flush)
		}
	}
}

func TestThroughEveryClient(t *testing.T) {
	t.Parallel()
	for name, c := range clients(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testEveryOperation(t, c)
		})
	}
}

func testEveryOperation(t *testing.T, c redispatterns.Client) {
	for _, every := range stores {
		store := newStore[user](t, c, &session.Options{TouchEvery: every})
		for range 10 { // over all masters
			everyOperation(t, store, func() {})
		}
	}
}

// everyOperation goes through the life of a session; between its steps it calls before.
func everyOperation(t *testing.T, store *session.Store[user], before func()) {
	t.Helper()
	before()
	sess := create(t, store, tanaka)
	before()
	sess, err := store.Load(ctx, sess.Token())
	require.NoError(t, err)
	sess.Data.Role = "member"
	before()
	require.NoError(t, store.Save(ctx, sess))
	before()
	require.NoError(t, store.Touch(ctx, sess.ID))
	before()
	require.NoError(t, store.Update(ctx, sess, increment))
	before()
	require.NoError(t, store.Rotate(ctx, sess))
	sess, err = store.Load(ctx, sess.Token())
	require.NoError(t, err)
	byID, err := store.ByID(ctx, sess.ID)
	require.NoError(t, err)
	require.Equal(t, user{43, "tanaka", "member"}, byID.Data)
	before()
	require.NoError(t, store.Destroy(ctx, sess.ID))
	_, err = store.Load(ctx, sess.Token())
	require.ErrorIs(t, err, session.ErrNotFound)
}

// A Save that failed may have written: a way back to the old values is written too, and the index follows.
func TestSaveTakenBackAfterALostReply(t *testing.T) {
	t.Parallel()
	type device struct {
		UserID int64  `redis:"user_id"`
		Role   string `redis:"role,omitempty"`
	}
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		p := s.Proxy(t)
		opts := &session.Options{UserField: "user_id"}
		store := newStore[device](t, p.Client(t, func(o *redis.Options) { o.MaxRetries = -1 }), opts)
		direct := newStore[device](t, s.Client(t), opts)
		for name, write := range map[string]func(context.Context, *session.Session[device]) error{"save": store.Save, "rotate": store.Rotate} {
			before := device{UserID: 42}
			sess := create(t, store, before)
			require.NoError(t, store.Save(ctx, sess), "the script is there from now on")
			require.NoError(t, store.Rotate(ctx, sess))

			sess.Data.Role = "admin"
			if name == "save" {
				p.DropReplies(1, "evalsha")
			} else {
				p.DropReplies(1000) // it asks what became of it
			}
			require.Error(t, write(ctx, sess), name)
			p.DropReplies(0)
			after, err := direct.ByID(ctx, sess.ID)
			require.NoError(t, err)
			require.Equal(t, "admin", after.Data.Role, "%s: it was written", name)

			sess.Data.Role = ""
			require.NoError(t, store.Save(ctx, sess), name)
			after, err = direct.ByID(ctx, sess.ID)
			require.NoError(t, err)
			require.Equal(t, before, after.Data, name)

			after.Data.Role = "guest"
			require.NoError(t, direct.Save(ctx, after))
			require.NoError(t, store.Save(ctx, sess))
			after, err = direct.ByID(ctx, sess.ID)
			require.NoError(t, err)
			require.Equal(t, "guest", after.Data.Role, "%s: what is known to be written is not written again", name)
		}
	})
}

// The same for the user: where it goes back, the index has the session, though its entry was taken out meanwhile.
func TestUserTakenBackAfterALostReply(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		p, direct := s.Proxy(t), s.Client(t)
		c := p.Client(t, func(o *redis.Options) { o.MaxRetries = -1 })
		opts := &session.Options{UserField: "user_id"}
		store := newStore[user](t, c, opts)
		sess := create(t, store, tanaka)
		require.NoError(t, store.Touch(ctx, sess.ID), "the script is there from now on")
		scripts := 0
		c.AddHook(beforeScript(func() {
			if scripts++; scripts == 2 { // after the one of the index
				p.DropReplies(1, "evalsha")
			}
		}))
		sess.Data.UserID = 43
		require.Error(t, store.Save(ctx, sess))
		require.Equal(t, 1, p.Hits())
		require.Equal(t, "43", direct.HGet(ctx, "session:"+sess.ID, "user_id").Val())
		require.NoError(t, direct.ZRem(ctx, "session:user:42", sess.ID).Err(), "as a List does once the entry is old")

		sess.Data.UserID = 42
		require.NoError(t, store.Save(ctx, sess))
		list, err := store.List(ctx, "42")
		require.NoError(t, err)
		require.Len(t, list, 1)
	})
}

// holding is a connection on which the network holds back the first script that is sent, and whose client soon has waited
// long enough for the reply.
type holding struct {
	net.Conn
	held  *[]byte
	timed bool
}

func (h *holding) Write(b []byte) (int, error) {
	if *h.held == nil && bytes.Contains(b, []byte("evalsha")) {
		*h.held, h.timed = bytes.Clone(b), true
		return len(b), nil
	}
	return h.Conn.Write(b)
}

func (h *holding) Read(b []byte) (int, error) {
	if h.timed {
		return 0, os.ErrDeadlineExceeded
	}
	return h.Conn.Read(b)
}

// A Create that arrives after the logout brings nothing back that anybody has the token of.
func TestCreateThatComesLate(t *testing.T) {
	t.Parallel()
	s, p := redistest.Own(t)
	direct := newStore[user](t, s.Client(t), nil)
	create(t, direct, tanaka) // the script is there from now on
	var late []byte
	c := s.Client(t, func(o *redis.Options) {
		o.PoolSize = 1 // so that one goroutine at a time looks at late
		o.Dialer = func(context.Context, string, string) (net.Conn, error) {
			conn, err := net.Dial("tcp", p.Addr)
			return &holding{Conn: conn, held: &late}, err
		}
	})
	sess := create(t, newStore[user](t, c, nil), tanaka)
	require.NotEmpty(t, late)
	require.NoError(t, direct.Destroy(ctx, sess.ID))

	conn, err := net.Dial("tcp", p.Addr)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write(late)
	require.NoError(t, err)
	answer := make([]byte, 1)
	_, err = conn.Read(answer)
	require.NoError(t, err)
	require.Equal(t, ":", string(answer), "it made a session")
	_, err = direct.Load(ctx, sess.Token())
	require.ErrorIs(t, err, session.ErrNotFound)
}
