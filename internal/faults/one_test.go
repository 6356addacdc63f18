package faults_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
	"github.com/redispatterns/redispatterns/ranking"
	"github.com/redispatterns/redispatterns/ratelimit"
	"github.com/redispatterns/redispatterns/session"
)

func nothing(context.Context) error { return nil }

// oneServer is a world of a single server. Its clients give up soon.
func oneServer(t *testing.T, set ...func(*redis.Options)) (*world, *redis.Client, *redistest.Process) {
	t.Helper()
	s, p := redistest.Own(t)
	w := &world{strike: nothing, heal: nothing, settle: nothing}
	w.connect = func() client {
		o := s.Options()
		o.Network, o.Addr = "tcp", p.Addr
		o.MaxRetries, o.DialerRetries, o.MaxRetryBackoff = 1, 1, 10*time.Millisecond
		for _, f := range set {
			f(o)
		}
		return redis.NewClient(o)
	}
	return w, s.Client(t, func(o *redis.Options) { o.ReadTimeout = time.Minute }), p
}

// commands sends commands one after the other.
func commands(c *redis.Client, all ...[]any) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, args := range all {
			if err := c.Do(ctx, args...).Err(); err != nil {
				return fmt.Errorf("%v: %w", args, err)
			}
		}
		return nil
	}
}

func isDialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) || strings.Contains(err.Error(), "EOF")
}

var restart = fault{
	name:  "a restart without persistence",
	story: "Redis dies, refuses connections for a while, and comes back empty: there is no snapshot and no append-only file.",
	start: func(t *testing.T) *world {
		w, _, p := oneServer(t)
		w.strike = func(context.Context) error { p.Kill(); return nil }
		w.heal = func(context.Context) error { return p.Restart() }
		return w
	},
	cells: map[string]cell{
		"session": {
			sees: "While it is down, the client's network error; `Require` answers 503 and not 401. Afterwards `ErrNotFound`: everybody has to log in again.",
			lost: "Every session.",
			long: "Errors until Redis is back and the client has noticed; the sessions for good.",
			check: func(c *check) {
				s := c.store()
				sess, others := c.login(s), c.sessionReads(s, c.login(s)).and(c.sessionStores(s)).and(c.sessionEnds(s))
				c.strike()
				c.refused(others, isDialError, noSession...)
				require.Equal(c, http.StatusServiceUnavailable, c.status(s, sess.Token()))
				c.heal()
				c.recovers(c.sessionCreates(s))
				_, err := s.Load(c, sess.Token())
				require.ErrorIs(c, err, session.ErrNotFound)
				require.Equal(c, http.StatusUnauthorized, c.status(s, sess.Token()))
				c.stillLoggedIn(s, c.login(s))
			},
		},
		"ratelimit": {
			sees: "While it is down, `ErrUnavailable`, or what `OnFailure` says, with `ReasonUnavailable`; `Middleware` answers 503 and not 429. Never a denial.",
			lost: "Every count: an id may take its whole limit again.",
			long: "Errors until Redis is back and the client has noticed; the counts for good.",
			check: func(c *check) {
				limiters := c.limiters(perDecade(5), ratelimit.FailWithError)
				open, closed := c.limiters(perDecade(5), ratelimit.FailOpen), c.limiters(perDecade(5), ratelimit.FailClosed)
				c.work(c.take(limiters))
				c.strike()
				c.refused(c.take(limiters).and(c.peek(limiters)).and(c.reset(limiters)), isUnavailable, errDenied)
				c.policies(open, closed)
				require.Equal(c, http.StatusServiceUnavailable, c.limitedStatus(limiters["token bucket"]))
				c.heal()
				c.recovers(c.peek(limiters)) // while the circuit is open, one call in 200 ms tries
				c.remaining(limiters, 5)
			},
		},
		"ranking": {
			sees: "While it is down, the client's network error. Afterwards an empty board: `Top` has no entries, and `Get` is `ErrNotFound`.",
			lost: "Every board.",
			long: "Errors until Redis is back and the client has noticed; the boards for good.",
			check: func(c *check) {
				boards := c.boards()
				c.strike()
				c.refused(c.boardReads(boards).and(c.boardWrites(boards)).and(c.boardRemoves(boards)), isDialError, noRank...)
				c.heal()
				for _, b := range boards {
					c.eventually(func() bool { n, err := b.Count(c); return err == nil && n == 0 }, "it is empty")
					_, err := b.Get(c, "alice")
					require.ErrorIs(c, err, ranking.ErrNotFound)
					u, err := b.Increment(c, "alice", 1)
					require.NoError(c, err)
					require.EqualValues(c, 1, u.Score)
				}
			},
		},
		"lock": {
			sees: "While it is down, the client's network error, never `ErrNotAcquired`. The context of a lease that was held ends with `ErrLost`; its `Release` is `ErrLost`.",
			lost: "Every lock: another can take the name as soon as Redis is back, with a larger fence, before the first holder knows.",
			long: "A holder knows by its next renewal, or anything else that it asks, and after a TTL at the latest.",
			check: func(c *check) {
				l := c.locker(nil)
				held, long, others := c.hold(l, c.name()), c.holdLong(), c.acquisitions(l).and(c.lockReads(l))
				c.strike()
				c.refused(others, isDialError, notTaken...)
				c.heal()
				c.recovers(c.lockReads(l))
				c.overtaken(long)
				c.lostInTime(held)
			},
		},
	},
}

