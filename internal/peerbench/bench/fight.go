package bench

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	handoffHold = 5 * time.Millisecond
	waiters     = 8
	graceful    = 30 * time.Second // how long a round waits for a first acquisition
)

// turns are what one waiter did in a round.
type turns struct {
	Holds      []hold
	Errors     int64
	FirstError string
}

// hold is one acquisition: from when Lock had returned to when the release was called, by the wall clock in nanoseconds. That
// clock is the one that all processes of a machine read.
type hold struct{ From, Until int64 }

func (t *turns) failed(err error) {
	t.Errors++
	if t.FirstError == "" {
		t.FirstError = err.Error()
	}
}

// contend is a waiter: it acquires, holds and releases until ctx ends. entered is called when it has the lock, pause before it
// asks again.
func contend(ctx context.Context, l Locker, key string, entered, pause func()) turns {
	var t turns
	for ctx.Err() == nil {
		held, err := l.Lock(ctx, key)
		if err != nil {
			if ctx.Err() == nil {
				t.failed(err)
			}
			continue
		}
		from := time.Now().UnixNano()
		entered()
		time.Sleep(handoffHold)
		t.Holds = append(t.Holds, hold{from, time.Now().UnixNano()})
		if err := held.Unlock(context.Background()); err != nil {
			t.failed(err)
		}
		pause()
	}
	return t
}

// referee ends a round, and tells who has released when another has entered.
type referee struct {
	ctx context.Context // ends with the round
	end func()

	mu      sync.Mutex
	entered int
	late    bool          // the round has its length
	next    chan struct{} // closed by the next who enters
}

func newReferee(length time.Duration) *referee {
	f := &referee{next: make(chan struct{})}
	f.ctx, f.end = context.WithTimeout(context.Background(), length+graceful)
	time.AfterFunc(length, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.late = true
		if f.entered > 0 { // a round without an acquisition says nothing
			f.end()
		}
	})
	return f
}

// enter notes an acquisition, and returns what is closed at the next.
func (f *referee) enter() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entered++
	close(f.next)
	f.next = make(chan struct{})
	if f.late {
		f.end()
	}
	return f.next
}

// judge makes figures of what the waiters did.
func judge(all []turns) handoff {
	h := handoff{counts: make([]int64, len(all))}
	var holds []hold
	for w, t := range all {
		h.counts[w] = int64(len(t.Holds))
		holds = append(holds, t.Holds...)
		h.errors += t.Errors
		if h.firstError == "" {
			h.firstError = t.FirstError
		}
	}
	slices.SortFunc(holds, func(a, b hold) int { return int(a.From - b.From) })
	for k := 1; k < len(holds); k++ {
		if took := holds[k].From - holds[k-1].Until; took >= 0 {
			h.latencies = append(h.latencies, time.Duration(took))
		} else {
			h.overlaps++
		}
	}
	h.acquired = len(holds)
	return h
}

// arena is where the waiters of a round are.
type arena interface {
	// fight lets them contend until the referee ends the round.
	fight(*referee) ([]turns, error)
	close()
}

// together has the waiters in goroutines of this process.
type together struct {
	mode    handoffMode
	key     string
	lockers []Locker
}

func (r *Run) gather(mode handoffMode, c Contender[LockConfig, Locker], key string) (arena, error) {
	a := &together{mode: mode, key: key}
	for w := range waiters {
		if mode.shared && w > 0 {
			a.lockers = append(a.lockers, a.lockers[0])
			continue
		}
		l, err := c.New(LockConfig{Conn: r.conn(waiters), TTL: lockTTL})
		if err != nil {
			return a, err
		}
		a.lockers = append(a.lockers, l)
	}
	for w, l := range a.lockers {
		if err := warm(l, key, w); err != nil {
			return a, err
		}
	}
	return a, prepare(a.lockers[0], key)
}

func (a *together) close() {
	for i, l := range a.lockers {
		if i == 0 || !a.mode.shared {
			l.Close()
		}
	}
}

func (a *together) fight(f *referee) ([]turns, error) {
	all := make([]turns, len(a.lockers))
	var wg sync.WaitGroup
	for w, l := range a.lockers {
		wg.Go(func() {
			var next <-chan struct{}
			all[w] = contend(f.ctx, l, a.key, func() { next = f.enter() }, func() {
				if a.mode.stepOut {
					select {
					case <-next:
					case <-f.ctx.Done():
					}
				}
			})
		})
	}
	wg.Wait()
	return all, nil
}

// warm opens a waiter's connections and loads its scripts.
func warm(l Locker, key string, w int) error {
	ctx := context.Background()
	key += ":warm:" + strconv.Itoa(w)
	if err := prepare(l, key); err != nil {
		return err
	}
	h, err := l.Lock(ctx, key)
	if err != nil {
		return err
	}
	return h.Unlock(ctx)
}

func prepare(l Locker, key string) error {
	if p, ok := l.(KeyPreparer); ok {
		return p.PrepareKey(context.Background(), key)
	}
	return nil
}
