package lock_test

import (
	"context"
	"flag"
	"net"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// virtualNode is a further miniredis in a bubble, and a client of it.
func virtualNode(t testing.TB) (*miniredis.Miniredis, *redis.Client) {
	t.Helper()
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	return m, redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:6379", PoolSize: 100,
		Dialer: func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
	})
}

// runChild, if set, is what this process is for: a test started it.
var runChild func()

func TestMain(m *testing.M) {
	if runChild != nil {
		logging.Disable()
		runChild()
	}
	for _, a := range []*string{&addr, &addr2, &addr3} {
		examples := miniredis.NewMiniRedis()
		examples.ClockTTL(true)
		if err := examples.Start(); err != nil {
			panic(err)
		}
		*a = examples.Addr()
	}
	_ = flag.Set("test.parallel", "4") // most of these tests wait; -parallel goes before
	redistest.Main(m)
}

// newLocker makes a Locker that the test closes.
func newLocker(t testing.TB, c redispatterns.Client, opts *lock.Options) *lock.Locker {
	t.Helper()
	l, err := lock.New(c, opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// key is where a Locker with default options keeps the lock of a name.
func key(name string) string { return "lock:" + name }

func fenceKey(name string) string { return "{lock:" + name + "}~f" }

// left holds that so much of a time is left as a slow machine leaves of it.
func left(t testing.TB, of, got time.Duration, what ...any) {
	t.Helper()
	require.LessOrEqual(t, got, of, what...)
	require.Greater(t, got, of/2, what...)
}

// lapsed says that a lease was lost since its time was over, as where this machine stood still, and not to another while it
// was good.
func lapsed(lease *lock.Lease, err error) bool {
	return errorIs(err, lock.ErrLost) && !time.Now().Before(lease.Until())
}

func short(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// mustLock acquires at once.
func mustLock(t testing.TB, m *lock.Mutex) *lock.Lease {
	t.Helper()
	lease, err := m.TryLock(context.Background())
	require.NoError(t, err)
	return lease
}

func owner(t testing.TB, c *redis.Client, name string) string {
	t.Helper()
	value, err := c.Get(context.Background(), key(name)).Result()
	if err != redis.Nil {
		require.NoError(t, err)
	}
	return value
}
