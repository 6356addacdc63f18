package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	handoffHold   = 5 * time.Millisecond
	handoffRounds = 5 // at most: these rounds are long
	waiters       = 8
)

// handoffMode says how the waiters of a contended lock behave.
type handoffMode struct {
	title   string
	shared  bool // all waiters use one Locker
	stepOut bool // a releaser waits for the next holder before it asks again
}

// handoff is what one round of a contended lock showed.
type handoff struct {
	rate       float64
	latencies  []time.Duration // from a release to the next acquisition
	counts     []int64         // acquisitions of each waiter
	seen       counts          // per acquisition
	serverCPU  float64         // per acquisition
	overlaps   int64           // moments with two holders
	errors     int64
	firstError error
}

func (r *Run) lockHandoff(mode handoffMode) error {
	r.Progress("%s", mode.title)
	contenders := field(r, HandoffLocks)
	rounds := make([][]handoff, len(contenders))
	for round := range min(r.Rounds, handoffRounds) {
		for i, c := range contenders {
			h, err := r.handoffRound(mode, c, fmt.Sprintf("hot:%d:%d", i, round), round == 0)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", mode.title, c.Name, err)
			}
			rounds[i] = append(rounds[i], h)
		}
	}

	rows := make([]handoffRow, len(contenders))
	floor := slices.IndexFunc(contenders, func(c Contender[LockConfig, Locker]) bool { return c.Floor })
	for i := range rows {
		rows[i] = summarize(rounds[i], rounds[0])
	}
	var lines [][]string
	for i, c := range contenders {
		row, vsFloor := rows[i], [2]float64{}
		if floor >= 0 {
			vsFloor = [2]float64{row.p50 / rows[floor].p50, row.p99 / rows[floor].p99}
		}
		lines = append(lines, []string{
			label(c.Name, c.Ref), fmt.Sprintf("%.1f", row.rate), fmt.Sprintf("%.2f", row.ratio),
			fmt.Sprintf("%.2f", row.p50), orDash("%.2f", vsFloor[0]),
			fmt.Sprintf("%.2f", row.p99), orDash("%.2f", vsFloor[1]), fmt.Sprintf("%.2f", row.max),
			row.fairness, fmt.Sprintf("%.1f", row.topLevel), fmt.Sprintf("%.1f", row.lua), fmt.Sprintf("%.0f", row.serverCPU),
			fmt.Sprint(row.overlaps), fmt.Sprint(row.errors), fmt.Sprint(row.held),
		})
	}
	r.Out.Title(mode.title)
	r.Out.Table([]string{
		"contender", "acquisitions/s", "vs ref", "handoff p50 ms", "p50 vs floor", "p99 ms", "p99 vs floor", "max ms",
		"fairness max/min", "commands/acq", "Lua calls/acq", "server CPU µs/acq", "overlaps", "errors", "acquisitions",
	}, lines)
	r.Out.Text("")
	for i, c := range contenders {
		if c.Note != "" {
			r.Out.Text("- %s: %s", c.Name, c.Note)
		}
		if err := rows[i].firstError; err != nil {
			r.Out.Text("- %s: first error: %v", c.Name, err)
		}
	}
	return nil
}

// handoffRow is a contender's line.
type handoffRow struct {
	rate, ratio      float64
	p50, p99, max    float64 // ms
	fairness         string
	topLevel, lua    float64
	serverCPU        float64
	overlaps, errors int64
	held             int64
	firstError       error
}

func summarize(rounds, reference []handoff) handoffRow {
	var all []time.Duration
	var sorted [waiters]int64
	var row handoffRow
	counted, timed := rounds[0], rounds // the round that was counted is not timed, if there is another
	if len(rounds) > 1 {
		timed, reference = rounds[1:], reference[1:]
	}
	for _, h := range rounds {
		row.overlaps += h.overlaps
		row.errors += h.errors
		if row.firstError == nil {
			row.firstError = h.firstError
		}
	}
	for _, h := range timed {
		all = append(all, h.latencies...)
		// By rank and not by waiter: it is luck which waiter starves in a round.
		for rank, n := range slices.Sorted(slices.Values(h.counts)) {
			sorted[rank] += n
			row.held += n
		}
	}
	slices.Sort(all)
	ms := func(p float64) float64 { return micros(percentile(all, p)) / 1000 }
	row.p50, row.p99, row.max = ms(50), ms(99), ms(100)
	row.fairness = fairness(sorted[:])
	pick := func(f func(int) float64) float64 {
		v := make([]float64, len(timed))
		for k := range v {
			v[k] = f(k)
		}
		return median(v)
	}
	row.rate = pick(func(k int) float64 { return timed[k].rate })
	row.ratio = pick(func(k int) float64 { return timed[k].rate / reference[k].rate })
	row.topLevel, row.lua = counted.seen.topLevel, counted.seen.lua
	row.serverCPU = pick(func(k int) float64 { return timed[k].serverCPU })
	return row
}

// fairness is the acquisitions of the luckiest waiter over those of the unluckiest.
func fairness(counts []int64) string {
	low, high := slices.Min(counts), slices.Max(counts)
	if low == 0 {
		return fmt.Sprintf("%d/0", high)
	}
	return fmt.Sprintf("%.2f", float64(high)/float64(low))
}

