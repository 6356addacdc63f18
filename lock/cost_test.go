package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// cost is what an operation may cost at most, on a plain client.
type cost struct {
	op     string
	trips  int
	allocs float64
	setUp  func(t testing.TB, locks *lock.Locker, name string) func() error
}

// of gets and gives up a lease again and again.
func of(acquire func(context.Context) (*lock.Lease, error)) func() error {
	return func() error {
		lease, err := acquire(context.Background())
		if err != nil {
			return err
		}
		return lease.Release(context.Background())
	}
}

var costs = []cost{
	{"Lock and Release", 2, 23, func(_ testing.TB, locks *lock.Locker, name string) func() error {
		return func() error { return of(locks.Mutex(name).Lock)() }
	}},
	{"TryLock refused", 1, 12, func(t testing.TB, locks *lock.Locker, name string) func() error {
		m := locks.Mutex(name)
		mustLock(t, m)
		return func() error {
			_, err := m.TryLock(context.Background())
			if errorIs(err, lock.ErrNotAcquired) {
				return nil
			}
			return err
		}
	}},
	{"Extend", 1, 6, func(t testing.TB, locks *lock.Locker, name string) func() error {
		lease := mustLock(t, locks.Mutex(name))
		return func() error { return lease.Extend(context.Background(), time.Hour) }
	}},
	{"Adopt", 1, 13, func(t testing.TB, locks *lock.Locker, name string) func() error {
		m := locks.Mutex(name)
		token := mustLock(t, m).Token()
		return func() error {
			lease, err := m.Adopt(context.Background(), token)
			if err == nil {
				token = lease.Token()
			}
			return err
		}
	}},
	{"Status", 1, 9, func(t testing.TB, locks *lock.Locker, name string) func() error {
		m := locks.Mutex(name)
		mustLock(t, m)
		return func() error { _, err := m.Status(context.Background()); return err }
	}},
	{"RLock and Release", 2, 18, func(_ testing.TB, locks *lock.Locker, name string) func() error {
		return of(locks.RWMutex(name).RLock)
	}},
	{"Acquire and Release", 2, 18, func(_ testing.TB, locks *lock.Locker, name string) func() error {
		return of(locks.Semaphore(name, 2).Acquire)
	}},
}

// Each operation, with its fence and its renewal where it has one.
func TestCosts(t *testing.T) {
	for _, cost := range costs {
		t.Run(cost.op, func(t *testing.T) {
			c := redistest.Real(t).Client(t)
			locks := newLocker(t, c, &lock.Options{TTL: time.Hour}) // no renewal beside it
			op := cost.setUp(t, locks, redistest.ID())
			require.NoError(t, op(), "the scripts are loaded")
			if !redistest.Race {
				allocs := redistest.Allocs(t, op)
				t.Logf("%v allocations", allocs)
				require.LessOrEqual(t, allocs, cost.allocs)
			}
			n := redistest.Count(c)
			require.NoError(t, op())
			require.Equal(t, cost.trips, n.Trips(), "%v", n.Commands())
			for _, command := range n.Commands() {
				require.Equal(t, "evalsha", command)
			}
		})
	}
}

func BenchmarkOperations(b *testing.B) {
	for _, cost := range costs {
		b.Run(cost.op, func(b *testing.B) {
			op := cost.setUp(b, newLocker(b, redistest.Real(b).Client(b), nil), redistest.ID())
			b.ReportAllocs()
			for b.Loop() {
				if err := op(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
