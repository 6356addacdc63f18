package faults_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
	"github.com/redispatterns/redispatterns/ranking"
)

// cluster is a world of three masters with a replica each; all keys of the checks are in one slot.
func cluster(t *testing.T, nodeTimeout time.Duration) (*world, *redistest.Cluster) {
	t.Helper()
	c := redistest.Replicated(t, nodeTimeout)
	w := &world{}
	w.connect = func() client {
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: c.Addrs, ClusterStateReloadInterval: 200 * time.Millisecond, ContextTimeoutEnabled: true, DialerRetries: 1,
		})
	}
	w.settle = func(ctx context.Context) error {
		shard, err := c.ShardOf(ctx, w.tag)
		if err != nil {
			return err
		}
		return shard.Master.Replicated(ctx, 1)
	}
	return w, c
}

const unhurried = time.Minute // no node is taken for dead while a busy machine holds it up

var clusterKill = fault{
	name:  "a cluster's master is killed, its replica takes over",
	story: "A Redis Cluster of three masters with a replica each. Under load the master of the keys' slot is killed (SIGKILL), and its replica is elected. The clients reload the cluster's layout often (`ClusterStateReloadInterval`); go-redis by itself does so once a minute.",
	start: func(t *testing.T) *world {
		w, c := cluster(t, time.Second)
		var dead *redistest.Process
		w.strike = func(ctx context.Context) error {
			shard, err := c.ShardOf(ctx, w.tag)
			if err == nil {
				dead = shard.Master
				dead.Kill()
			}
			return err
		}
		w.heal = func(ctx context.Context) error { return c.Promoted(ctx, w.tag, dead) }
		return w
	},
	cells: killed,
}

var clusterFailover = fault{
	name:  "CLUSTER FAILOVER",
	story: "An operator has a replica take over from its master while both are alive, under load: for maintenance, say.",
	start: func(t *testing.T) *world {
		w, c := cluster(t, unhurried)
		w.strike = nothing
		// Once: masters vote for a shard's replica no more often than every second nodeTimeout.
		w.heal = func(ctx context.Context) error { return c.Failover(ctx, w.tag) }
		return w
	},
	cells: map[string]cell{
		"session": {
			sees:  "Errors for a moment, at the most; never `ErrNotFound`.",
			lost:  "Nothing that was answered.",
			long:  "While the replica takes over.",
			check: func(c *check) { c.countedSessions(false) },
		},
		"ratelimit": {
			sees:  "`ErrUnavailable` for a moment, at the most; never a denial that the limit does not call for.",
			lost:  "Nothing that was answered, and no limit is exceeded.",
			long:  "While the replica takes over.",
			check: func(c *check) { c.countedLimits(false) },
		},
		"ranking": {
			sees:  "Errors for a moment, at the most (`ErrUnknown` of an `Increment` that was under way); never `ErrNotFound`.",
			lost:  "Nothing that was answered, and nothing counts twice.",
			long:  "While the replica takes over.",
			check: func(c *check) { c.countedScores(false) },
		},
		"lock": {
			sees:  "Errors for a moment, at the most; never `ErrNotAcquired`.",
			lost:  "Nothing: no two hold a name at once, and fences grow.",
			long:  "While the replica takes over.",
			check: func(c *check) { c.countedLocks(false) },
		},
	},
}

var clusterMigration = fault{
	name:  "a slot moves to another master",
	story: "A cluster is resharded: the slot of our keys is MIGRATING, its keys move one by one, and in the end the slot is another master's. While it moves, Redis answers TRYAGAIN to a command that has several keys of which one is not there.",
	start: func(t *testing.T) *world {
		w, c := cluster(t, unhurried)
		var m *redistest.Migration
		w.strike = func(ctx context.Context) (err error) {
			if m, err = c.Migrate(ctx, w.tag); err == nil {
				_, err = m.MoveKeys(ctx)
			}
			return err
		}
		w.heal = func(ctx context.Context) error {
			if _, err := m.MoveKeys(ctx); err != nil {
				return err
			}
			return m.Finish(ctx)
		}
		return w
	},
	cells: map[string]cell{
		"session": {
			sees: "Nothing.",
			lost: "Nothing.",
			long: "Not at all: a session is one key.",
			check: func(c *check) {
				s := c.store()
				sess := c.login(s)
				all := c.sessionReads(s, sess).and(c.sessionStores(s)).and(c.sessionEnds(s))
				c.strike()
				c.work(all)
				c.stillLoggedIn(s, sess)
				c.heal()
				c.stillLoggedIn(s, sess)
				c.work(all)
			},
		},
		"ratelimit": {
			sees: "Nothing.",
			lost: "Nothing.",
			long: "Not at all: a count is one key.",
			check: func(c *check) {
				limiters := c.limiters(perDecade(5), 0)
				c.work(c.take(limiters))
				c.strike()
				c.work(c.take(limiters).and(c.reset(limiters)))
				c.remaining(limiters, 3)
				c.heal()
				c.work(c.take(limiters))
				c.remaining(limiters, 2)
			},
		},
		"ranking": {
			sees: "Of a plain board nothing. `IncrementOnce` is Redis' TRYAGAIN error, on a board whose other key for operations does not exist.",
			lost: "Nothing; what was refused was not applied.",
			long: "`IncrementOnce` until the slot has moved.",
			check: func(c *check) {
				boards := c.boards()
				plain := map[string]*ranking.Leaderboard{"plain": boards["plain"]}
				writes, once := c.boardWrites(plain), ops{}
				once["IncrementOnce"] = writes["IncrementOnce on plain"]
				delete(writes, "IncrementOnce on plain")
				c.strike()
				c.work(c.boardReads(plain).and(writes))
				c.refused(once, redis.IsTryAgainError, neverSent...)
				c.score(plain, "erin", 1)
				c.heal()
				c.work(once)
				c.score(plain, "frank", 1)
				c.score(boards, "alice", 10)
			},
		},
		"lock": {
			sees: "An acquisition, and a `Release`, are Redis' TRYAGAIN error once they have been tried for a while, never `ErrNotAcquired`: a lock has its fence and its queue beside it. A lease that is held is renewed all the same.",
			lost: "Nothing. A `Release` that failed may be called again.",
			long: "Until the slot has moved.",
			check: func(c *check) {
				l, name := c.locker(&lock.Options{TTL: longLease}), c.name()
				held, others := c.hold(l, name), c.acquisitions(l)
				given := c.holdLong()
				delete(others, "RLock") // readers and permits have no fence, so what they meet depends on their queue
				delete(others, "Acquire")
				c.strike()
				c.refused(others, redis.IsTryAgainError, notTaken...)
				until := time.Now().Add(longLease)
				c.eventually(func() bool { return held.Until().After(until) }, "it is renewed beyond its TTL")
				err := given.Release(c)
				require.True(c, redis.IsTryAgainError(err), "%v", err)
				require.NotErrorIs(c, err, lock.ErrLost)
				c.heal()
				require.NoError(c, given.Release(c))
				require.NoError(c, held.Release(c))
				c.work(others)
			},
		},
	},
}
