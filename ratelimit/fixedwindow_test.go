package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

func TestFixedWindowLabels(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 8, 9, 12, 0, 0, 0, time.UTC).UnixMilli()
	for per, want := range map[time.Duration]string{
		time.Second:                       "2026-08-09T12:00:00",
		time.Minute:                       "2026-08-09T12:00",
		time.Hour:                         "2026-08-09T12",
		24 * time.Hour:                    "2026-08-09",
		5 * time.Minute:                   "2026-08-09T12:00/5m",
		90 * time.Second:                  "2026-08-09T12:00:00/1m30s",
		10 * time.Second:                  "2026-08-09T12:00:00/10s",
		2 * time.Hour:                     "2026-08-09T12/2h",
		90 * time.Minute:                  "2026-08-09T12:00/1h30m",
		7 * 24 * time.Hour:                "2026-08-09/168h",
		500 * time.Millisecond:            "2026-08-09T12:00:00.000/500ms",
		time.Millisecond:                  "2026-08-09T12:00:00.000/1ms",
		time.Hour + time.Millisecond:      "2026-08-09T12:00:00.000/1h0m0.001s",
		10*time.Hour + 20*time.Second:     "2026-08-09T12:00:00/10h0m20s",
		100*time.Minute + 10*time.Second:  "2026-08-09T12:00:00/1h40m10s",
		600 * time.Second:                 "2026-08-09T12:00/10m",
		time.Duration(20) * 2 * time.Hour: "2026-08-09T12/40h",
	} {
		label := ratelimit.Label(at, per)
		require.Equal(t, want, label)
		require.True(t, ratelimit.EndsInLabel("id:"+label), label)
		require.True(t, ratelimit.EndsInLabel(label), label)
	}
	for _, id := range []string{"", "a", "user:42", "2026-08", "x2026-08-09", "a/5m", "2026-08-09T1", "2026-08-09/x", "1:2:3:4:5:6:7:8", "a:12:00", "2026_08-09"} {
		require.False(t, ratelimit.EndsInLabel(id), id)
	}
}

// No two windows of one id that differ in length or place have the same key, nor does one id's key begin another's.
func TestFixedWindowKeysAreUnique(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 8, 9, 0, 0, 0, 0, time.UTC)
	seen := map[string]string{}
	for _, per := range []time.Duration{
		time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, time.Minute, 5 * time.Minute, 90 * time.Second, time.Hour,
		24 * time.Hour, 48 * time.Hour, 7 * 24 * time.Hour, time.Hour + time.Second,
	} {
		for i := range int64(50) {
			start := at.UnixMilli()/per.Milliseconds()*per.Milliseconds() + i*per.Milliseconds()
			for _, id := range []string{"a", "a:2026-08-09T12", "a:b"} {
				key := id + ":" + ratelimit.Label(start, per)
				of := fmt.Sprint(id, " ", per, " ", start)
				if other, ok := seen[key]; ok {
					require.Equal(t, other, of, key)
				}
				seen[key] = of
			}
		}
	}
}

func TestFixedWindowWritesTheDocumentedKey(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c := s.Client(t)
		l := must(t)(ratelimit.NewFixedWindow(c, ratelimit.PerMinute(5), calm))
		before := s.Now(t)
		take(t, l, "user42", 1)
		take(t, l, "user42", 2)
		keys := c.Keys(ctx, "*").Val()
		if len(keys) == 2 { // a minute ended between
			keys = keys[:1]
		}
		require.Len(t, keys, 1)
		require.Regexp(t, regexp.MustCompile(`^ratelimit:user42:\d{4}-\d\d-\d\dT\d\d:\d\d$`), keys[0])
		start, err := time.Parse("2006-01-02T15:04", strings.TrimPrefix(keys[0], "ratelimit:user42:"))
		require.NoError(t, err)
		require.WithinDuration(t, before.UTC().Truncate(time.Minute), start, time.Minute)
		require.Equal(t, "string", c.Type(ctx, keys[0]).Val())
		require.LessOrEqual(t, c.PTTL(ctx, keys[0]).Val(), time.Minute)
		if s.IsReal() {
			require.Equal(t, time.Duration(start.Add(time.Minute).UnixMilli())*time.Millisecond, c.PExpireTime(ctx, keys[0]).Val())
		}
	})
}

func TestFixedWindowLetsTheLimitThroughOnEachSideOfAnEdge(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	l := must(t)(ratelimit.NewFixedWindow(s.Client(t), ratelimit.PerSecond(5), calm))
	now := s.Now(t)
	s.Advance(t, now.Truncate(time.Second).Add(990*time.Millisecond).Sub(now))
	require.True(t, take(t, l, "u", 5).Allowed)
	require.False(t, take(t, l, "u", 1).Allowed)
	s.Advance(t, 10*time.Millisecond)
	require.True(t, take(t, l, "u", 5).Allowed)
	require.False(t, take(t, l, "u", 1).Allowed)
}

