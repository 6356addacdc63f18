package lock_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/lock"
)

// metrics are what a program exports to Prometheus, which reads them as text.
type metrics struct {
	mu     sync.Mutex
	events map[lock.EventKind]int
	held   int
	waited time.Duration
}

func (m *metrics) observe(_ context.Context, e lock.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events[e.Kind]++
	switch e.Kind {
	case lock.Acquired:
		m.held++
		m.waited += e.Waited
	case lock.Released, lock.Lost:
		m.held--
	}
}

func (m *metrics) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	for kind := lock.Acquired; kind <= lock.Lost; kind++ {
		if n := m.events[kind]; n > 0 {
			fmt.Fprintf(&b, "lock_events_total{kind=%q} %d\n", kind, n)
		}
	}
	fmt.Fprintf(&b, "lock_leases %d\nlock_wait_seconds_count %d\n", m.held, m.events[lock.Acquired])
	return b.String() // lock_wait_seconds_sum is m.waited.Seconds()
}

// Counters and a gauge, as Prometheus has them.
func ExampleOptions_metrics() {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	m := &metrics{events: map[lock.EventKind]int{}}
	locks, _ := lock.New(rdb, &lock.Options{Observe: m.observe})
	defer locks.Close()
	ctx := context.Background()

	lease, _ := locks.Mutex("order:13").Lock(ctx)
	_, _ = locks.Mutex("order:13").TryLock(ctx)
	_, _ = locks.Mutex("order:14").Lock(ctx)
	_ = lease.Release(ctx)
	fmt.Print(m)
	// Output:
	// lock_events_total{kind="acquired"} 2
	// lock_events_total{kind="not acquired"} 1
	// lock_events_total{kind="released"} 1
	// lock_leases 1
	// lock_wait_seconds_count 2
}

// traceSpan is what a tracer makes: with OpenTelemetry it is trace.SpanFromContext(ctx), and event is its AddEvent.
type traceSpan struct{ name string }

func (s *traceSpan) event(format string, args ...any) {
	fmt.Printf("%s: %s\n", s.name, fmt.Sprintf(format, args...))
}

type spanKey struct{}

// An event carries the context of the call that acquired the lease, so what happens in the background stands in the trace of
// the request that it concerns.
func ExampleOptions_tracing() {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	locks, _ := lock.New(rdb, &lock.Options{Observe: func(ctx context.Context, e lock.Event) {
		span, ok := ctx.Value(spanKey{}).(*traceSpan)
		switch {
		case !ok:
		case e.Kind == lock.Renewed && e.Err == nil: // all is well
		case e.Err != nil && e.Kind != lock.Lost:
			span.event("lock %s %s: %v", e.Name, e.Kind, e.Err)
		default:
			span.event("lock %s %s", e.Name, e.Kind)
		}
	}})
	defer locks.Close()

	ctx := context.WithValue(context.Background(), spanKey{}, &traceSpan{"POST /orders"})
	lease, _ := locks.Mutex("order:15").Lock(ctx)
	_ = lease.Release(context.Background()) // from anywhere

	ctx = context.WithValue(context.Background(), spanKey{}, &traceSpan{"POST /refunds"})
	lease, _ = locks.Mutex("order:15").Lock(ctx)
	_ = locks.Mutex("order:15").ForceUnlock(context.Background())
	_ = lease.Release(context.Background())
	// Output:
	// POST /orders: lock order:15 acquired
	// POST /orders: lock order:15 released
	// POST /refunds: lock order:15 acquired
	// POST /refunds: lock order:15 lost
}
