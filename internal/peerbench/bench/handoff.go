package bench

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

const handoffRounds = 5 // at most: these rounds are long

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
	acquired   int
	overlaps   int64 // moments with two holders
	errors     int64
	firstError string
}

func (r *Run) lockHandoff(mode handoffMode) error {
	r.Progress("%s", mode.title)
	entrants := r.entrants(mode)
	rounds := make([][]handoff, len(entrants))
	for round := range min(r.Rounds, handoffRounds) {
		for _, i := range rand.Perm(len(entrants)) {
			e := entrants[i]
			h, err := r.handoffRound(mode, e, fmt.Sprintf("hot:%d:%d", i, round), round == 0)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", mode.title, e.name(), err)
			}
			rounds[i] = append(rounds[i], h)
		}
	}

	rows := make([]handoffRow, len(entrants))
	for i := range rows {
		rows[i] = summarize(rounds[i], rounds[0])
	}
	var lines, brief [][]string
	for i, e := range entrants {
		row := rows[i]
		var p50, p99, cpu float64 // over those of the floor in the same place
		if f := slices.IndexFunc(entrants, func(o entrant) bool { return o.Floor && o.apart == e.apart }); f >= 0 {
			p50, p99, cpu = row.p50/rows[f].p50, row.p99/rows[f].p99, row.serverCPU/rows[f].serverCPU
		}
		lines = append(lines, []string{
			label(e.name(), e.Ref), fmt.Sprintf("%.1f", row.rate), fmt.Sprintf("%.2f", row.ratio),
			fmt.Sprintf("%.2f", row.p50), orDash("%.2f", p50),
			fmt.Sprintf("%.2f", row.p99), orDash("%.2f", p99), fmt.Sprintf("%.2f", row.max),
			row.fairness, fmt.Sprintf("%.1f", row.topLevel), fmt.Sprintf("%.1f", row.lua), fmt.Sprintf("%.0f", row.serverCPU),
			fmt.Sprint(row.overlaps), fmt.Sprint(row.errors), fmt.Sprint(row.held),
		})
		brief = append(brief, []string{
			label(e.name(), e.Ref), orDash("%.2f", p50), orDash("%.2f", p99), fmt.Sprintf("%.1f", row.topLevel), row.fairness,
			orDash("%.2f", cpu), fmt.Sprint(row.held),
		})
	}
	r.Out.Title(mode.title)
	r.Out.Table([]string{
		"contender", "acquisitions/s", "vs ref", "handoff p50 ms", "p50 vs floor", "p99 ms", "p99 vs floor", "max ms",
		"fairness max/min", "commands/acq", "Lua calls/acq", "server CPU µs/acq", "overlaps", "errors", "acquisitions",
	}, lines)
	r.Out.Text("")
	for i, e := range entrants {
		if e.Note != "" && !e.apart {
			r.Out.Text("- %s: %s", e.name(), e.Note)
		}
		if err := rows[i].firstError; err != "" {
			r.Out.Text("- %s: first error: %s", e.name(), err)
		}
	}
	r.Out.page.table(mode.title, []string{
		"contender", "p50 over BLPOP's", "p99", "commands", "fairness", "server CPU over BLPOP's", "acquisitions",
	}, brief)
	return nil
}

// entrant is a contender, and where its waiters are.
type entrant struct {
	Contender[LockConfig, Locker]
	apart bool // each in a process of its own
}

func (e entrant) name() string {
	if e.apart {
		return fmt.Sprintf("%s, %d processes", e.Name, waiters)
	}
	return e.Name
}

func (r *Run) entrants(mode handoffMode) []entrant {
	var in, out []entrant
	for _, c := range field(r, HandoffLocks) {
		in = append(in, entrant{c, false})
		if c.Apart && !mode.shared && r.Processes {
			out = append(out, entrant{c, true})
		}
	}
	return append(in, out...)
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
	firstError       string
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
		if row.firstError == "" {
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
func (r *Run) handoffRound(mode handoffMode, e entrant, key string, count bool) (handoff, error) {
	if err := r.Control.Flush(); err != nil {
		return handoff{}, err
	}
	place := r.gather
	if e.apart {
		place = r.spread
	}
	waiting, err := place(mode, e.Contender, key)
	defer waiting.close()
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
	f := newReferee(r.Handoff)
	defer f.end()
	began := time.Now()
	all, err := waiting.fight(f)
	elapsed := time.Since(began)
	if err != nil {
		return handoff{}, err
	}
	to, err := r.Control.Snapshot()
	if err != nil {
		return handoff{}, err
	}
	if count {
		if err := monitor.Stop(); err != nil {
			return handoff{}, err
		}
	}
	h := judge(all)
	if h.acquired == 0 {
		return handoff{}, fmt.Errorf("no acquisition in %v (first error: %s)", elapsed, h.firstError)
	}
	n := float64(h.acquired)
	h.rate = n / elapsed.Seconds()
	if count {
		h.seen = counts{topLevel: float64(monitor.TopLevel) / n, lua: float64(monitor.Lua) / n}
	}
	h.serverCPU = micros(r.Control.Since(from, to).CPU) / n
	return h, nil
}
