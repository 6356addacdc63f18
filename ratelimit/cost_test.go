package ratelimit_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

// costs are the allocations that a decision may cost at most, on a plain client that bounds the call itself, Timeout < 0.
// By hand, an INCR costs 6. Each decision is one round trip.
var costs = map[string]struct{ allowed, denied, looked float64 }{
	"fixed window":    {8, 8, 8},
	"sliding window":  {10, 9, 9},
	"sliding counter": {9, 8, 8},
	"token bucket":    {8, 7, 7},
	"multi":           {11, 10, 10},
	"multi of bucket": {11, 10, 10},
}

func TestCosts(t *testing.T) {
	if redistest.Race {
		t.Skip("allocations are not counted under the race detector")
	}
	for how, variant := range map[string]struct {
		timeout time.Duration
		more    float64
		obeys   bool
	}{
		"the client's timeouts":           {-1, 0, false},
		"Timeout, by a client that obeys": {time.Minute, 1, true},
		"Timeout, by one that does not":   {time.Minute, 4, false},
	} {
		for name, build := range algorithms {
			most, ok := costs[name]
			require.True(t, ok, name)
			set := func(o *redis.Options) { o.ContextTimeoutEnabled = variant.obeys }
			c := steady(t, redistest.Real(t)).Client(t, set)
			opts := &ratelimit.Options{Timeout: variant.timeout}
			free, tight := must(t)(build(c, ratelimit.PerDay(1_000_000), opts)), must(t)(build(c, ratelimit.PerDay(1), opts))
			id, full := redistest.ID(), redistest.ID()
			take(t, tight, full, 1)
			for _, call := range []struct {
				name string
				most float64
				run  func() (ratelimit.Result, error)
				want bool
			}{
				{"allowed", most.allowed, func() (ratelimit.Result, error) { return free.Allow(ctx, id) }, true},
				{"denied", most.denied, func() (ratelimit.Result, error) { return tight.Allow(ctx, full) }, false},
				{"looked", most.looked, func() (ratelimit.Result, error) { return free.Peek(ctx, id) }, true},
			} {
				run := func() {
					if r, err := call.run(); err != nil || r.Allowed != call.want {
						t.Fatal(name, call.name, r, err)
					}
				}
				least := math.Inf(1)
				for range 5 {
					least = min(least, testing.AllocsPerRun(100, run))
				}
				require.LessOrEqual(t, least, call.most+variant.more, "allocations: %s, %s, %s", how, name, call.name)
			}
			c = redistest.Real(t).Client(t, set)
			sent := redistest.Count(c)
			free, tight = must(t)(build(c, ratelimit.PerDay(1_000_000), opts)), must(t)(build(c, ratelimit.PerDay(1), opts))
			for range 10 {
				take(t, free, id, 1)
				take(t, tight, full, 1)
				peek(t, free, id)
			}
			require.Equal(t, 30, sent.Trips(), "round trips: %s, %s: %v", how, name, sent.Commands())
		}
	}
}

// A remembered denial costs no allocation, and no trip.
func TestDenyCacheCosts(t *testing.T) {
	if redistest.Race {
		t.Skip("allocations are not counted under the race detector")
	}
	c := steady(t, redistest.Real(t)).Client(t)
	for name, build := range algorithms {
		l, id := must(t)(build(c, ratelimit.PerDay(1), &ratelimit.Options{DenyCache: 10})), redistest.ID()
		take(t, l, id, 1)
		most := 0.0
		if strings.HasPrefix(name, "multi") {
			most = 1 // its Rules
		}
		least := math.Inf(1)
		for range 5 {
			least = min(least, testing.AllocsPerRun(100, func() { _, _ = l.Allow(ctx, id) }))
		}
		require.LessOrEqual(t, least, most, name)
	}
}

func BenchmarkAllow(b *testing.B) {
	for name, build := range algorithms {
		b.Run(name, func(b *testing.B) {
			l, id := must(b)(build(redistest.Real(b).Client(b), ratelimit.PerDay(100_000_000), nil)), redistest.ID()
			if name == "sliding window" {
				l = must(b)(build(redistest.Real(b).Client(b), ratelimit.PerSecond(100), nil))
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Allow(ctx, id); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDenied(b *testing.B) {
	for name, build := range algorithms {
		b.Run(name, func(b *testing.B) {
			l, id := must(b)(build(redistest.Real(b).Client(b), ratelimit.PerDay(10), nil)), redistest.ID()
			if _, err := l.AllowN(ctx, id, 10); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if r, err := l.Allow(ctx, id); err != nil || r.Allowed {
					b.Fatal(r, err)
				}
			}
		})
	}
}

func BenchmarkPeek(b *testing.B) {
	for name, build := range algorithms {
		b.Run(name, func(b *testing.B) {
			l, id := must(b)(build(redistest.Real(b).Client(b), ratelimit.PerDay(10), nil)), redistest.ID()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Peek(ctx, id); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkByHand is what the others are compared with.
func BenchmarkByHand(b *testing.B) {
	c, id := redistest.Real(b).Client(b), redistest.ID()
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Incr(ctx, id).Err(); err != nil {
			b.Fatal(err)
		}
	}
}
