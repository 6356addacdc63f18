package ranking_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ranking"
)

func newSharded(t testing.TB, c redispatterns.Client, name string, shards int, opts *ranking.Options) *ranking.Leaderboard {
	t.Helper()
	b, err := ranking.NewSharded(c, name, shards, opts)
	require.NoError(t, err)
	return b
}

// shardedTrips are the round trips of what exists on a board of four shards; others are ErrUnsupported.
var shardedTrips = map[string]int{
	"Set": 1, "Increment": 2, "Increment of a huge delta": 2, "IncrementOnce": 2, "Best": 2, "SetMany": 3, "BestMany": 2, "Get": 2, "Top": 1, "Page": 1,
	"Around": 3, "ByScore": 1, "Count": 1, "CountBetween": 1, "All": 5, "Remove": 1, "Clear": 6,
}

func TestShardedRoundTrips(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		n := redistest.Count(c)
		b := newSharded(t, c, redistest.ID(), 4, nil)
		for _, op := range operations {
			trips, ok := shardedTrips[op.name]
			if !ok {
				require.ErrorIs(t, op.do(background, b), ranking.ErrUnsupported, op.name)
				continue
			}
			fill(t, b, scored{"alice", 1})
			require.NoError(t, op.do(background, b), op.name)
			fill(t, b, scored{"alice", 1}, scored{"bob", 1})
			n.Reset()
			require.NoError(t, op.do(background, b), op.name)
			require.Equal(t, trips, n.Trips(), op.name)
		}
	})
}

func TestShardedBadInput(t *testing.T) {
	t.Parallel()
	c := redistest.Mini(t).Client(t)
	for reason, make := range map[string]func() (*ranking.Leaderboard, error){
		"shards is 0, must be from 1 to 1024": func() (*ranking.Leaderboard, error) { return ranking.NewSharded(c, "game", 0, nil) },
		"shards is 1025, must be from 1 to":   func() (*ranking.Leaderboard, error) { return ranking.NewSharded(c, "game", 1025, nil) },
		"Options.Ties is 1, must be Competition on a sharded board": func() (*ranking.Leaderboard, error) {
			return ranking.NewSharded(c, "game", 4, &ranking.Options{Ties: ranking.Ordinal})
		},
		"Options.MaxSize is 4, must be 0 on a sharded board": func() (*ranking.Leaderboard, error) {
			return ranking.NewSharded(c, "game", 4, &ranking.Options{MaxSize: 4})
		},
		"has no {":                func() (*ranking.Leaderboard, error) { return ranking.NewSharded(c, "{game}", 4, nil) },
		"the name is empty":       func() (*ranking.Leaderboard, error) { return ranking.NewSharded(c, "", 4, nil) },
		"ranking: new sharded \"": func() (*ranking.Leaderboard, error) { return ranking.NewSharded(nil, "game", 4, nil) },
	} {
		_, err := make()
		require.ErrorContains(t, err, reason)
	}
	b := newSharded(t, c, "game", 4, nil)
	n := redistest.Count(c)
	_, err := b.Top(background, 1001)
	require.ErrorIs(t, err, ranking.ErrTooDeep)
	_, err = b.Page(background, 101, 10)
	require.ErrorIs(t, err, ranking.ErrTooDeep)
	_, err = b.Page(background, 1, 1001)
	require.ErrorIs(t, err, ranking.ErrTooDeep)
	_, err = b.Around(background, "a", 500, 500)
	require.ErrorIs(t, err, ranking.ErrTooDeep)
	_, err = b.ByScore(background, 0, 1, 1001)
	require.ErrorIs(t, err, ranking.ErrTooDeep)
	top, err := b.Top(background, 0)
	require.NoError(t, err)
	require.Empty(t, top)
	require.Zero(t, n.Trips())
	_, err = b.Page(background, 100, 10)
	require.NoError(t, err)
}

func TestOtherShardCountIsRefused(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, name := s.Client(t), redistest.ID()
		a, b := newSharded(t, c, name, 4, nil), newSharded(t, c, name, 3, nil)
		_, err := b.Get(background, "alice")
		require.ErrorIs(t, err, ranking.ErrNotFound, "nothing is recorded yet")
		fill(t, a, scored{"alice", 1})
		keys := c.Keys(background, "*"+name+"*").Val()
		for _, op := range operations {
			require.ErrorIs(t, op.do(background, b), ranking.ErrUnsupported, op.name)
		}
		require.ElementsMatch(t, keys, c.Keys(background, "*"+name+"*").Val(), "nothing was written")
		require.NoError(t, a.Clear(background))
		require.Empty(t, c.Keys(background, "*"+name+"*").Val())
		fill(t, b, scored{"alice", 1})
		_, err = newSharded(t, c, name, 4, nil).Set(background, "alice", 1)
		require.ErrorIs(t, err, ranking.ErrUnsupported)
	})
}

func TestShardedTTL(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, name := s.Client(t), redistest.ID()
		b := newSharded(t, c, name, 4, &ranking.Options{TTL: time.Hour})
		for i := range 20 {
			fill(t, b, scored{fmt.Sprint(i), 1})
		}
		for what, write := range map[string]func() error{
			"set":       func() error { _, err := b.Set(background, "a", 1); return err },
			"best":      func() error { _, err := b.Best(background, "a", 1); return err },
			"increment": func() error { _, err := b.Increment(background, "a", 1); return err },
			"many":      func() error { _, err := b.SetMany(background, ranking.MemberScore{Member: "a"}); return err },
		} {
			keys := c.Keys(background, "*"+name+"*").Val()
			require.Len(t, keys, 5)
			for _, key := range keys {
				c.PExpire(background, key, 30*time.Minute)
			}
			require.NoError(t, write())
			for _, key := range keys {
				require.Greater(t, c.PTTL(background, key).Val(), 45*time.Minute, "%s after %s", key, what)
			}
		}
	})
}