// A clock that is set back repeats time, and with it the windows' quotas: the limit holds in each, and service goes on.
func TestFixedWindowWhenTheServersClockIsSet(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]constructor{"fixed window": ratelimit.NewFixedWindow, "multi": multi(ratelimit.FixedWindow)} {
		s := redistest.Mini(t)
		l := must(t)(build(s.Client(t), ratelimit.PerSecond(3), calm))
		for _, step := range []time.Duration{0, -5 * time.Second, 5 * time.Second, time.Second} {
			s.Advance(t, step)
			passed := 0
			for range 5 {
				if take(t, l, "u", 1).Allowed {
					passed++
				}
			}
			require.LessOrEqual(t, passed, 3, "%s: %v", name, step)
			s.Advance(t, time.Second)
			require.True(t, take(t, l, "u", 3).Allowed, "%s: %v: a window later", name, step)
		}
	}
}

// A key whose expiry a foreign hand took is healed where it matters: it would deny for ever.
func TestFixedWindowHealsALostExpiry(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *redistest.Server) {
		c, id := s.Client(t), redistest.ID()
		l := must(t)(ratelimit.NewFixedWindow(c, ratelimit.PerDay(2), calm))
		take(t, l, id, 2)
		key := c.Keys(ctx, "*"+id+"*").Val()[0]
		require.NoError(t, c.Persist(ctx, key).Err())
		require.False(t, take(t, l, id, 1).Allowed)
		require.Positive(t, c.PTTL(ctx, key).Val())
		require.Equal(t, "2", c.Get(ctx, key).Val())
	})
}

// What is no count is refused by every call, and stays as it is.
func TestFixedWindowOfWhatIsNoCount(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *redistest.Server) {
		c, id := s.Client(t), redistest.ID()
		l := must(t)(ratelimit.NewFixedWindow(c, ratelimit.PerDay(5), calm))
		take(t, l, id, 1)
		key := c.Keys(ctx, "*"+id+"*").Val()[0]
		for _, value := range []string{"-5", "-1", "3.7", " 3", "3 ", "0x3", "1e1", "inf", "nan", "abc", "9223372036854775000", "9223372036854775808"} {
			require.NoError(t, c.Set(ctx, key, value, 0).Err())
			for op, call := range map[string]func() error{
				"allow":   func() error { _, err := l.Allow(ctx, id); return err },
				"allow 3": func() error { _, err := l.AllowN(ctx, id, 3); return err },
				"peek":    func() error { _, err := l.Peek(ctx, id); return err },
			} {
				require.ErrorContains(t, call(), key, "%s of %q", op, value)
				require.Equal(t, value, c.Get(ctx, key).Val(), op)
			}
		}
		for value, remaining := range map[string]int64{"0": 5, "3": 2, "70": 0} {
			require.NoError(t, c.Set(ctx, key, value, 0).Err())
			require.Equal(t, remaining, peek(t, l, id).Remaining)
		}
	})
}

// Beyond 2^53 scripts count in twos: what is denied there is not counted either, and takes nothing off.
func TestFixedWindowWithLargeNumbers(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *redistest.Server) {
		const most = 1<<53 - 1
		l, id := must(t)(ratelimit.NewFixedWindow(s.Client(t), ratelimit.PerDay(most), calm)), redistest.ID()
		require.True(t, take(t, l, id, most-5).Allowed)
		for _, n := range []int64{6, 7, 8, 9, most - 1, most} {
			r := take(t, l, id, n)
			require.False(t, r.Allowed)
			require.EqualValues(t, 5, r.Remaining, "after %d", n)
		}
		require.True(t, take(t, l, id, 5).Allowed)
		require.False(t, take(t, l, id, 1).Allowed)
	})
}

// Process clocks that are wrong cost a trip, at first or at a window's edge, and nothing else.
func TestFixedWindowWithWrongProcessClocks(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{0, 50 * time.Millisecond, -50 * time.Millisecond, time.Hour, -time.Hour, 365 * 24 * time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, s *redistest.Server) {
				const per = 200 * time.Millisecond
				c, id := s.Client(t), redistest.ID()
				l := must(t)(ratelimit.NewFixedWindow(c, ratelimit.Limit{Events: 3, Per: per}, calm))
				ratelimit.Skew(l, skew)
				sent := redistest.Count(c)
				for range 3 {
					inOneWindow(t, s, per, func() {
						id = redistest.ID()
						sent.Reset()
					}, func() (passed int) {
						for range 5 {
							r := take(t, l, id, 1)
							require.LessOrEqual(t, r.ResetAfter, per)
							if r.Allowed {
								passed++
							}
						}
						return passed
					}, 3)
					require.LessOrEqual(t, sent.Trips(), 5+1+2, "the script's load, and at most two corrections")
					ratelimit.Skew(l, -skew/7) // the process clock is set
				}
				require.NoError(t, l.Reset(ctx, id))
			})
		})
	}
}

