package lock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/lock"
)

// Where the examples find a Redis, and others.
var addr, addr2, addr3 string

func ExampleNew() {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()

	locks, err := lock.New(rdb, &lock.Options{TTL: 5 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()

	lease, err := locks.Mutex("order:1").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(context.Background())
	fmt.Println(lease.Name(), lease.Held())
	// Output: order:1 true
}

func ExampleDo() {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	locks, _ := lock.New(rdb, nil)
	defer locks.Close()

	err := lock.Do(context.Background(), locks.Mutex("order:2").Lock, func(ctx context.Context, lease *lock.Lease) error {
		// ctx ends when the lease is lost, and lease.Fence() goes along with each write.
		fmt.Println("shipping", lease.Name())
		return nil
	})
	fmt.Println(err)
	// Output:
	// shipping order:2
	// <nil>
}

func ExampleMutex_Lock() {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	locks, _ := lock.New(rdb, nil)
	defer locks.Close()

	// The context bounds the wait. The lease outlives it, and is renewed until Release.
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	lease, err := locks.Mutex("order:3").Lock(ctx)
	cancel()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lease.Held())
	fmt.Println(lease.Release(context.Background()))
	// Output:
	// true
	// <nil>
}

func ExampleMutex_TryLock() {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	locks, _ := lock.New(rdb, nil)
	defer locks.Close()
	ctx := context.Background()

	m := locks.Mutex("order:4")
	lease, _ := m.TryLock(ctx)
	_, err := m.TryLock(ctx)
	fmt.Println(errors.Is(err, lock.ErrNotAcquired))
	fmt.Println(lease.Release(ctx))
	// Output:
	// true
	// <nil>
}

func ExampleMutex_Status() {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	locks, _ := lock.New(rdb, nil)
	defer locks.Close()
	ctx := context.Background()

	m := locks.Mutex("order:5")
	lease, _ := m.Lock(ctx)
	status, _ := m.Status(ctx)
	fmt.Println(status.Held, status.Owner == lease.Token(), status.Fence == lease.Fence())
	_ = lease.Release(ctx)
	status, _ = m.Status(ctx)
	fmt.Println(status.Held)
	// Output:
	// true true true
	// false
}

func ExampleMutex_Adopt() {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	locks, _ := lock.New(rdb, nil)
	defer locks.Close()
	ctx := context.Background()

	m := locks.Mutex("order:6")
	first, _ := m.Lock(ctx)
	// The token travels to another process, which takes the lease over.
	second, err := m.Adopt(ctx, first.Token())
	fmt.Println(err, second.Fence() > first.Fence())
	fmt.Println(errors.Is(first.Release(ctx), lock.ErrLost))
	fmt.Println(second.Release(ctx))
	// Output:
	// <nil> true
	// true
	// <nil>
}

func ExampleMutex_ForceUnlock() {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	locks, _ := lock.New(rdb, nil)
	defer locks.Close()
	ctx := context.Background()

	m := locks.Mutex("order:7")
	lease, _ := m.Lock(ctx)
	fmt.Println(m.ForceUnlock(ctx))
	fmt.Println(errors.Is(lease.Release(ctx), lock.ErrLost))
	// Output:
	// <nil>
	// true
}

func ExampleLease_Context() {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	locks, _ := lock.New(rdb, nil)
	defer locks.Close()
	ctx := context.Background()

	m := locks.Mutex("order:8").WithTTL(300 * time.Millisecond)
	lease, _ := m.Lock(ctx)
	held := lease.Context(ctx)
	_ = m.ForceUnlock(ctx) // an operator takes the lock away
	<-held.Done()
	fmt.Println(errors.Is(context.Cause(held), lock.ErrLost))
	// Output: true
}

func ExampleLease_Extend() {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	locks, _ := lock.New(rdb, &lock.Options{NoRenew: true})
	defer locks.Close()
	ctx := context.Background()

	lease, _ := locks.Mutex("order:9").Lock(ctx)
	defer lease.Release(ctx)
	fmt.Println(lease.Extend(ctx, time.Minute))
	ttl, _ := lease.TTL(ctx)
	fmt.Println(ttl > 50*time.Second)
	// Output:
	// <nil>
	// true
}

func ExampleLease_Leave() {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	locks, _ := lock.New(rdb, nil)
	defer locks.Close()
	ctx := context.Background()

	// Every replica tries each minute. The one that gets the lock runs the job, and keeps the others out until shortly
	// before the next minute, whatever their clocks say.
	runs := 0
	for range 5 {
		lease, err := locks.Mutex("report").TryLock(ctx)
		if errors.Is(err, lock.ErrNotAcquired) {
			continue
		}
		runs++
		_ = lease.Leave(ctx, 50*time.Second)
	}
	fmt.Println(runs)
	// Output: 1
}

func ExampleLocker_RWMutex() {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	locks, _ := lock.New(rdb, nil)
	defer locks.Close()
	ctx := context.Background()

	config := locks.RWMutex("config")
	one, _ := config.RLock(ctx)
	two, _ := config.TryRLock(ctx)
	_, err := config.TryLock(ctx)
	fmt.Println(one.Held(), two.Held(), errors.Is(err, lock.ErrNotAcquired))
	_, _ = one.Release(ctx), two.Release(ctx)
	// Output: true true true
}

func ExampleLocker_Semaphore() {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	locks, _ := lock.New(rdb, nil)
	defer locks.Close()
	ctx := context.Background()

	exports := locks.Semaphore("exports", 2)
	one, _ := exports.Acquire(ctx)
	two, _ := exports.Acquire(ctx)
	_, err := exports.TryAcquire(ctx)
	n, _ := exports.InUse(ctx)
	fmt.Println(n, errors.Is(err, lock.ErrNotAcquired))
	_, _ = one.Release(ctx), two.Release(ctx)
	// Output: 2 true
}

// fencedWrite is a resource that refuses a holder which is late: one that another with a higher fence has followed. In SQL it
// is UPDATE … SET value = $1, fence = $2 WHERE id = $3 AND fence <= $2, and a holder that changed no row is late.
var fencedWrite = redis.NewScript(`
if tonumber(redis.call('HGET', KEYS[1], 'fence') or '0') > tonumber(ARGV[1]) then
	return 0
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
return 1`)

var errLate = errors.New("another holder has written since")

func write(ctx context.Context, rdb *redis.Client, key string, fence int64, value string) error {
	n, err := fencedWrite.Run(ctx, rdb, []string{key}, fence, value).Int()
	if err == nil && n == 0 {
		err = errLate
	}
	return err
}

func ExampleLease_Fence() {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	locks, _ := lock.New(rdb, nil)
	defer locks.Close()
	ctx := context.Background()

	m := locks.Mutex("order:11")
	paused, _ := m.Lock(ctx)
	_ = m.ForceUnlock(ctx) // as if its lease had lapsed while it was paused
	next, _ := m.Lock(ctx)

	fmt.Println(write(ctx, rdb, "stock:11", next.Fence(), "written by the next"))
	fmt.Println(write(ctx, rdb, "stock:11", paused.Fence(), "written too late"))
	fmt.Println(rdb.HGet(ctx, "stock:11", "value").Val())
	// Output:
	// <nil>
	// another holder has written since
	// written by the next
}
