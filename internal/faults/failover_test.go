package faults_test

import (
	"context"
	"errors"
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

// sentinels is a world of a master, two replicas and three sentinels.
func sentinels(t *testing.T) (*world, *redistest.Sentinel) {
	t.Helper()
	s := redistest.Sentinels(t, 2)
	w := &world{settle: func(ctx context.Context) error { return s.Master.Replicated(ctx, 2) }}
	w.connect = func() client {
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: "mymaster", SentinelAddrs: s.Addrs, ContextTimeoutEnabled: true, DialerRetries: 1,
		})
	}
	return w, s
}

// promoted waits until the sentinels have made another the master.
func promoted(ctx context.Context, s *redistest.Sentinel) error {
	for {
		addr, err := s.MasterAddr(ctx)
		if err == nil && addr != s.Master.Addr {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// killed are the rows of a master that is killed under load, whoever promotes its replica.
var killed = map[string]cell{
	"session": {
		sees:  "The client's network error, and of an `Update` that was under way `ErrUnknown`. Never `ErrNotFound`: nobody whose session is older than the fault is logged out.",
		lost:  "The last writes, which the replica had not got though they were answered. An `Update` is not applied twice.",
		long:  "Errors until a replica is promoted and the client has found it.",
		check: func(c *check) { c.countedSessions(true) },
	},
	"ratelimit": {
		sees:  "`ErrUnavailable` (`ErrUnknown` for what was under way); never a denial that the limit does not call for.",
		lost:  "The last counts: as much as was lost can be taken once more. Nothing is counted that was not asked for.",
		long:  "Errors until a replica is promoted and the client has found it.",
		check: func(c *check) { c.countedLimits(true) },
	},
	"ranking": {
		sees:  "The client's network error, and of an `Increment` that was under way `ErrUnknown`. Never `ErrNotFound`.",
		lost:  "The last scores that were answered. Neither `Increment` nor `IncrementOnce` counts twice.",
		long:  "Errors until a replica is promoted and the client has found it.",
		check: func(c *check) { c.countedScores(true) },
	},
	"lock": {
		sees:  "The client's network error, never `ErrNotAcquired`.",
		lost:  "The last acquisition: then two can hold the name, until the first knows. The fence goes on growing, so a resource that refuses `fence < stored` is safe.",
		long:  "Errors until a replica is promoted and the client has found it.",
		check: func(c *check) { c.countedLocks(true) },
	},
}

var sentinelKill = fault{
	name:  "the master is killed, Sentinel promotes a replica",
	story: "A master with two replicas and three sentinels. Under load the master is killed (SIGKILL), and the sentinels make a replica the master.",
	start: func(t *testing.T) *world {
		w, s := sentinels(t)
		w.strike = func(context.Context) error { s.Master.Kill(); return nil }
		w.heal = func(ctx context.Context) error { return promoted(ctx, s) }
		return w
	},
	cells: killed,
}

// sentinelStale has three steps: what checks do before strike reaches the replicas, what they do between strike and heal
// does not, and heal replaces the master.
var sentinelStale = fault{
	name:  "a replica is promoted that lacks the last writes",
	story: "Redis replicates after it has answered. Here the replicas are cut off first; then something is written, and answered; then the master dies and a replica without those writes becomes the master.",
	start: func(t *testing.T) *world {
		w, s := sentinels(t)
		w.strike = func(ctx context.Context) error {
			return errors.Join(w.settle(ctx), redistest.CutOff(ctx, s.Master, s.Replicas...))
		}
		w.heal = func(ctx context.Context) error {
			s.Master.Kill()
			return errors.Join(redistest.Rejoin(s.Replicas...), promoted(ctx, s))
		}
		return w
	},
	cells: map[string]cell{
		"session": {
			sees: "A session just created is `ErrNotFound`; one just destroyed is there again; a value just saved is the one of before; after a `Rotate` the token of before is good, and the new one `ErrNotFound`.",
			lost: "The last writes: a login, a logout, a change, a new token.",
			long: "For good; a session that came back is ended by another `Destroy`.",
			check: func(c *check) {
				s := c.store()
				saved, rotated, destroyed := c.login(s), c.login(s), c.login(s)
				before := rotated.Token()
				c.strike()
				created := c.login(s)
				saved.Data.Count = 7
				require.NoError(c, s.Save(c, saved))
				require.NoError(c, s.Rotate(c, rotated))
				require.NoError(c, s.Destroy(c, destroyed.ID))
				c.heal()
				c.recovers(c.sessionCreates(s))
				_, err := s.Load(c, created.Token())
				require.ErrorIs(c, err, session.ErrNotFound)
				loaded, err := s.Load(c, saved.Token())
				require.NoError(c, err)
				require.Zero(c, loaded.Data.Count)
				_, err = s.Load(c, before)
				require.NoError(c, err)
				_, err = s.Load(c, rotated.Token())
				require.ErrorIs(c, err, session.ErrNotFound)
				_, err = s.Load(c, destroyed.Token())
				require.NoError(c, err)
				require.NoError(c, s.Destroy(c, destroyed.ID))
				_, err = s.Load(c, destroyed.Token())
				require.ErrorIs(c, err, session.ErrNotFound)
			},
		},
		"ratelimit": {
			sees: "Nothing: the id has what it had before those writes.",
			lost: "The last counts: an id may take as much again as was lost, and no more.",
			long: "Until the window ends.",
			check: func(c *check) {
				limiters := c.limiters(perDecade(5), ratelimit.FailWithError)
				c.work(c.take(limiters))
				c.strike()
				c.work(c.take(limiters))
				c.work(c.take(limiters))
				c.remaining(limiters, 2)
				c.heal()
				c.recovers(c.peek(limiters))
				c.remaining(limiters, 4)
			},
		},
		"ranking": {
			sees: "Nothing: scores are what they were before those writes, and a member just removed is back.",
			lost: "The last scores. `IncrementOnce` has forgotten the operation together with its effect, so to send it again is right.",
			long: "For good, unless it is sent again.",
			check: func(c *check) {
				boards := c.boards()
				c.strike()
				for name, b := range boards {
					_, err := b.Increment(c, "alice", 5)
					require.NoError(c, err, name)
					_, err = b.IncrementOnce(c, "grace", 3, "order-1")
					require.NoError(c, err, name)
					_, err = b.Remove(c, "bob")
					require.NoError(c, err, name)
				}
				c.heal()
				c.recovers(c.boardReads(boards))
				c.score(boards, "alice", 10)
				c.score(boards, "bob", 10)
				for name, b := range boards {
					_, err := b.Get(c, "grace")
					require.ErrorIs(c, err, ranking.ErrNotFound, name)
					for range 2 {
						_, err = b.IncrementOnce(c, "grace", 3, "order-1")
						require.NoError(c, err, name)
					}
				}
				c.score(boards, "grace", 3)
			},
		},
		"lock": {
			sees: "The holder's context ends with `ErrLost`; its `Extend` and `Release` are `ErrLost`. With `Options.Replicas` the acquisition was `ErrNotReplicated` already.",
			lost: "The last acquisition: another can take the name before the first holder knows, with a larger fence. The last release: the name stays taken for a TTL.",
			long: "A holder knows by its next renewal, or anything else that it asks, and after a TTL at the latest.",
			check: func(c *check) {
				l, given := c.locker(nil), c.holdLong()
				c.strike()
				_, err := c.locker(&lock.Options{Replicas: 1}).Mutex(c.name()).TryLock(c)
				require.ErrorIs(c, err, lock.ErrNotReplicated)
				held, long := c.hold(l, c.name()), c.holdLong()
				require.NoError(c, given.Release(c))
				c.heal()
				c.recovers(c.lockReads(l))
				c.overtaken(long)
				c.lostInTime(held)
				_, err = l.Mutex(given.Name()).TryLock(c)
				require.ErrorIs(c, err, lock.ErrNotAcquired)
			},
		},
	},
}