var readOnly = fault{
	name:  "READONLY",
	story: "The server that the client talks to has become a replica, as after a failover that the client has not heard of yet. It answers reads and refuses writes.",
	start: func(t *testing.T) *world {
		w, admin, _ := oneServer(t)
		w.strike = commands(admin, []any{"replicaof", "127.0.0.1", "1"}) // of nobody, so it keeps its data
		w.heal = commands(admin, []any{"replicaof", "no", "one"})
		return w
	},
	cells: map[string]cell{
		"session": {
			sees: "Reads go on. What writes is Redis' READONLY error.",
			lost: "Nothing: what was refused was not written.",
			long: "Until the client talks to a master again.",
			check: func(c *check) {
				s := c.store()
				sess := c.login(s)
				reads, writes := c.sessionReads(s, sess), c.sessionStores(s).and(c.sessionEnds(s))
				c.strike()
				c.work(reads)
				c.refused(writes, redis.IsReadOnlyError, unsent...)
				c.heal()
				c.stillLoggedIn(s, sess)
				c.work(reads.and(writes))
			},
		},
		"ratelimit": {
			sees: "`Peek` goes on. What counts is `ErrUnavailable`, or what `OnFailure` says; never a denial.",
			lost: "Nothing, and nothing is counted.",
			long: "Until the client talks to a master again.",
			check: func(c *check) {
				limiters := c.limiters(perDecade(5), ratelimit.FailWithError)
				open, closed := c.limiters(perDecade(5), ratelimit.FailOpen), c.limiters(perDecade(5), ratelimit.FailClosed)
				c.work(c.take(limiters))
				c.strike()
				c.work(c.peek(limiters))
				c.refused(c.take(limiters), isUnavailable, errDenied, ratelimit.ErrUnknown)
				c.policies(open, closed)
				c.heal()
				c.remaining(limiters, 4)
				c.work(c.take(limiters).and(c.reset(limiters)))
			},
		},
		"ranking": {
			sees: "Reads go on. What writes is Redis' READONLY error; an `Increment` is not `ErrUnknown`, since it was not applied.",
			lost: "Nothing: what was refused was not written.",
			long: "Until the client talks to a master again.",
			check: func(c *check) {
				boards := c.boards()
				reads, writes := c.boardReads(boards), c.boardWrites(boards).and(c.boardRemoves(boards))
				c.strike()
				c.work(reads)
				c.refused(writes, redis.IsReadOnlyError, neverSent...)
				c.heal()
				c.score(boards, "alice", 10)
				c.work(writes)
				c.score(boards, "erin", 1)
				c.score(boards, "frank", 1)
			},
		},
		"lock": {
			sees: "`Status` goes on. An acquisition is Redis' READONLY error, never `ErrNotAcquired`. A lease cannot be renewed, so its context ends with `ErrLost`.",
			lost: "The leases that are held, if it lasts.",
			long: "A holder knows after a TTL at the latest; then the name is free.",
			check: func(c *check) {
				l := c.locker(nil)
				name := c.name()
				held, others, reads := c.hold(l, name), c.acquisitions(l), c.lockReads(l)
				c.strike()
				c.work(reads)
				c.refused(others, redis.IsReadOnlyError, notTaken...)
				c.lostInTime(held)
				c.heal()
				c.work(others)
				c.eventually(func() bool { s, err := l.Mutex(name).Status(c); return err == nil && !s.Held }, "it lapsed")
				require.NoError(c, c.takenOver(name, held.Fence()).Release(c))
			},
		},
	},
}

