package ranking

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns"
)

// Period is the length of a window.
type Period uint8

const (
	Hourly  Period = iota
	Daily          // from midnight to midnight: 23 or 25 hours where clocks change
	Weekly         // ISO weeks, from Monday
	Monthly        // calendar months
	AllTime        // one window that never ends: the board of the name itself
)

// Window is a period that Windows keeps boards of.
type Window struct {
	// Period is how long the window is. Each Window has another.
	Period Period

	// Location is whose midnight the window begins at. Defaults to UTC.
	Location *time.Location

	// Keep is how long after its end a window is kept and takes late scores. Defaults to one more period; it must not be
	// negative.
	Keep time.Duration
}

// Windows is a board per hour, day, week or month, and one of all time: one call writes a score to all of them in one round
// trip, and answers the rank in each. Safe for concurrent use.
//
// A score belongs to the windows of the time that comes with it. A window takes scores from one period before it begins,
// for clocks that are ahead, until its Keep is over, and then it is gone. Redis' clock decides; if one window is closed
// nothing is written to any. All windows of a name share a slot, so one node of a cluster has them all. A name belongs to
// one set of windows: those with another Location need another name.
//
// With Ties EarliestFirst a window packs times from its beginning to the end of its Keep. Options.Earliest may then be nil,
// or give only the Resolution; AllTime needs all of it.
type Windows struct {
	base    *Leaderboard
	windows []Window
}

// NewWindows makes Windows of this name. It does no I/O. Options.TTL is for AllTime; the others expire after Keep.
func NewWindows(client redispatterns.Client, name string, windows []Window, opts *Options) (*Windows, error) {
	w, err := newWindows(client, name, windows, opts)
	if err != nil {
		return nil, fmt.Errorf("ranking: new windows %q: %w", name, err)
	}
	return w, nil
}

func newWindows(client redispatterns.Client, name string, windows []Window, opts *Options) (*Windows, error) {
	base, err := newBoard(client, name, opts)
	if err != nil {
		return nil, err
	}
	if len(windows) == 0 {
		return nil, errors.New("no windows are given")
	}
	base.shares = true
	w := &Windows{base: base, windows: slices.Clone(windows)}
	for i := range w.windows {
		win := &w.windows[i]
		switch {
		case win.Period > AllTime:
			return nil, fmt.Errorf("window %d: Period is %d, must be one from Hourly to AllTime", i, win.Period)
		case slices.ContainsFunc(w.windows[:i], func(other Window) bool { return other.Period == win.Period }):
			return nil, fmt.Errorf("window %d: Period is %d, must not be that of another window", i, win.Period)
		case win.Keep < 0:
			return nil, fmt.Errorf("window %d: Keep is %v, must not be negative", i, win.Keep)
		}
		if win.Location == nil {
			win.Location = time.UTC
		}
		if win.Period == AllTime {
			err = base.pack()
		} else {
			_, err = w.board(*win, time.Now()) // its room, which is about that of every other
		}
		if err != nil {
			return nil, err
		}
	}
	return w, nil
}

// Set is Leaderboard.Set on the windows that the time at falls into: one Update per window, in the order of NewWindows. A
// window with MaxSize where the member is not among the best has Rank 0; ErrNotFound if that is all of them.
func (w *Windows) Set(ctx context.Context, at time.Time, member string, score float64) ([]Update, error) {
	return w.write(ctx, at, set, "set", member, "score", score, "")
}

// Increment is Leaderboard.Increment on the windows of at. An ErrScore of one window, such as a sum out of range, changes
// nothing on any.
func (w *Windows) Increment(ctx context.Context, at time.Time, member string, delta float64) ([]Update, error) {
	return w.write(ctx, at, add, "increment", member, "delta", delta, "")
}

// Best is Leaderboard.Best on the windows of at: the best of the day, of the week, and so on.
func (w *Windows) Best(ctx context.Context, at time.Time, member string, score float64) ([]Update, error) {
	return w.write(ctx, at, best, "best", member, "score", score, "")
}

// IncrementOnce is Leaderboard.IncrementOnce on the windows of at: op counts once on all of them together.
func (w *Windows) IncrementOnce(ctx context.Context, at time.Time, member string, delta float64, op string) ([]Update, error) {
	if op == "" {
		return nil, w.base.wrap("increment once", errEmptyOperation)
	}
	return w.write(ctx, at, add, "increment once", member, "delta", delta, op)
}

func (w *Windows) write(
	ctx context.Context, at time.Time, v verb, name, member, what string, score float64, op string,
) ([]Update, error) {
	updates, err := w.run(ctx, at, v, member, what, score, op)
	if err != nil {
		return updates, w.base.wrap(name, err)
	}
	return updates, nil
}

func (w *Windows) run(ctx context.Context, at time.Time, v verb, member, what string, score float64, op string) ([]Update, error) {
	boards := make([]*Leaderboard, len(w.windows))
	var text string
	for i, win := range w.windows {
		b, err := w.board(win, at)
		if err != nil {
			return nil, err
		}
		if text, err = b.check(member, what, score); err != nil {
			return nil, err
		}
		boards[i] = b
	}
	reply, err := w.base.script(ctx, boards, v, op, 4*len(boards), member, text)
	if err != nil {
		return nil, err
	}
	updates, found := make([]Update, len(boards)), false
	for i, b := range boards {
		updates[i], err = b.update(member, reply[4*i:4*i+4])
		found = found || err == nil
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
	}
	if !found {
		return updates, ErrNotFound
	}
	return updates, nil
}

