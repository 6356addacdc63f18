package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
)

// meter measures on one server.
type meter struct {
	ctx     context.Context
	addr    string
	control *bench.Control
	rounds  int
	chunk   time.Duration
	most    int // the largest size that is measured
}

// sizes leaves out what is too large for this run.
func (m *meter) sizes(all ...int) []int {
	return slices.DeleteFunc(all, func(n int) bool { return n > m.most })
}

// client returns a go-redis client as the README recommends it, with a pool that is large enough.
func (m *meter) client(connections int) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: m.addr, PoolSize: connections, PipelinePoolSize: connections, ContextTimeoutEnabled: true,
	})
}

// op is an operation that is timed. undo, which is not, makes the next one find what the first found.
type op struct {
	name string
	do   func(i int) error
	undo func(i int) error
}

func ping(ctx context.Context, db *redis.Client) op {
	return op{name: "PING", do: func(int) error { return db.Ping(ctx).Err() }}
}

// inPings returns what each operation costs in PINGs at this number of goroutines: the median over rounds in which all take
// their turns.
func (m *meter) inPings(goroutines int, db *redis.Client, ops ...op) ([]float64, error) {
	all := append([]op{ping(m.ctx, db)}, ops...)
	took := make([][]float64, len(all))
	for round := range m.rounds + 1 {
		for i, o := range all {
			each, err := m.each(goroutines, round, o)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", o.name, err)
			}
			if round > 0 { // the first opens connections and loads scripts
				took[i] = append(took[i], each)
			}
		}
	}
	out := make([]float64, len(ops))
	for i := range ops {
		ratios := make([]float64, m.rounds)
		for r := range ratios {
			ratios[r] = took[i+1][r] / took[0][r]
		}
		out[i] = median(ratios)
	}
	return out, nil
}

// each is how long one operation takes, in seconds, while so many goroutines do nothing else for a chunk's time.
func (m *meter) each(goroutines, round int, o op) (float64, error) {
	const fewest = 3
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		first error
		spent time.Duration
		done  int
	)
	for g := range goroutines {
		wg.Go(func() {
			var busy time.Duration
			n := 0
			for began := time.Now(); n < fewest || time.Since(began) < m.chunk; n++ {
				i := (round*goroutines+g)*1_000_003 + n
				t := time.Now()
				err := o.do(i)
				busy += time.Since(t)
				if err == nil && o.undo != nil {
					err = o.undo(i)
				}
				if err != nil {
					mu.Lock()
					first = err
					mu.Unlock()
					return
				}
			}
			mu.Lock()
			spent += busy
			done += n
			mu.Unlock()
		})
	}
	wg.Wait()
	if first != nil {
		return 0, first
	}
	return spent.Seconds() / float64(done), nil
}

// pingCPU is the server's processor time for a PING.
func (m *meter) pingCPU(db *redis.Client) (time.Duration, error) {
	const times = 5000
	from, err := m.control.Snapshot()
	if err != nil {
		return 0, err
	}
	for range times {
		if err := db.Ping(m.ctx).Err(); err != nil {
			return 0, err
		}
	}
	to, err := m.control.Snapshot()
	return m.control.Since(from, to).CPU / times, err
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}
