package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
	"github.com/redispatterns/redispatterns/lock"
)

// waiters lets more and more goroutines want one lock, each again as soon as it has released it: with one Locker, as in one
// process, and with a client and Locker each, which Redis cannot tell from as many processes.
func waiters(m *meter) ([]chart, error) {
	handOver := chart{
		title: "Hand-over of one lock", file: "growth-waiters.svg", x: "waiters", y: "median, in PINGs",
		xs: m.sizes(1, 3, 10, 30, 100, 300, 1000), lines: []line{{name: "one Locker"}, {name: "a Locker each"}},
	}
	trips := chart{title: "Round trips of an acquisition and its release", x: "waiters", xs: handOver.xs, lines: []line{{name: "one Locker"}, {name: "a Locker each"}}}
	for _, n := range handOver.xs {
		for i, lockers := range []int{1, n} {
			took, sent, err := m.fight(n, lockers)
			if err != nil {
				return nil, fmt.Errorf("%d waiters: %w", n, err)
			}
			handOver.lines[i].ys = append(handOver.lines[i].ys, took)
			trips.lines[i].ys = append(trips.lines[i].ys, sent)
		}
	}
	return []chart{handOver, trips}, nil
}

// fight returns the median time from a release to the next acquisition, in PINGs, and the round trips for each.
func (m *meter) fight(waiters, lockers int) (inPings, trips float64, err error) {
	control := m.client(1)
	defer control.Close()
	if _, err := m.control.SettledMemory(); err != nil { // those of the fight before are gone
		return 0, 0, err
	}
	onePing, err := m.each(1, 0, ping(m.ctx, control))
	if err != nil {
		return 0, 0, err
	}
	var lockersOf []*lock.Locker
	for range lockers {
		db := m.client(4)
		defer db.Close()
		l, err := lock.New(db, nil)
		if err != nil {
			return 0, 0, err
		}
		defer l.Close()
		lockersOf = append(lockersOf, l)
	}
	name := fmt.Sprintf("hot:%d:%d", waiters, lockers)
	ctx, cancel := context.WithCancel(m.ctx)
	defer cancel()
	var (
		mu       sync.Mutex
		handed   []float64
		released time.Time
		inside   bool
		failed   error
		wg       sync.WaitGroup
		start    = make(chan struct{})
		enough   = 2*waiters + 200
	)
	fail := func(err error) {
		failed = errors.Join(failed, err)
		cancel()
	}
	entered := func(now time.Time) {
		mu.Lock()
		defer mu.Unlock()
		if inside {
			fail(errors.New("two holders"))
		}
		inside = true
		if !released.IsZero() {
			handed = append(handed, now.Sub(released).Seconds())
		}
		if len(handed) == enough {
			cancel()
		}
	}
	leaving := func() {
		mu.Lock()
		defer mu.Unlock()
		inside, released = false, time.Now()
	}
	for w := range waiters {
		wg.Go(func() {
			mutex := lockersOf[w%lockers].Mutex(name)
			<-start
			for {
				lease, err := mutex.Lock(ctx)
				if err == nil {
					entered(time.Now())
					runtime.Gosched() // let a second holder show itself
					leaving()
					err = lease.Release(context.WithoutCancel(ctx))
				} else if ctx.Err() != nil {
					return
				}
				if err != nil {
					mu.Lock()
					fail(err)
					mu.Unlock()
				}
			}
		})
	}
	before, err := m.control.Snapshot()
	if err != nil {
		return 0, 0, err
	}
	close(start)
	<-ctx.Done()
	after, err := m.control.Snapshot()
	wg.Wait()
	if err := errors.Join(failed, err); err != nil {
		return 0, 0, err
	}
	return median(handed) / onePing, float64(m.control.Since(before, after).Reads) / float64(len(handed)+1), nil
}

// leases holds more and more leases of three seconds, which are renewed every second, for five seconds.
func leases(m *meter) ([]chart, error) {
	c := chart{
		title: "Renewal of held leases", file: "growth-leases.svg", x: "leases held", y: "for each lease and second",
		xs:    m.sizes(1, 10, 100, 1000, 10_000),
		lines: []line{{name: "round trips"}, {name: "server CPU, in PINGs"}},
	}
	for _, n := range c.xs {
		trips, cpu, err := m.hold(n)
		if err != nil {
			return nil, fmt.Errorf("%d leases: %w", n, err)
		}
		c.lines[0].ys = append(c.lines[0].ys, trips)
		c.lines[1].ys = append(c.lines[1].ys, cpu)
	}
	return []chart{c}, nil
}

func (m *meter) hold(n int) (trips, cpu float64, err error) {
	const ttl, watched = 3 * time.Second, 5 * time.Second
	db := m.client(16)
	defer db.Close()
	onePing, err := m.pingCPU(db)
	if err != nil {
		return 0, 0, err
	}
	idle, err := m.over(watched / 2) // what the server does anyway
	if err != nil {
		return 0, 0, err
	}
	locks, err := lock.New(db, &lock.Options{TTL: ttl})
	if err != nil {
		return 0, 0, err
	}
	defer locks.Close()
	held := make([]*lock.Lease, n)
	var wg sync.WaitGroup
	errs := make([]error, 16)
	for g := range errs {
		wg.Go(func() {
			for i := g; i < n && errs[g] == nil; i += len(errs) {
				held[i], errs[g] = locks.Mutex(fmt.Sprintf("held:%d", i)).TryLock(m.ctx)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, 0, err
	}
	renewing, err := m.over(watched)
	if err != nil {
		return 0, 0, err
	}
	if lost := slices.IndexFunc(held, func(l *lock.Lease) bool { return !l.Held() }); lost >= 0 {
		return 0, 0, fmt.Errorf("lease %d was lost", lost)
	}
	for g := range errs {
		wg.Go(func() {
			for i := g; i < n; i += len(errs) {
				errs[g] = errors.Join(errs[g], held[i].Release(m.ctx))
			}
		})
	}
	wg.Wait()
	leaseSeconds := float64(n) * watched.Seconds()
	busy := max(0, renewing.CPU-2*idle.CPU)
	return float64(renewing.Reads) / leaseSeconds, float64(busy) / float64(onePing) / leaseSeconds, errors.Join(errs...)
}

// over is what the server does in that time.
func (m *meter) over(d time.Duration) (bench.Snapshot, error) {
	before, err := m.control.Snapshot()
	if err != nil {
		return before, err
	}
	time.Sleep(d) // this is the measure
	after, err := m.control.Snapshot()
	return m.control.Since(before, after), err
}