var loading = fault{
	name:  "LOADING",
	story: "Redis has been started again and is reading its data from disk. It answers every command with LOADING until it has.",
	start: func(t *testing.T) *world {
		w, admin, _ := oneServer(t)
		var reloaded chan error
		w.strike = func(ctx context.Context) error {
			// So many keys, each of which takes so long (µs), that heal comes before the end; and an answer after every few.
			err := commands(admin,
				[]any{"eval", "for i = 1, 100000 do redis.call('SET', 'filler:' .. i, string.rep('x', 100)) end return 1", 0},
				[]any{"config", "set", "rdbcompression", "no"}, []any{"config", "set", "key-load-delay", 500},
				[]any{"config", "set", "loading-process-events-interval-bytes", 1024},
			)(ctx)
			if err != nil {
				return err
			}
			reloaded = make(chan error, 1)
			go func() { reloaded <- admin.Do(context.WithoutCancel(ctx), "debug", "reload").Err() }()
			for ctx.Err() == nil {
				if redis.IsLoadingError(admin.Get(ctx, "filler:1").Err()) {
					return nil
				}
			}
			return ctx.Err()
		}
		w.heal = func(ctx context.Context) error {
			if reloaded == nil {
				return nil
			}
			return errors.Join(commands(admin, []any{"config", "set", "key-load-delay", 0})(context.WithoutCancel(ctx)), <-reloaded)
		}
		return w
	},
	cells: map[string]cell{
		"session": {
			sees: "Redis' LOADING error, once go-redis has tried as often as it is told to. Nobody is `ErrNotFound` because his session is not loaded yet.",
			lost: "Nothing more than the disk has lost.",
			long: "Until all is loaded.",
			check: func(c *check) {
				s := c.store()
				sess := c.login(s)
				all := c.sessionReads(s, sess).and(c.sessionStores(s)).and(c.sessionEnds(s))
				c.strike()
				c.refused(all, redis.IsLoadingError, unsent...)
				c.heal()
				c.stillLoggedIn(s, sess)
				c.work(all)
			},
		},
		"ratelimit": {
			sees: "`ErrUnavailable`, or what `OnFailure` says; never a denial.",
			lost: "Nothing more than the disk has lost.",
			long: "Until all is loaded.",
			check: func(c *check) {
				limiters := c.limiters(perDecade(5), ratelimit.FailWithError)
				open, closed := c.limiters(perDecade(5), ratelimit.FailOpen), c.limiters(perDecade(5), ratelimit.FailClosed)
				c.work(c.take(limiters))
				c.strike()
				c.refused(c.take(limiters).and(c.peek(limiters)).and(c.reset(limiters)), isUnavailable, errDenied, ratelimit.ErrUnknown)
				c.policies(open, closed)
				c.heal()
				c.remaining(limiters, 4)
			},
		},
		"ranking": {
			sees: "Redis' LOADING error. No board is taken for empty, and an `Increment` is not `ErrUnknown`, since it was not applied.",
			lost: "Nothing more than the disk has lost.",
			long: "Until all is loaded.",
			check: func(c *check) {
				boards := c.boards()
				all := c.boardReads(boards).and(c.boardWrites(boards)).and(c.boardRemoves(boards))
				c.strike()
				c.refused(all, redis.IsLoadingError, neverSent...)
				c.heal()
				c.score(boards, "alice", 10)
				c.work(all)
				c.score(boards, "erin", 1)
			},
		},
		"lock": {
			sees: "Redis' LOADING error, never `ErrNotAcquired`. A lease cannot be renewed: if loading outlasts it, its context ends with `ErrLost`.",
			lost: "The leases that are held, if it lasts.",
			long: "A holder knows after a TTL at the latest.",
			check: func(c *check) {
				l := c.locker(nil)
				name := c.name()
				held, others := c.hold(l, name), c.acquisitions(l).and(c.lockReads(l))
				c.strike()
				c.refused(others, redis.IsLoadingError, notTaken...)
				c.lostInTime(held)
				c.heal()
				c.work(others)
				require.NoError(c, c.takenOver(name, held.Fence()).Release(c))
			},
		},
	},
}

