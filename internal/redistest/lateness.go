package redistest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Lateness watches how late timers of this process and replies of the server are, which no code under test can help. What it
// returns ends that, and says how late they were at worst.
func Lateness(t testing.TB, c *redis.Client) func() time.Duration {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var watcher sync.WaitGroup
	var worst time.Duration
	watcher.Go(func() {
		const pause = time.Millisecond
		for ctx.Err() == nil {
			began := time.Now()
			time.Sleep(pause)
			_ = c.Ping(ctx).Err()
			worst = max(worst, time.Since(began)-pause)
		}
	})
	stop := func() time.Duration {
		cancel()
		watcher.Wait()
		return worst
	}
	t.Cleanup(func() { stop() })
	return stop
}