// 50 window ends hammered by clients whose clocks differ: each window admits its limit and inherits nothing.
func TestFixedWindowEndsUnderFire(t *testing.T) {
	t.Parallel()
	const per, limit, ends = 50 * time.Millisecond, 20, 50
	s := redistest.Real(t)
	id := redistest.ID()
	hook := &windowCounts{counts: map[string]int{}}
	var limiters []*ratelimit.Limiter
	for _, skew := range []time.Duration{0, 20 * time.Millisecond, time.Hour} {
		c := s.Client(t)
		c.AddHook(hook)
		l := must(t)(ratelimit.NewFixedWindow(c, ratelimit.Limit{Events: limit, Per: per}, calm))
		ratelimit.Skew(l, skew)
		limiters = append(limiters, l)
	}
	var allowed atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for _, l := range limiters {
		for range 3 {
			wg.Go(func() {
				for hook.seen() < ends && time.Since(began) < time.Minute {
					r, err := l.Allow(ctx, id)
					switch {
					case errors.Is(err, ratelimit.ErrUnavailable) && !errors.Is(err, ratelimit.ErrUnknown) && strings.Contains(err.Error(), "windows ended faster"):
						// On a busy machine ten windows in a row may.
					case err != nil:
						t.Error(err)
						return
					case r.Allowed:
						allowed.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	hook.mu.Lock()
	defer hook.mu.Unlock()
	total, full := 0, 0
	for key, n := range hook.counts {
		require.LessOrEqual(t, n, limit, key)
		total += n
		if n == limit {
			full++
		}
	}
	require.EqualValues(t, allowed.Load(), total)
	require.GreaterOrEqual(t, len(hook.counts), ends, "windows seen")
	require.NotZero(t, full, "windows of which the limit was reached")
}

// windowCounts counts what was admitted in each window, by the scripts' own replies.
type windowCounts struct {
	mu     sync.Mutex
	counts map[string]int
	redis.Hook
}

func (h *windowCounts) seen() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.counts)
}

func (h *windowCounts) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *windowCounts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *windowCounts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		counted := false
		switch reply := cmd.(type) {
		case interface{ Val() []int64 }:
			counted = err == nil && reply.Val()[0] == 1
		case interface{ Val() int64 }:
			counted = err == nil && reply.Val() > 0
		}
		if counted {
			h.mu.Lock()
			h.counts[cmd.Args()[3].(string)]++
			h.mu.Unlock()
		}
		return err
	}
}

// Nodes of a cluster whose clocks differ by 20 ms do not send a call to and fro.
func TestFixedWindowWhereNodesClocksDiffer(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	late := redistest.Mini(t)
	now := s.Now(t).Truncate(time.Second)
	s.Mini.SetTime(now.Add(time.Second))                          // the window that begins here is on this node,
	late.Mini.SetTime(now.Add(time.Second - 20*time.Millisecond)) // which says that it has not, and so is the one before on that
	c := &twoNodes{Client: s.Client(t), other: late.Client(t), second: now.Unix() % 2}
	for _, skew := range []time.Duration{0, time.Hour, -time.Hour} {
		l := must(t)(ratelimit.NewFixedWindow(c, ratelimit.PerSecond(1000), calm))
		ratelimit.Skew(l, skew)
		for range 20 {
			c.trips.Store(0)
			take(t, l, redistest.ID(), 1)
			require.LessOrEqual(t, c.trips.Load(), int32(2*3), "three windows at most, and two trips for a script that is new")
		}
		require.NoError(t, l.Reset(ctx, "u"))
		peek(t, l, "u")
	}
}

// twoNodes sends what concerns windows of even seconds to one node, the rest to another.
type twoNodes struct {
	redispatterns.Client
	other  redispatterns.Client
	second int64
	trips  atomic.Int32
}

func (c *twoNodes) Process(ctx context.Context, cmd redis.Cmder) error {
	c.trips.Add(1)
	key := cmd.Args()[3].(string)
	if int64(key[len(key)-1])%2 == c.second {
		return c.other.Process(ctx, cmd) // the late node has even windows' neighbours
	}
	return c.Client.Process(ctx, cmd)
}
