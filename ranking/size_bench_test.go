package ranking_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ranking"
)

// sizes are those of the benchmarks: with REDISPATTERNS_LONG=1 up to five million members.
func sizes() []int {
	if redistest.Long() > 10*time.Second {
		return []int{1000, 100_000, 1_000_000, 5_000_000}
	}
	return []int{1000, 20_000}
}

func player(i, n int) string { return fmt.Sprintf("player:%08d", i*7919%n) }

func points(i int) float64 { return float64(i * 104_729 % 10_000_000) }

// fillMany gives n players random scores, from several goroutines.
func fillMany(b testing.TB, board *ranking.Leaderboard, n int) {
	b.Helper()
	const chunk = 10_000
	var wg sync.WaitGroup
	chunks, failed := make(chan int), make(chan error, 4)
	for range cap(failed) {
		wg.Go(func() {
			var err error
			for from := range chunks {
				if err != nil {
					continue
				}
				random := rand.New(rand.NewPCG(1, uint64(from)))
				many := make([]ranking.MemberScore, 0, chunk)
				for i := from; i < min(from+chunk, n); i++ {
					many = append(many, ranking.MemberScore{Member: fmt.Sprintf("player:%08d", i), Score: float64(random.IntN(10_000_000))})
				}
				_, err = board.SetMany(background, many...)
			}
			failed <- err
		})
	}
	for from := 0; from < n; from += chunk {
		chunks <- from
	}
	close(chunks)
	wg.Wait()
	for range cap(failed) {
		require.NoError(b, <-failed)
	}
}

// candidate is a call that is measured beside others.
type candidate struct {
	name string
	do   func(i int) error
	µs   []float64 // a call, of each round
	cpu  float64   // the servers' µs, of all rounds
}

// interleave lets every candidate have its turn in every round, so that what else the machine does hits all of them.
func interleave(b *testing.B, calls int, candidates []*candidate, nodes ...*redis.Client) {
	b.Helper()
	i := 0
	for b.Loop() {
		for _, c := range candidates {
			cpu := serverCPU(b, nodes)
			between := serverCPU(b, nodes) - cpu // what asking costs
			began := time.Now()
			for range calls {
				i++
				if err := c.do(i); err != nil {
					b.Fatalf("%s: %v", c.name, err)
				}
			}
			c.µs = append(c.µs, float64(time.Since(began).Nanoseconds())/1000/float64(calls))
			c.cpu += (serverCPU(b, nodes) - cpu - 2*between) / float64(calls)
		}
	}
	for _, c := range candidates {
		c.cpu /= float64(len(c.µs))
	}
}

func (c *candidate) median() float64 {
	sorted := slices.Sorted(slices.Values(c.µs))
	return sorted[len(sorted)/2]
}

// serverCPU is the time that the servers have spent, in µs.
func serverCPU(b *testing.B, nodes []*redis.Client) (µs float64) {
	b.Helper()
	for _, node := range nodes {
		info, err := node.Info(background, "cpu").Result()
		require.NoError(b, err)
		for line := range strings.Lines(info) {
			var seconds float64
			for _, field := range []string{"used_cpu_user:", "used_cpu_sys:"} {
				if _, err := fmt.Sscanf(line, field+"%f", &seconds); err == nil {
					µs += seconds * 1e6
				}
			}
		}
	}
	return µs
}

func usedMemory(b *testing.B, nodes []*redis.Client) (bytes int64) {
	b.Helper()
	for _, node := range nodes {
		info, err := node.Info(background, "memory").Result()
		require.NoError(b, err)
		for line := range strings.Lines(info) {
			var n int64
			if _, err := fmt.Sscanf(line, "used_memory:%d", &n); err == nil {
				bytes += n
			}
		}
	}
	return bytes
}

func patient(o *redis.Options) { o.ReadTimeout = time.Minute }