// The masters of a cluster have equal shares, and every operation works there, and through the other clients.
func TestShardedThroughEveryClient(t *testing.T) {
	t.Parallel()
	for name, c := range clients(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			board := redistest.ID()
			b := newSharded(t, c, board, 6, nil)
			for i := range 60 {
				u, err := b.Increment(background, fmt.Sprint("m", i), float64(i))
				require.NoError(t, err)
				require.Equal(t, standing(1, fmt.Sprint("m", i), float64(i), int64(i)+1), u.Standing)
			}
			fill(t, b, scored{"alice", 1})
			for _, op := range operations {
				if _, ok := shardedTrips[op.name]; ok && op.name != "Clear" {
					require.NoError(t, op.do(background, b), op.name)
				}
			}
			if cluster, ok := c.(*redis.ClusterClient); ok && name == "cluster" {
				require.NoError(t, cluster.ForEachMaster(background, func(ctx context.Context, m *redis.Client) error {
					keys, err := m.Keys(ctx, "*"+board+"~s*}").Result()
					if len(keys) != 2 {
						return fmt.Errorf("%v, %w", keys, err)
					}
					return err
				}))
			}
			require.NoError(t, b.Clear(background))
		})
	}
}

func TestShardedFailures(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		p, name := s.Proxy(t), redistest.ID()
		through, direct := newSharded(t, p.Client(t), name, 4, nil), newSharded(t, s.Client(t), name, 4, nil)
		fill(t, through, scored{"alice", 1}, scored{"bob", 2})
		p.DropReplies(1, "zadd")
		u, err := through.Set(background, "alice", 5)
		require.NoError(t, err)
		require.Equal(t, standing(1, "alice", 5, 2), u.Standing)
		p.DropReplies(1, "zincrby")
		_, err = through.Increment(background, "alice", 1)
		require.ErrorIs(t, err, ranking.ErrUnknown)
		redistest.Eventually(t, func() bool { got, _ := direct.Get(background, "alice"); return got.Score == 6 }, "counted once")

		// The second round trip fails for good: the write is known, its place is not.
		once := newSharded(t, p.Client(t, func(o *redis.Options) { o.MaxRetries = -1; o.ReadTimeout = time.Minute }), name, 4, nil)
		p.CloseAfter(1, "zcount")
		u, err = once.Increment(background, "alice", 1)
		requireBroken(t, err, "increment")
		require.ErrorIs(t, err, ranking.ErrUnknown, "else a caller would repeat what was applied")
		require.Equal(t, ranking.Update{Standing: standing(0, "alice", 7, 0), Changed: true}, u)

		p.BlackHole(true)
		impatient := newSharded(t, p.Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled, o.ReadTimeout = true, time.Minute }), name, 4, nil)
		ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
		defer cancel()
		for _, op := range operations {
			if _, ok := shardedTrips[op.name]; ok {
				requireBroken(t, op.do(ctx, impatient), op.name)
			}
		}
	})
}

func TestShardedWrongType(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, name := s.Client(t), redistest.ID()
		b := newSharded(t, c, name, 1, nil)
		fill(t, b, scored{"alice", 1})
		var key string
		for _, k := range c.Keys(background, "*"+name+"~s*").Val() {
			key = k
		}
		require.NoError(t, c.Set(background, key, "precious", 0).Err())
		for _, op := range operations {
			if _, ok := shardedTrips[op.name]; ok {
				err := op.do(background, b)
				requireBroken(t, err, op.name)
				require.ErrorContains(t, err, "WRONGTYPE", op.name)
				require.ErrorContains(t, err, "ranking:"+name, op.name)
			}
		}
		require.Equal(t, "precious", c.Get(background, key).Val())
	})
}

// A process that wrote before the board was cleared and made anew, with another number of shards, learns that with its next
// write, and writes no more.
func TestOtherShardCountIsLearnt(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		for _, opts := range []*ranking.Options{nil, {TTL: time.Hour}} {
			c, name := s.Client(t), redistest.ID()
			old, other := newSharded(t, c, name, 4, opts), newSharded(t, c, name, 3, opts)
			fill(t, old, scored{"alice", 1})
			require.NoError(t, newSharded(t, c, name, 4, opts).Clear(background))
			fill(t, other, scored{"alice", 1})
			_, err := old.SetMany(background, ranking.MemberScore{Member: "bob", Score: 1})
			require.ErrorIs(t, err, ranking.ErrUnsupported)
			written := func() map[string][]redis.Z {
				all := map[string][]redis.Z{}
				for _, key := range c.Keys(background, "*"+name+"*").Val() {
					all[key] = c.ZRangeWithScores(background, key, 0, -1).Val()
				}
				return all
			}
			before := written()
			for _, op := range operations {
				require.ErrorIs(t, op.do(background, old), ranking.ErrUnsupported, op.name)
			}
			require.Equal(t, before, written(), "nothing more is written")
		}
	})
}
