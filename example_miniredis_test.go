package redispatterns_test

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/ratelimit"
)

// newRedis gives a test an empty Redis, and a way to let time pass on it.
func newRedis(t *testing.T) (client *redis.Client, advance func(time.Duration)) {
	server, now := miniredis.RunT(t), time.Now()
	server.ClockTTL(true) // keys expire as the clock moves
	server.SetTime(now)   // and it moves when advance says so
	client = redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	return client, func(d time.Duration) {
		now = now.Add(d)
		server.SetTime(now)
	}
}

func TestYourCode(t *testing.T) {
	client, advance := newRedis(t)
	limiter, err := ratelimit.NewFixedWindow(client, ratelimit.PerMinute(1), nil)
	require.NoError(t, err)

	first, err := limiter.Allow(context.Background(), "user42")
	require.NoError(t, err)
	require.True(t, first.Allowed)

	second, err := limiter.Allow(context.Background(), "user42")
	require.NoError(t, err)
	require.False(t, second.Allowed)

	advance(second.RetryAfter)
	third, err := limiter.Allow(context.Background(), "user42")
	require.NoError(t, err)
	require.True(t, third.Allowed)
}