// The cost of a standing against the size of a board, in turns on one server. Read the ratios: they are to the smallest board
// of the same kind.
func BenchmarkGetBySize(b *testing.B) {
	c := redistest.Real(b).Client(b, patient)
	kinds := []struct {
		name string
		ties ranking.Ties
	}{{"ordinal", ranking.Ordinal}, {"competition", ranking.Competition}}
	var candidates []*candidate
	for _, n := range sizes() {
		name := redistest.ID()
		for _, kind := range kinds {
			board, err := ranking.New(c, name, &ranking.Options{Ties: kind.ties})
			require.NoError(b, err)
			if kind.ties == ranking.Ordinal { // the other has the same key
				fillMany(b, board, n)
				b.Cleanup(func() { _ = board.Clear(background) })
			}
			candidates = append(candidates, &candidate{name: fmt.Sprintf("%s %d", kind.name, n), do: func(i int) error {
				_, err := board.Get(background, player(i, n))
				return err
			}})
		}
	}
	interleave(b, 200, candidates, c)
	for i, c := range candidates {
		base := candidates[i%len(kinds)]
		fmt.Printf("| %s | %.2f | %.2f |\n", c.name, c.median()/base.median(), c.cpu/base.cpu) // a benchmark's log is cut after ten lines
	}
}

// The cost of a sharded board against its shards and members, in turns on a cluster of three masters. Read the ratios: they
// are to one key, of the same size.
func BenchmarkSharded(b *testing.B) {
	cluster := redistest.ThreeMasters(b)
	c := cluster.Client(b, func(o *redis.ClusterOptions) { o.ReadTimeout = time.Minute })
	var nodes []*redis.Client
	for _, addr := range cluster.Addrs {
		node := redis.NewClient(&redis.Options{Addr: addr})
		b.Cleanup(func() { _ = node.Close() })
		nodes = append(nodes, node)
	}
	shardings := []int{0, 3, 6, 12} // 0: one key
	operations := []string{"Set", "Best", "Get", "Top(100)", "Around(5, 5)"}
	var candidates []*candidate
	for _, n := range sizes() {
		for _, shards := range shardings {
			board, err := ranking.New(c, redistest.ID(), &ranking.Options{Ties: ranking.Competition})
			require.NoError(b, err)
			if shards > 0 {
				board = newSharded(b, c, redistest.ID(), shards, nil)
			}
			before, began := usedMemory(b, nodes), time.Now()
			fillMany(b, board, n)
			b.Cleanup(func() { _ = board.Clear(background) })
			fmt.Printf("%d members on %d shards: %.1f bytes each, filled in %v\n", n, shards,
				float64(usedMemory(b, nodes)-before)/float64(n), time.Since(began).Round(time.Millisecond))
			for _, op := range operations {
				do := map[string]func(i int) error{
					"Set":          func(i int) error { _, err := board.Set(background, player(i, n), points(i)); return err },
					"Best":         func(i int) error { _, err := board.Best(background, player(i, n), points(i)); return err },
					"Get":          func(i int) error { _, err := board.Get(background, player(i, n)); return err },
					"Top(100)":     func(int) error { _, err := board.Top(background, 100); return err },
					"Around(5, 5)": func(i int) error { _, err := board.Around(background, player(i, n), 5, 5); return err },
				}[op]
				candidates = append(candidates, &candidate{name: fmt.Sprintf("%d/%d/%s", n, shards, op), do: do})
			}
		}
	}
	interleave(b, 50, candidates, nodes...)
	for _, what := range []string{"time", "servers' CPU", "servers' CPU µs"} {
		fmt.Printf("%s\n| members | shards | %s |\n", what, strings.Join(operations, " | "))
		for i := 0; i < len(candidates); i += len(operations) {
			line := strings.Split(candidates[i].name, "/")[:2]
			for k, c := range candidates[i : i+len(operations)] {
				one := candidates[i/(len(operations)*len(shardings))*len(operations)*len(shardings)+k]
				value := map[string]float64{"time": c.median() / one.median(), "servers' CPU": c.cpu / one.cpu, "servers' CPU µs": c.cpu}[what]
				line = append(line, fmt.Sprintf("%.2f", value))
			}
			fmt.Printf("| %s |\n", strings.Join(line, " | "))
		}
	}
}