var outOfMemory = fault{
	name:  "a full Redis (noeviction)",
	story: "Redis has reached `maxmemory` and its policy is `noeviction`: it refuses what needs memory.",
	start: func(t *testing.T) *world {
		w, admin, _ := oneServer(t)
		w.strike = commands(admin, []any{"config", "set", "maxmemory-policy", "noeviction"}, []any{"config", "set", "maxmemory", 1})
		w.heal = commands(admin, []any{"config", "set", "maxmemory", 0})
		return w
	},
	cells: map[string]cell{
		"session": {
			sees: "Who is logged in stays so: reads, `Touch` and `Destroy` go on. `Create`, `Save`, `Update` and `Rotate` are Redis' OOM error.",
			lost: "Nothing: what was refused was not written.",
			long: "Until there is memory.",
			check: func(c *check) {
				s := c.store()
				sess := c.login(s)
				reads, stores, ends := c.sessionReads(s, sess), c.sessionStores(s), c.sessionEnds(s)
				c.strike()
				c.work(reads.and(ends))
				c.refused(stores, redis.IsOOMError, unsent...)
				c.heal()
				c.stillLoggedIn(s, sess)
				c.work(stores)
			},
		},
		"ratelimit": {
			sees: "`Peek` and `Reset` go on. What counts is `ErrUnavailable`, or what `OnFailure` says; never a denial. A sliding window alone goes on counting: its script begins by removing, and Redis does not stop a script that has begun.",
			lost: "Nothing, and what is an error is not counted.",
			long: "Until there is memory.",
			check: func(c *check) {
				limiters := c.limiters(perDecade(5), ratelimit.FailWithError)
				open, closed := c.limiters(perDecade(5), ratelimit.FailOpen), c.limiters(perDecade(5), ratelimit.FailClosed)
				const log = "sliding window"
				logs := map[string]*ratelimit.Limiter{log: limiters[log]}
				for _, all := range []map[string]*ratelimit.Limiter{limiters, open, closed} {
					delete(all, log)
				}
				c.work(c.take(limiters).and(c.take(logs)))
				c.strike()
				c.work(c.peek(limiters).and(c.reset(limiters)).and(c.take(logs)))
				c.refused(c.take(limiters), func(err error) bool { return isUnavailable(err) && strings.Contains(err.Error(), "OOM") },
					errDenied, ratelimit.ErrUnknown)
				c.policies(open, closed)
				c.heal()
				c.remaining(limiters, 4)
				c.remaining(logs, 3)
				c.work(c.take(limiters))
			},
		},
		"ranking": {
			sees: "Reads and `Remove` go on. What writes a score is Redis' OOM error; an `Increment` is not `ErrUnknown`, since it was not applied.",
			lost: "Nothing: what was refused was not written.",
			long: "Until there is memory.",
			check: func(c *check) {
				boards := c.boards()
				reads, writes, removes := c.boardReads(boards), c.boardWrites(boards), c.boardRemoves(boards)
				c.strike()
				c.work(reads.and(removes))
				c.refused(writes, redis.IsOOMError, neverSent...)
				c.heal()
				c.score(boards, "alice", 10)
				c.work(writes)
				c.score(boards, "erin", 1)
				c.score(boards, "frank", 1)
			},
		},
		"lock": {
			sees: "An acquisition is Redis' OOM error, never `ErrNotAcquired`. A lease that is held goes on: it is renewed, and it can be released.",
			lost: "Nothing.",
			long: "Until there is memory.",
			check: func(c *check) {
				l := c.locker(&lock.Options{TTL: longLease})
				held, others, released := c.hold(l, c.name()), c.acquisitions(l), c.hold(l, c.name())
				c.strike()
				c.refused(others, redis.IsOOMError, notTaken...)
				require.NoError(c, released.Release(c))
				until := time.Now().Add(longLease)
				c.eventually(func() bool { return held.Until().After(until) }, "it is renewed beyond its first TTL")
				require.True(c, held.Held())
				c.heal()
				c.work(others)
				require.NoError(c, held.Release(c))
			},
		},
	},
}

