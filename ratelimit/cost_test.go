package ratelimit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

func TestAllocations(t *testing.T) {
	if redistest.Race {
		t.Skip("allocations are not counted under the race detector")
	}
	for name, build := range algorithms {
		for timeout, most := range map[time.Duration]float64{-1: 10, time.Minute: 14} {
			if strings.HasPrefix(name, "multi") {
				most += 3
			}
			l, id := must(t)(build(redistest.Real(t).Client(t), ratelimit.PerDay(1_000_000), &ratelimit.Options{Timeout: timeout})), redistest.ID()
			run := func() {
				if _, err := l.Allow(ctx, id); err != nil {
					t.Fatal(err)
				}
			}
			run()
			allocs := testing.AllocsPerRun(500, run)
			t.Log(name, timeout, allocs)
			require.LessOrEqual(t, allocs, most, name)
		}
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
