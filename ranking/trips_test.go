package ranking_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ranking"
)

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		n := redistest.Count(c)
		for kind, opts := range kinds(s, t) {
			b := newBoard(t, c, opts)
			for _, op := range of(kind) {
				fill(t, b, scored{"alice", 1})
				require.NoError(t, op.do(background, b), op.name) // scripts are loaded
				fill(t, b, scored{"alice", 1})
				n.Reset()
				require.NoError(t, op.do(background, b), op.name)
				require.Equal(t, op.trips, n.Trips(), "%s of a board of kind %s", op.name, kind)
			}
		}
	})
}

func TestAllocations(t *testing.T) {
	if redistest.Race {
		t.Skip("allocations are not counted under the race detector")
	}
	b, members := hundredThousand(t)
	for _, op := range hot(b, members) {
		require.LessOrEqual(t, testing.AllocsPerRun(200, op.do), op.allocs, op.name)
	}
}

// hundredThousand is a board of 100 000 members on a real server.
func hundredThousand(t testing.TB) (*ranking.Leaderboard, []string) {
	t.Helper()
	c, name := redistest.Real(t).Client(t), redistest.ID()
	members := make([]string, 100_000)
	zs := make([]redis.Z, 0, 1000)
	for i := range members {
		members[i] = fmt.Sprintf("player:%07d", i)
		zs = append(zs, redis.Z{Member: members[i], Score: float64(i * 7919 % 10_000_000)})
		if len(zs) == cap(zs) {
			require.NoError(t, c.ZAdd(background, "ranking:"+name, zs...).Err())
			zs = zs[:0]
		}
	}
	b, err := ranking.New(c, name, nil)
	require.NoError(t, err)
	return b, members
}

type hotOperation struct {
	name   string
	allocs float64
	do     func()
}

func hot(b *ranking.Leaderboard, members []string) []hotOperation {
	i := 0
	next := func() string {
		i++
		return members[i*7919%len(members)]
	}
	return []hotOperation{
		{"Set", 25, func() { _, _ = b.Set(background, next(), float64(i*104_729%10_000_000)) }},
		{"Best", 25, func() { _, _ = b.Best(background, next(), float64(i*104_729%10_000_000)) }},
		{"Increment", 25, func() { _, _ = b.Increment(background, next(), 1) }},
		{"Get", 25, func() { _, _ = b.Get(background, next()) }},
		{"Top", 29, func() { _, _ = b.Top(background, 10) }},
	}
}

func BenchmarkBoard(b *testing.B) {
	board, members := hundredThousand(b)
	for _, op := range hot(board, members) {
		b.Run(op.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				op.do()
			}
		})
	}
}