var eviction = fault{
	name:  "eviction of our keys (allkeys-lru)",
	story: "Redis has reached `maxmemory` and its policy is `allkeys-lru`: it makes room by deleting keys, and ours are among them. Give these keys a Redis with `noeviction`.",
	start: func(t *testing.T) *world {
		w, admin, _ := oneServer(t)
		w.strike = func(ctx context.Context) error {
			ours, err := admin.Keys(ctx, "*").Result()
			if err != nil {
				return err
			}
			info, err := admin.InfoMap(ctx, "memory").Result()
			if err != nil {
				return err
			}
			var used int64
			if _, err := fmt.Sscan(info["Memory"]["used_memory"], &used); err != nil {
				return err
			}
			if err := commands(admin, []any{"config", "set", "maxmemory-policy", "allkeys-lru"},
				[]any{"config", "set", "maxmemory", used + 2<<20})(ctx); err != nil {
				return err
			}
			for filler := strings.Repeat("x", 10_000); ctx.Err() == nil; {
				if _, err := admin.Pipelined(ctx, func(p redis.Pipeliner) error {
					for range 100 {
						p.Set(ctx, "filler:"+redistest.ID(), filler, 0)
					}
					return nil
				}); err != nil {
					return err
				}
				if n, err := admin.Exists(ctx, ours...).Result(); n == 0 || err != nil {
					return err
				}
			}
			return ctx.Err()
		}
		w.heal = commands(admin, []any{"config", "set", "maxmemory", 0})
		return w
	},
	cells: map[string]cell{
		"session": {
			sees: "`ErrNotFound`: an evicted session cannot be told from one that has expired. A `Save` brings nothing back.",
			lost: "Any session, and any user's index.",
			long: "For good: the user has to log in again.",
			check: func(c *check) {
				s := c.store()
				sess := c.login(s)
				c.strike()
				_, err := s.Load(c, sess.Token())
				require.ErrorIs(c, err, session.ErrNotFound)
				sess.Data.Count++
				require.ErrorIs(c, s.Save(c, sess), session.ErrNotFound)
				list, err := s.List(c, sess.Data.Name)
				require.NoError(c, err)
				require.Empty(c, list)
				c.heal()
				c.stillLoggedIn(s, c.login(s))
			},
		},
		"ratelimit": {
			sees: "Nothing. There is no error: the id stands as if it had taken nothing.",
			lost: "Any count: an id may take its whole limit again.",
			long: "Until the window would have ended.",
			check: func(c *check) {
				limiters := c.limiters(perDecade(5), ratelimit.FailWithError)
				c.work(c.take(limiters))
				c.remaining(limiters, 4)
				c.strike()
				c.heal()
				c.remaining(limiters, 5)
				c.work(c.take(limiters))
			},
		},
		"ranking": {
			sees: "Nothing. There is no error: the whole board is one key, and empty when it is evicted (`Get` is `ErrNotFound`).",
			lost: "Any board, as a whole.",
			long: "For good.",
			check: func(c *check) {
				boards := c.boards()
				c.strike()
				c.heal()
				for name, b := range boards {
					_, err := b.Get(c, "alice")
					require.ErrorIs(c, err, ranking.ErrNotFound, name)
					top, err := b.Top(c, 10)
					require.NoError(c, err)
					require.Empty(c, top, name)
				}
				c.work(c.boardWrites(boards))
				c.score(boards, "erin", 1)
			},
		},
		"lock": {
			sees: "The holder's context ends with `ErrLost`; its `Extend` and `Release` are `ErrLost`.",
			lost: "Any lock, and its fence: another can take the name before the first holder knows. The new fence is larger all the same, as it is made of the server's time.",
			long: "A holder knows by its next renewal, or anything else that it asks, and after a TTL at the latest.",
			check: func(c *check) {
				held, long := c.hold(c.locker(nil), c.name()), c.holdLong()
				c.strike()
				c.heal()
				c.overtaken(long)
				c.lostInTime(held)
			},
		},
	},
}