// Remove takes members off every window that is still kept, in two round trips: it asks Redis for the time first.
func (w *Windows) Remove(ctx context.Context, members ...string) error {
	if err := w.remove(ctx, members); err != nil {
		return w.base.wrap("remove", err)
	}
	return nil
}

func (w *Windows) remove(ctx context.Context, members []string) error {
	if len(members) == 0 {
		return nil
	}
	if slices.Contains(members, "") {
		return errEmptyMember
	}
	clock := redis.NewTimeCmd(ctx, "time")
	_ = w.base.client.Process(ctx, clock)
	if err := clock.Err(); err != nil {
		return err
	}
	var keys []string
	for _, win := range w.windows {
		for _, b := range w.kept(win, clock.Val()) {
			keys = append(keys, b.key, b.scores())
		}
	}
	for chunk := range slices.Chunk(members, chunkSize) {
		args := make([]any, 0, 3+len(chunk))
		args = append(args, w.base.settings.order, "", "")
		for _, member := range chunk {
			args = append(args, member)
		}
		if _, err := removeScript.Int(ctx, w.base.client, keys, args...); err != nil {
			return err
		}
	}
	return nil
}

// clockDrift is by how much the nodes of a cluster may disagree, of which any answers TIME.
const clockDrift = time.Minute

// kept are the windows that take scores at now: the next, the present, and those before whose Keep is not over.
func (w *Windows) kept(win Window, now time.Time) []*Leaderboard {
	if win.Period == AllTime {
		return []*Leaderboard{w.base}
	}
	var boards []*Leaderboard
	_, at := win.bounds(now.Add(clockDrift))
	for {
		b, err := w.board(win, at)
		if err != nil || b.closes <= now.Add(-clockDrift).UnixMilli() {
			return boards
		}
		boards = append(boards, b)
		start, _ := win.bounds(at)
		at = start.Add(-1)
	}
}

// Board is one window's board, to read it: that of the period p which the time at falls into. A write to it counts in that
// window alone. Operations of IncrementOnce are remembered for all windows of the name together.
func (w *Windows) Board(p Period, at time.Time) (*Leaderboard, error) {
	i := slices.IndexFunc(w.windows, func(win Window) bool { return win.Period == p })
	if i < 0 {
		return nil, w.base.wrap("board", fmt.Errorf("there is no window of Period %d", p))
	}
	b, err := w.board(w.windows[i], at)
	if err != nil {
		return nil, w.base.wrap("board", err)
	}
	return b, nil
}

func (w *Windows) board(win Window, at time.Time) (*Leaderboard, error) {
	if win.Period == AllTime {
		return w.base, nil
	}
	if y := at.UTC().Year(); y < 1970 || y > 9998 { // or closes could be 0, which is never
		return nil, fmt.Errorf("the time is of the year %d", y)
	}
	start, end := win.bounds(at)
	before, _ := win.bounds(start.Add(-1))
	closes := end.Add(win.Keep)
	if win.Keep == 0 {
		_, closes = win.bounds(end)
	}
	b := *w.base
	b.key = w.base.companion(win.label(start))
	b.opens, b.closes = before.UnixMilli(), closes.UnixMilli()
	if b.options.Ties == EarliestFirst {
		e := Earliest{Since: start, Until: closes}
		if b.options.Earliest != nil {
			e.Resolution = b.options.Earliest.Resolution
		}
		b.options.Earliest = &e
	}
	memory := b.memory
	b.setKeys()
	b.memory = memory
	return &b, b.pack()
}

// label is how the key of a window ends: the beginning in its Location; of an hour in UTC, as local hours come twice.
func (w Window) label(start time.Time) string {
	switch w.Period {
	case Hourly:
		return start.UTC().Format("~h:2006-01-02-15:04")
	case Daily:
		return start.Format("~d:2006-01-02")
	case Weekly:
		year, week := start.ISOWeek()
		return fmt.Sprintf("~w:%d-%02d", year, week)
	}
	return start.Format("~m:2006-01")
}

// bounds are the beginning of the window that at falls into, and that of the next.
func (w Window) bounds(at time.Time) (start, end time.Time) {
	at = at.In(w.Location)
	y, m, d := at.Date()
	switch w.Period {
	case Hourly:
		start = at.Add(-time.Duration(at.Minute())*time.Minute - time.Duration(at.Second())*time.Second - time.Duration(at.Nanosecond()))
		return start, start.Add(time.Hour)
	case Daily:
		return midnight(y, m, d, w.Location), midnight(y, m, d+1, w.Location)
	case Weekly:
		monday := d - (int(at.Weekday())+6)%7
		return midnight(y, m, monday, w.Location), midnight(y, m, monday+7, w.Location)
	}
	return midnight(y, m, 1, w.Location), midnight(y, m+1, 1, w.Location)
}

// midnight is the first moment of a day; where clocks change at midnight, time.Date may give another.
func midnight(y int, m time.Month, d int, location *time.Location) time.Time {
	noon := time.Date(y, m, d, 12, 0, 0, 0, location)
	y, m, d = noon.Date()
	t := time.Date(y, m, d, 0, 0, 0, 0, location)
	since, until := t.ZoneBounds()
	if t.Day() != d { // there is no 00:00: the day begins when the clocks have changed
		return until
	}
	if !since.IsZero() {
		_, after := t.Zone()
		_, before := since.Add(-1).Zone()
		if first := t.Add(time.Duration(after-before) * time.Second); after < before && first.Before(since) && first.Day() == d {
			return first // 00:00 comes twice
		}
	}
	return t
}
