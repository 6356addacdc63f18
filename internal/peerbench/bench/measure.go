package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Options of a run.
type Options struct {
	Ops       int           // operations per contender and round, at least minShare for each of several goroutines
	Workers   []int         // concurrency levels
	Rounds    int           // interleaved rounds, each in an order of its own
	Handoff   time.Duration // length of one lock/handoff round of one contender
	Processes bool          // lock/handoff also with a process for each waiter
	Keys      int           // clients in the limiter tables, sessions in session/memory
	MemReqs   int           // requests per client in ratelimit/memory
	Boards    []int         // ranking board sizes
	Only      string        // run only contenders whose name contains this; references always run
	Short     bool          // leave out tables that say little more than others
	Progress  func(format string, args ...any)
}

// Run is one benchmark run against one server.
type Run struct {
	Options
	Server  Conn
	Control *Control
	Out     *Report
}

// about is what a table says of a contender.
type about struct {
	name, note  string
	ref, merges bool
	again       bool // the reference once more: its ratio is the noise
}

// minShare is how many operations each of several goroutines does in a round at least: with few, a client that merges has hardly
// begun to.
const minShare = 10

// work is a closed-loop workload of one contender.
type work struct {
	about
	prepare func(ops int) error       // untimed, before each chunk of ops
	op      func(worker, i int) error // timed; i counts up within the worker's share
	close   func() error
}

// sample is what one chunk of operations cost, an operation where it is not said otherwise.
type sample struct {
	rate          float64 // operations that succeeded, per second
	latencies     []time.Duration
	reads         float64
	in, out       float64
	serverCPU     float64 // µs
	clientCPU     float64 // µs
	allocs, bytes float64
	errorShare    float64
	firstError    error
}

// counts are commands per operation, seen under MONITOR.
type counts struct {
	topLevel, lua float64
	names         map[string]int64
}

// row is a contender's line in a closed-loop table.
type row struct {
	about
	med       sample
	p50, p99  float64 // µs, of the operations of all rounds
	counts    counts
	ratio     float64 // of throughput to the reference's in the same round
	low, high float64 // quartiles of that ratio
	cpuRatio  float64 // the same for server + client CPU time per operation
	merged    float64 // of throughput to that of the reference that merges; 0 if this does not merge, or there is none
}

// closedLoop runs the workloads in interleaved rounds and returns their medians. The first workload that is a reference is
// the divisor of the ratio. Each round has an order of its own, so that nobody always comes after the same neighbour.
func (r *Run) closedLoop(workers int, works []work) ([]row, error) {
	defer func() {
		for _, w := range works {
			if w.close != nil {
				w.close()
			}
		}
	}()

	rows := make([]row, len(works))
	for i, w := range works {
		rows[i].about = w.about
		// Warm connections, script caches and code before anything is counted.
		if _, err := r.chunk(w, workers, max(r.Ops, 20*workers)); err != nil {
			return nil, fmt.Errorf("%s: warm-up: %w", w.name, err)
		}
		var err error
		if rows[i].counts, err = r.count(w, workers, max(r.Ops, 4*workers)); err != nil {
			return nil, fmt.Errorf("%s: counting: %w", w.name, err)
		}
	}

	samples := make([][]sample, len(works))
	for range r.Rounds {
		for _, i := range rand.Perm(len(works)) {
			s, err := r.chunk(works[i], workers, r.Ops)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", works[i].name, err)
			}
			samples[i] = append(samples[i], s)
		}
	}

	plain := slices.IndexFunc(works, func(w work) bool { return w.ref })
	merging := slices.IndexFunc(works, func(w work) bool { return w.ref && w.merges })
	rate := func(s sample) float64 { return s.rate }
	cpu := func(s sample) float64 { return s.serverCPU + s.clientCPU }
	for i, w := range works {
		rows[i].med = medianSample(samples[i])
		rows[i].p50, rows[i].p99 = percentiles(samples[i])
		if plain >= 0 {
			rates := ratios(samples[i], samples[plain], rate)
			rows[i].ratio, rows[i].low, rows[i].high = median(rates), rates[len(rates)/4], rates[len(rates)*3/4]
			rows[i].cpuRatio = median(ratios(samples[i], samples[plain], cpu))
		}
		if w.merges && merging >= 0 {
			rows[i].merged = median(ratios(samples[i], samples[merging], rate))
		}
	}
	return rows, nil
}

// ratios of a to b, round by round, sorted.
func ratios(a, b []sample, of func(sample) float64) []float64 {
	var out []float64
	for k := range a {
		if d := of(b[k]); d > 0 {
			out = append(out, of(a[k])/d)
		} else {
			out = append(out, 0)
		}
	}
	slices.Sort(out)
	return out
}

