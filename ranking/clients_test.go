package ranking_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ranking"
)

// clients are every kind of client that a board works with.
func clients(t *testing.T) map[string]redispatterns.Client {
	single, cluster := redistest.Real(t).Client(t), redistest.ThreeMasters(t).Client(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{
		"a": redistest.Mini(t).Options().Addr, "b": redistest.Mini(t).Options().Addr,
	}})
	t.Cleanup(func() { _ = ring.Close() })
	all := map[string]redispatterns.Client{
		"client": single, "cluster of one": redistest.OneNode(t).Client(t), "cluster": cluster, "ring": ring,
	}
	for name, make := range map[string]func() (*redis.AutoPipeliner, error){
		"autopipeliner": single.AutoPipeline, "async autopipeliner": single.AsyncAutoPipeline, "autopipelined cluster": cluster.AutoPipeline,
	} {
		ap, err := make()
		require.NoError(t, err)
		t.Cleanup(func() { _ = ap.Close() })
		all[name] = ap
	}
	return all
}

func TestEveryOperationThroughEveryClient(t *testing.T) {
	t.Parallel()
	boards := kinds(redistest.Mini(t), t)
	for name, c := range clients(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 3 { // over all nodes
				for kind, opts := range boards {
					b := newBoard(t, c, opts)
					fill(t, b, scored{"alice", 1})
					for _, op := range of(kind) {
						require.NoError(t, op.do(background, b), "%s of a board of kind %s", op.name, kind)
					}
				}
			}
		})
	}
}

// An AutoPipeliner alone would send what it is given, though its context has ended.
func TestEndedContextSendsNothingThroughAnyClient(t *testing.T) {
	t.Parallel()
	boards := kinds(redistest.Mini(t), t)
	for name, c := range clients(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(background)
			cancel()
			for kind, opts := range boards {
				b := newBoard(t, c, opts)
				fill(t, b, scored{"alice", 1})
				for _, op := range of(kind) {
					require.ErrorIs(t, op.do(ctx, b), context.Canceled, "%s of a board of kind %s", op.name, kind)
				}
				got, err := b.Get(background, "alice")
				require.NoError(t, err)
				require.EqualValues(t, 1, got.Score, kind)
			}
			b := newSharded(t, c, redistest.ID(), 3, nil)
			fill(t, b, scored{"alice", 1})
			for _, op := range operations {
				if _, ok := shardedTrips[op.name]; ok {
					require.ErrorIs(t, op.do(ctx, b), context.Canceled, "%s of a sharded board", op.name)
				}
			}
			got, err := b.Get(background, "alice")
			require.NoError(t, err)
			require.EqualValues(t, 1, got.Score, "sharded")
		})
	}
}

// No increment is lost, and every answer is one that was true at some moment.
func TestConcurrentIncrements(t *testing.T) {
	t.Parallel()
	for name, c := range clients(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBoard(t, c, nil)
			const goroutines, each, members = 8, 50, 4
			var wg sync.WaitGroup
			for range goroutines {
				wg.Go(func() {
					for i := range each {
						u, err := b.Increment(background, fmt.Sprint(i%members), 1)
						if err != nil || !u.Changed || u.Rank < 1 || u.Rank > u.Total || u.Score < 1 {
							t.Errorf("%+v, %v", u, err)
						}
					}
				})
			}
			wg.Wait()
			top, err := b.Top(background, members+1)
			require.NoError(t, err)
			require.Len(t, top, members)
			sum := 0.0
			for _, e := range top {
				sum += e.Score
			}
			require.EqualValues(t, goroutines*each, sum)
		})
	}
}

func TestBoardsAreApart(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, name := s.Client(t), redistest.ID()
		a, err := ranking.New(c, name, nil)
		require.NoError(t, err)
		b, err := ranking.New(c, name, &ranking.Options{Prefix: redistest.ID()})
		require.NoError(t, err)
		fill(t, a, scored{"alice", 1})
		fill(t, b, scored{"alice", 2})
		got, err := a.Get(background, "alice")
		require.NoError(t, err)
		require.Equal(t, standing(1, "alice", 1, 1), got)
	})
}
