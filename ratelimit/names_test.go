package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/ratelimit"
)

// recorder notes the key of each script, and sends nothing.
type recorder struct {
	redispatterns.Client
	key string
}

func (r *recorder) Process(_ context.Context, cmd redis.Cmder) error {
	r.key = cmd.Args()[3].(string)
	cmd.SetErr(redis.Nil) // an answer, so no circuit opens
	return redis.Nil
}

// No two limiters of different name, algorithm or window share a key, whatever ids they accept, and no two ids do.
func TestKeysAreUnique(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	limiters := map[string]*ratelimit.Limiter{}
	for _, name := range []string{"a", "b", "a~c", "{a}", "a}", "2026-11-29T12"} {
		opts := &ratelimit.Options{Name: name, Timeout: -1}
		for _, per := range []time.Duration{time.Second, time.Minute, 5 * time.Minute, time.Hour, 24 * time.Hour, 500 * time.Millisecond} {
			limiters[fmt.Sprint(name, " fixed ", per)] = must(t)(ratelimit.NewFixedWindow(r, ratelimit.Limit{Events: 1, Per: per}, opts))
		}
		limiters[name+" sliding"] = must(t)(ratelimit.NewSlidingWindow(r, ratelimit.PerDay(1), opts))
		limiters[name+" counter"] = must(t)(ratelimit.NewSlidingCounter(r, ratelimit.PerDay(1), opts))
		limiters[name+" bucket"] = must(t)(ratelimit.NewTokenBucket(r, ratelimit.PerDay(1), opts))
		limiters[name+" multi"] = must(t)(multi(ratelimit.TokenBucket)(r, ratelimit.PerDay(1), opts))
	}
	day := time.Now().UTC().Format("2006-01-02")
	part := rapid.SampledFrom([]string{
		"a", "b", ":", "~", "~c", "~b", "~m", "{", "}", "a:", day, ":" + day, "T12", ":00", "/5m", "/500ms", ".500", "x", "/",
	})
	rapid.Check(t, func(rt *rapid.T) {
		seen := map[string]string{}
		for range 4 {
			id := ""
			for _, p := range rapid.SliceOfN(part, 1, 5).Draw(rt, "id") {
				id += p
			}
			for who, l := range limiters {
				r.key = ""
				_, err := l.Allow(ctx, id)
				require.Error(rt, err)
				if errors.Is(err, ratelimit.ErrInvalidID) {
					continue
				}
				require.NotEmpty(rt, r.key)
				whose := fmt.Sprintf("%s %q", who, id)
				if other, ok := seen[r.key]; ok {
					require.Equal(rt, other, whose, r.key)
				}
				seen[r.key] = whose
			}
		}
	})
}
