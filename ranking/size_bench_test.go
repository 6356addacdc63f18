package ranking_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ranking"
)

// sizes are those of the benchmarks: with REDISPATTERNS_LONG=1 up to five million members.
func sizes() []int {
	if redistest.Long() > 10e9 {
		return []int{1000, 1_000_000, 5_000_000}
	}
	return []int{1000, 20_000}
}

func fillMany(b *testing.B, board *ranking.Leaderboard, n int) {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	many := make([]ranking.MemberScore, 0, 50_000)
	for i := range n {
		many = append(many, ranking.MemberScore{Member: fmt.Sprintf("player:%08d", i), Score: float64(random.IntN(10_000_000))})
		if len(many) == cap(many) || i == n-1 {
			_, err := board.SetMany(background, many...)
			require.NoError(b, err)
			many = many[:0]
		}
	}
}

// The cost of a standing against the size of a board.
func BenchmarkGetBySize(b *testing.B) {
	for _, n := range sizes() {
		c := redistest.Real(b).Client(b, func(o *redis.Options) { o.ReadTimeout = time.Minute })
		name := redistest.ID()
		board, err := ranking.New(c, name, nil)
		require.NoError(b, err)
		fillMany(b, board, n)
		for kind, ties := range map[string]ranking.Ties{"ordinal": ranking.Ordinal, "competition": ranking.Competition} {
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) {
				board, err := ranking.New(c, name, &ranking.Options{Ties: ties})
				require.NoError(b, err)
				for i := 0; b.Loop(); i++ {
					if _, err := board.Get(background, fmt.Sprintf("player:%08d", i*7919%n)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		require.NoError(b, board.Clear(background))
	}
}

// The cost of a sharded board against its shards and members, on a cluster of three masters.
func BenchmarkSharded(b *testing.B) {
	for _, n := range sizes()[1:] {
		for _, shards := range []int{1, 3, 12, 48} {
			c := redistest.ThreeMasters(b).Client(b, func(o *redis.ClusterOptions) { o.ReadTimeout = time.Minute })
			board := newSharded(b, redispatterns.Client(c), redistest.ID(), shards, nil)
			fillMany(b, board, n)
			i := 0
			next := func() string {
				i++
				return fmt.Sprintf("player:%08d", i*7919%n)
			}
			for name, do := range map[string]func() error{
				"Set":    func() error { _, err := board.Set(background, next(), float64(i*104_729%10_000_000)); return err },
				"Best":   func() error { _, err := board.Best(background, next(), float64(i*104_729%10_000_000)); return err },
				"Get":    func() error { _, err := board.Get(background, next()); return err },
				"Top100": func() error { _, err := board.Top(background, 100); return err },
				"Around": func() error { _, err := board.Around(background, next(), 5, 5); return err },
			} {
				b.Run(fmt.Sprintf("%d/%d/%s", n, shards, name), func(b *testing.B) {
					for b.Loop() {
						if err := do(); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
			require.NoError(b, board.Clear(background))
		}
	}
}