var fullPool = fault{
	name:  "a full client pool",
	story: "All connections that the client's `PoolSize` and `PipelinePoolSize` allow are busy, and none becomes free within its `PoolTimeout`.",
	start: func(t *testing.T) *world {
		w, admin, _ := oneServer(t, func(o *redis.Options) {
			o.PoolSize, o.PipelinePoolSize, o.PoolTimeout, o.ReadTimeout = 1, 1, 20*time.Millisecond, time.Minute
		})
		const held = "hold"
		var busy sync.WaitGroup
		var taken []*redis.Conn
		w.strike = func(ctx context.Context) error {
			for _, c := range w.clients {
				conn := c.(*redis.Client).Conn()
				taken = append(taken, conn)
				for conn.Ping(ctx).Err() != nil && ctx.Err() == nil { // a lease may be renewed just now
					continue
				}
				busy.Go(func() { // go-redis has a pool for pipelines besides
					wait := func(p redis.Pipeliner) error { return p.BLPop(ctx, 0, held).Err() }
					for {
						if _, err := c.Pipelined(ctx, wait); !isPoolTimeout(err) {
							return
						}
					}
				})
			}
			for ctx.Err() == nil {
				info, err := admin.InfoMap(ctx, "clients").Result()
				if err != nil || info["Clients"]["blocked_clients"] == fmt.Sprint(len(w.clients)) {
					return err
				}
			}
			return ctx.Err()
		}
		w.heal = func(ctx context.Context) error {
			errs := []error{admin.RPush(ctx, held, 1, 2, 3, 4).Err()}
			busy.Wait()
			for _, conn := range taken {
				errs = append(errs, conn.Close())
			}
			return errors.Join(errs...)
		}
		return w
	},
	cells: map[string]cell{
		"session": {
			sees: "`redis.ErrPoolTimeout`, wrapped. Nothing was sent, so nothing is `ErrUnknown`, and nobody is `ErrNotFound`.",
			lost: "Nothing.",
			long: "Until a connection is free.",
			check: func(c *check) {
				s := c.store()
				sess := c.login(s)
				reads, writes := c.sessionReads(s, sess), c.sessionStores(s).and(c.sessionEnds(s))
				c.strike()
				c.refused(reads.and(writes), isPoolTimeout, unsent...)
				c.heal()
				c.stillLoggedIn(s, sess)
				c.recovers(writes) // one after the other: there is one connection
			},
		},
		"ratelimit": {
			sees: "`ErrUnavailable`, or what `OnFailure` says, and not `ErrUnknown`, since nothing was sent; never a denial.",
			lost: "Nothing, and nothing is counted.",
			long: "Until a connection is free.",
			check: func(c *check) {
				limiters := c.limiters(perDecade(5), ratelimit.FailWithError)
				open, closed := c.limiters(perDecade(5), ratelimit.FailOpen), c.limiters(perDecade(5), ratelimit.FailClosed)
				c.recovers(c.take(limiters))
				c.strike()
				c.refused(c.take(limiters).and(c.peek(limiters)), isUnavailable, errDenied, ratelimit.ErrUnknown)
				c.policies(open, closed)
				c.heal()
				c.recovers(c.peek(limiters)) // while the circuit is open, one call in 200 ms tries
				c.remaining(limiters, 4)
			},
		},
		"ranking": {
			sees: "`redis.ErrPoolTimeout`, wrapped. Nothing was sent, so an `Increment` is not `ErrUnknown`.",
			lost: "Nothing.",
			long: "Until a connection is free.",
			check: func(c *check) {
				boards := c.boards()
				all := c.boardReads(boards).and(c.boardWrites(boards)).and(c.boardRemoves(boards))
				c.strike()
				c.refused(all, isPoolTimeout, neverSent...)
				c.heal()
				c.score(boards, "alice", 10)
				c.recovers(all)
				c.score(boards, "erin", 1)
			},
		},
		"lock": {
			sees: "An acquisition is `redis.ErrPoolTimeout`, wrapped, never `ErrNotAcquired`. A lease cannot be renewed, so if it lasts its context ends with `ErrLost`.",
			lost: "The leases that are held, if it lasts.",
			long: "A holder knows after a TTL at the latest; then the name is free.",
			check: func(c *check) {
				l := c.locker(nil)
				name := c.name()
				held, others := c.hold(l, name), c.acquisitions(l).and(c.lockReads(l))
				c.strike()
				c.refused(others, isPoolTimeout, notTaken...)
				c.lostInTime(held)
				c.heal()
				c.recovers(others)
				c.eventually(func() bool { s, err := l.Mutex(name).Status(c); return err == nil && !s.Held }, "it lapsed")
			},
		},
	},
}

