package redistest

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Virtual runs fn in a synctest bubble with a miniredis that shares its clock: time.Sleep returns at once when every
// goroutine waits, and keys expire by it.
func Virtual(t *testing.T, fn func(t *testing.T, s *Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		m.ClockTTL(true)
		defer m.Close()
		fn(t, &Server{Mini: m, options: redis.Options{
			// A numeric address: a resolver, and go-redis' timers for a full pool, live outside the bubble.
			Addr:     "127.0.0.1:6379",
			PoolSize: 100,
			Dialer:   func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
		}})
	})
}

// Sleep lets time pass in a bubble, and everything that is due by then happen.
func Sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