// chunk times ops operations of one workload, after some that are not timed: what ran before has left the caches to it.
func (r *Run) chunk(w work, workers, ops int) (sample, error) {
	share := ops
	if workers > 1 {
		share = max(ops/workers, minShare)
	}
	lead := max(share/10, 1)
	ops = share * workers
	if w.prepare != nil {
		if err := w.prepare(ops + lead*workers); err != nil {
			return sample{}, err
		}
	}
	lat := make([]time.Duration, ops)
	var failed atomic.Int64
	var firstError atomic.Pointer[error]
	var led, wg sync.WaitGroup
	led.Add(workers)
	begin, start := make(chan struct{}), make(chan struct{})
	for g := range workers {
		mine := lat[g*share : (g+1)*share]
		wg.Go(func() {
			<-begin
			for i := range lead {
				_ = w.op(g, i) // an error shows in those that are timed
			}
			led.Done()
			<-start
			for i := range mine {
				t := time.Now()
				err := w.op(g, lead+i)
				mine[i] = time.Since(t)
				if err != nil {
					failed.Add(1)
					first := err // a variable of its own: err is not to be allocated for each operation
					firstError.CompareAndSwap(nil, &first)
				}
			}
		})
	}

	runtime.GC()
	close(begin)
	led.Wait()
	from, err := r.Control.Snapshot()
	if err != nil {
		return sample{}, err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu := selfCPU()
	t := time.Now()
	close(start)
	wg.Wait()
	elapsed := time.Since(t)
	cpu = selfCPU() - cpu
	runtime.ReadMemStats(&after)
	to, err := r.Control.Snapshot()
	if err != nil {
		return sample{}, err
	}

	d := r.Control.Since(from, to)
	n := float64(ops)
	s := sample{
		rate:       (n - float64(failed.Load())) / elapsed.Seconds(),
		latencies:  lat,
		reads:      float64(d.Reads) / n,
		in:         float64(d.NetIn) / n,
		out:        float64(d.NetOut) / n,
		serverCPU:  micros(d.CPU) / n,
		clientCPU:  micros(cpu) / n,
		allocs:     float64(after.Mallocs-before.Mallocs) / n,
		bytes:      float64(after.TotalAlloc-before.TotalAlloc) / n,
		errorShare: float64(failed.Load()) / n,
	}
	if e := firstError.Load(); e != nil {
		s.firstError = *e
	}
	return s, nil
}

// count runs ops operations under MONITOR.
func (r *Run) count(w work, workers, ops int) (counts, error) {
	share := max(ops/workers, 1)
	ops = share * workers
	if w.prepare != nil {
		if err := w.prepare(ops); err != nil {
			return counts{}, err
		}
	}
	m, err := StartMonitor(r.Server)
	if err != nil {
		return counts{}, err
	}
	var wg sync.WaitGroup
	for g := range workers {
		wg.Go(func() {
			for i := range share {
				_ = w.op(g, i) // errors are reported by the timed rounds
			}
		})
	}
	wg.Wait()
	if err := m.Stop(); err != nil {
		return counts{}, err
	}
	n := float64(ops)
	return counts{topLevel: float64(m.TopLevel) / n, lua: float64(m.Lua) / n, names: m.ByName}, nil
}

// parallel runs do for each of 0..n-1, a few at a time, and returns the first error.
func parallel(n int, do func(ctx context.Context, i int) error) error {
	const workers = 16
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var wg sync.WaitGroup
	for g := range workers {
		wg.Go(func() {
			for i := g; i < n && ctx.Err() == nil; i += workers {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func medianSample(all []sample) sample {
	pick := func(f func(sample) float64) float64 {
		v := make([]float64, len(all))
		for i, s := range all {
			v[i] = f(s)
		}
		return median(v)
	}
	m := sample{
		rate:       pick(func(s sample) float64 { return s.rate }),
		reads:      pick(func(s sample) float64 { return s.reads }),
		in:         pick(func(s sample) float64 { return s.in }),
		out:        pick(func(s sample) float64 { return s.out }),
		serverCPU:  pick(func(s sample) float64 { return s.serverCPU }),
		clientCPU:  pick(func(s sample) float64 { return s.clientCPU }),
		allocs:     pick(func(s sample) float64 { return s.allocs }),
		bytes:      pick(func(s sample) float64 { return s.bytes }),
		errorShare: pick(func(s sample) float64 { return s.errorShare }),
	}
	for _, s := range all {
		if s.firstError != nil {
			m.firstError = s.firstError
			break
		}
	}
	return m
}

// percentiles of the latencies of all samples, in µs.
func percentiles(all []sample) (p50, p99 float64) {
	var lat []time.Duration
	for _, s := range all {
		lat = append(lat, s.latencies...)
	}
	slices.Sort(lat)
	return micros(percentile(lat, 50)), micros(percentile(lat, 99))
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// percentile of a sorted list.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(float64(len(sorted))*p/100))]
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