// handoffRound lets the waiters fight over one key for Options.Handoff.
// With count, the first round, it counts commands by MONITOR, which costs the server time for each, also for those in a script.
func (r *Run) handoffRound(mode handoffMode, c Contender[LockConfig, Locker], key string, count bool) (handoff, error) {
	if err := r.Control.Flush(); err != nil {
		return handoff{}, err
	}
	lockers, err := r.handoffLockers(mode, c, key)
	defer func() {
		for i, l := range lockers {
			if i == 0 || !mode.shared {
				l.Close()
			}
		}
	}()
	if err != nil {
		return handoff{}, err
	}
	var monitor *Monitor
	if count {
		if monitor, err = StartMonitor(r.Server); err != nil {
			return handoff{}, err
		}
	}
	from, err := r.Control.Snapshot()
	if err != nil {
		return handoff{}, err
	}
	f := newFight(mode, r.Handoff)
	var wg sync.WaitGroup
	for w, l := range lockers {
		wg.Go(func() { f.wait(w, l, key) })
	}
	wg.Wait()
	f.cancel()
	to, err := r.Control.Snapshot()
	if err != nil {
		return handoff{}, err
	}
	if count {
		if err := monitor.Stop(); err != nil {
			return handoff{}, err
		}
	}
	f.mu.Lock() // for the clock's goroutine
	defer f.mu.Unlock()
	if f.acquired == 0 {
		return handoff{}, fmt.Errorf("no acquisition in %v (first error: %w)", f.elapsed, f.out.firstError)
	}
	n := float64(f.acquired)
	f.out.rate = n / max(f.elapsed, r.Handoff).Seconds()
	if count {
		f.out.seen = counts{topLevel: float64(monitor.TopLevel) / n, lua: float64(monitor.Lua) / n}
	}
	f.out.serverCPU = micros(r.Control.Since(from, to).CPU) / n
	return f.out, nil
}

// handoffLockers returns a warm Locker for each waiter, even with an error those that are to be closed.
func (r *Run) handoffLockers(mode handoffMode, c Contender[LockConfig, Locker], key string) (lockers []Locker, err error) {
	ctx := context.Background()
	for w := range waiters {
		if mode.shared && w > 0 {
			lockers = append(lockers, lockers[0])
			continue
		}
		l, err := c.New(LockConfig{Conn: r.conn(waiters), TTL: lockTTL})
		if err != nil {
			return lockers, err
		}
		lockers = append(lockers, l)
	}
	prepare := func(l Locker, key string) error {
		if p, ok := l.(KeyPreparer); ok {
			return p.PrepareKey(ctx, key)
		}
		return nil
	}
	for w, l := range lockers { // open connections, load scripts
		warm := key + ":warm:" + strconv.Itoa(w)
		if err := prepare(l, warm); err != nil {
			return lockers, err
		}
		h, err := l.Lock(ctx, warm)
		if err != nil {
			return lockers, err
		}
		if err := h.Unlock(ctx); err != nil {
			return lockers, err
		}
	}
	return lockers, prepare(lockers[0], key)
}

// fight is one round's state.
type fight struct {
	mode   handoffMode
	ctx    context.Context // ends with the round
	cancel func()
	inside atomic.Int32

	mu         sync.Mutex
	changed    *sync.Cond // someone acquired, or the round has ended
	out        handoff
	acquired   int
	releasedAt time.Time
	elapsed    time.Duration
}

func newFight(mode handoffMode, length time.Duration) *fight {
	f := &fight{mode: mode, out: handoff{counts: make([]int64, waiters)}}
	f.changed = sync.NewCond(&f.mu)
	begin := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), length)
	f.ctx, f.cancel = ctx, cancel
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		f.elapsed = time.Since(begin)
		f.mu.Unlock()
		f.changed.Broadcast()
	})
	return f
}

// wait is a waiter: it acquires, holds and releases until the round ends.
func (f *fight) wait(w int, l Locker, key string) {
	for f.ctx.Err() == nil {
		held, err := l.Lock(f.ctx, key)
		if err != nil {
			if f.ctx.Err() == nil {
				f.failed(err)
			}
			continue
		}
		turn := f.enter(w)
		time.Sleep(handoffHold)
		f.leave()
		if err := held.Unlock(context.Background()); err != nil {
			f.failed(err)
		}
		if f.mode.stepOut {
			f.mu.Lock()
			for f.acquired == turn && f.ctx.Err() == nil {
				f.changed.Wait()
			}
			f.mu.Unlock()
		}
	}
}

// enter notes an acquisition, and returns its number.
func (f *fight) enter(w int) int {
	now := time.Now()
	overlap := f.inside.Add(1) != 1
	f.mu.Lock()
	defer f.mu.Unlock()
	if overlap {
		f.out.overlaps++
	}
	if !f.releasedAt.IsZero() {
		f.out.latencies = append(f.out.latencies, now.Sub(f.releasedAt))
		f.releasedAt = time.Time{}
	}
	f.out.counts[w]++
	f.acquired++
	f.changed.Broadcast()
	return f.acquired
}

// leave notes that the holder is about to release.
func (f *fight) leave() {
	f.mu.Lock()
	f.releasedAt = time.Now()
	f.mu.Unlock()
	f.inside.Add(-1)
}

func (f *fight) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out.errors++
	if f.out.firstError == nil {
		f.out.firstError = err
	}
}