func isPoolTimeout(err error) bool { return errors.Is(err, redis.ErrPoolTimeout) }

var storm = fault{
	name:  "a connection storm",
	story: "All connections of all clients are closed again and again (`CLIENT KILL` in a loop), under load: requests and replies are lost at any point.",
	start: func(t *testing.T) *world {
		w, admin, _ := oneServer(t, func(o *redis.Options) { o.MaxRetries = 3 })
		var kills atomic.Int64
		stop, stopped := make(chan struct{}), make(chan error, 1)
		w.strike = func(ctx context.Context) error {
			go func() {
				for round := 0; ; {
					select {
					case <-stop:
						stopped <- nil
						return
					case <-time.After(10 * time.Millisecond):
					}
					kinds := []string{"normal", "pubsub"}
					if round++; round%10 != 0 {
						kinds = kinds[:1]
					}
					for _, kind := range kinds {
						n, err := admin.ClientKillByFilter(ctx, "TYPE", kind, "SKIPME", "yes").Result()
						if err != nil {
							stopped <- err
							return
						}
						kills.Add(n)
					}
				}
			}()
			return nil
		}
		w.heal = func(ctx context.Context) error {
			for kills.Load() < 50*int64(scale()) && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			close(stop)
			return errors.Join(ctx.Err(), <-stopped)
		}
		return w
	},
	cells: map[string]cell{
		"session": {
			sees:  "Little: go-redis connects again, and what may be repeated is. Else the client's network error, and of an `Update` of which nobody knows `ErrUnknown`. Nobody is logged out.",
			lost:  "Nothing that was answered. An `Update` is applied once, or not at all; twice never.",
			long:  "While it lasts.",
			check: func(c *check) { c.countedSessions(false) },
		},
		"ratelimit": {
			sees:  "`ErrUnavailable`, and where the request was on its way `ErrUnknown`; never a denial that the limit does not call for.",
			lost:  "Nothing that was answered, and no limit is exceeded. What is `ErrUnknown` may have been counted.",
			long:  "While it lasts.",
			check: func(c *check) { c.countedLimits(false) },
		},
		"ranking": {
			sees:  "The client's network error, and of an `Increment` of which nobody knows `ErrUnknown`.",
			lost:  "Nothing that was answered. An `Increment` is applied once, or not at all; `IncrementOnce`, repeated until it is answered, exactly once.",
			long:  "While it lasts.",
			check: func(c *check) { c.countedScores(false) },
		},
		"lock": {
			sees:  "The client's network error, never `ErrNotAcquired`.",
			lost:  "Nothing: no two hold a name at once.",
			long:  "While it lasts.",
			check: func(c *check) { c.countedLocks(false) },
		},
	},
}
