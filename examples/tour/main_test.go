package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestTourOnTheEmbeddedRedis(t *testing.T) {
	t.Setenv("REDIS_ADDR", "")
	var out bytes.Buffer
	require.NoError(t, run(context.Background(), &out))
	checkScreens(t, out.String())
}

func TestTourOnARealRedisLeavesNothing(t *testing.T) {
	s, p := redistest.Own(t)
	t.Setenv("REDIS_ADDR", p.Addr)
	c, ctx := s.Client(t), context.Background()
	require.NoError(t, c.Set(ctx, "somebody's", "value", 0).Err())
	var out bytes.Buffer
	writer := writerFunc(func(p []byte) (int, error) { // while the tour runs, others write too
		c.Set(ctx, "ratelimit:user42:someone-elses", 1, 0)
		if strings.Contains(string(p), "game.Top") {
			c.ZAdd(ctx, "ranking:game", redis.Z{Score: 1, Member: "player:theirs"})
		}
		return out.Write(p)
	})
	require.NoError(t, run(ctx, writer))
	checkScreens(t, out.String())
	left := c.Keys(ctx, "*").Val()
	require.ElementsMatch(t, []string{"somebody's", "ratelimit:user42:someone-elses", "ranking:game"}, left)
	require.Equal(t, []string{"player:theirs"}, c.ZRange(ctx, "ranking:game", 0, -1).Val())
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestTourTouchesNobodysKeys(t *testing.T) {
	s, p := redistest.Own(t)
	t.Setenv("REDIS_ADDR", p.Addr)
	c, ctx := s.Client(t), context.Background()
	for _, key := range []string{"ranking:game", "lock:order:12345", "ratelimit:user42", "ratelimit:user42:2026-08-09T12:00"} {
		require.NoError(t, c.ZAdd(ctx, key, redis.Z{Score: 1, Member: "player:theirs"}).Err())
		var out bytes.Buffer
		require.ErrorContains(t, run(ctx, &out), key)
		require.Empty(t, out.String())
		require.Equal(t, []string{key}, c.Keys(ctx, "*").Val())
		require.NoError(t, c.Del(ctx, key).Err())
	}
}

func TestTourSaysWhereRedisIsNot(t *testing.T) {
	t.Setenv("REDIS_ADDR", "127.0.0.1:1")
	require.ErrorContains(t, run(context.Background(), &bytes.Buffer{}), "127.0.0.1:1")
}

func checkScreens(t *testing.T, out string) {
	t.Helper()
	for _, want := range []string{
		"HGETALL session:", `"tanaka"`, `"role"`, "TTL session:", "session: not found",
		"GET ratelimit:user42:2", "ZREVRANGE ratelimit:user42 0 -1", "denied: 429, Retry-After",
		"ZREVRANGE ranking:game", `"player:carol"`, `"1600"`, "rank 1 of 3",
		"GET lock:order:12345", "lock: not acquired", "lock: lost",
	} {
		require.Contains(t, out, want)
	}
}
