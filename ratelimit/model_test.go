package ratelimit_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

// model is an algorithm as one would write it on paper, for one id. Times are microseconds of the server.
type model interface {
	used(now int64, limit ratelimit.Limit) int64
	// fits says whether n would be allowed.
	fits(now int64, limit ratelimit.Limit, n int64) bool
	// denied is told that n was not.
	denied(now int64, limit ratelimit.Limit)
	// add counts n, at a time between before and after that state, what Redis now holds, may tell. It is false where it cannot
	// know what happened.
	add(before, after int64, limit ratelimit.Limit, n int64, state func() int64) bool
	// refund gives back what was added last, at a time.
	refund(at, now int64, limit ratelimit.Limit, n int64)
	// most is how much can be admitted in any window.
	most(limit ratelimit.Limit) int64
}

// windowModel counts in windows. As it slides, it weighs the last one.
type windowModel struct {
	slides bool
	counts map[int64]int64
}

func (m *windowModel) used(now int64, limit ratelimit.Limit) int64 {
	ms, win := now/1000, limit.Per.Milliseconds()
	start := ms / win * win
	used := m.counts[start]
	if m.slides {
		used += m.counts[start-win] * (start + win - ms) / win
	}
	return used
}

func (m *windowModel) fits(now int64, limit ratelimit.Limit, n int64) bool {
	return m.used(now, limit)+n <= limit.Events
}

func (m *windowModel) denied(int64, ratelimit.Limit) {}

func (m *windowModel) add(before, after int64, limit ratelimit.Limit, n int64, _ func() int64) bool {
	win := limit.Per.Microseconds()
	m.counts[before/win*win/1000] += n
	return before/win == after/win
}

func (m *windowModel) refund(at, _ int64, limit ratelimit.Limit, n int64) {
	win := limit.Per.Microseconds()
	m.counts[at/win*win/1000] = max(m.counts[at/win*win/1000]-n, 0)
}

func (m *windowModel) most(limit ratelimit.Limit) int64 { return 2 * limit.Events }

// logModel knows every event.
type logModel struct{ times []int64 }

func (m *logModel) used(now int64, limit ratelimit.Limit) (n int64) {
	for _, at := range m.times {
		if at > now-limit.Per.Microseconds() {
			n++
		}
	}
	return n
}

func (m *logModel) fits(now int64, limit ratelimit.Limit, n int64) bool {
	return m.used(now, limit)+n <= limit.Events
}

func (m *logModel) denied(int64, ratelimit.Limit) {}

func (m *logModel) add(before, after int64, _ ratelimit.Limit, n int64, state func() int64) bool {
	at := before
	if before != after {
		if at = state(); at < before || at > after {
			return false // the log says otherwise: the test looks for that itself
		}
	}
	for range n {
		m.times = append(m.times, at)
	}
	return true
}

func (m *logModel) refund(_, _ int64, _ ratelimit.Limit, n int64) {
	m.times = m.times[:len(m.times)-int(n)]
}

func (m *logModel) most(limit ratelimit.Limit) int64 { return limit.Events }

// bucketModel knows when the bucket is full. All times here are whole microseconds.
type bucketModel struct{ full int64 }

func (m *bucketModel) each(limit ratelimit.Limit) int64 {
	return limit.Per.Microseconds() / limit.Events
}

func (m *bucketModel) debt(now int64, limit ratelimit.Limit) int64 {
	return min(max(m.full-now, 0), limit.Per.Microseconds())
}

func (m *bucketModel) used(now int64, limit ratelimit.Limit) int64 {
	each := m.each(limit)
	return (m.debt(now, limit) + each - 1) / each
}

func (m *bucketModel) fits(now int64, limit ratelimit.Limit, n int64) bool {
	return m.debt(now, limit)+n*m.each(limit) <= limit.Per.Microseconds()
}

func (m *bucketModel) denied(now int64, limit ratelimit.Limit) {
	m.full = min(m.full, now+limit.Per.Microseconds())
}

func (m *bucketModel) add(before, after int64, limit ratelimit.Limit, n int64, state func() int64) bool {
	at, cost := before, n*m.each(limit)
	if before != after && m.full < after {
		if at = state() - cost; at < before && at != m.full || at > after {
			return false
		}
	}
	m.full = max(m.full, at) + cost
	return true
}

func (m *bucketModel) refund(_, now int64, limit ratelimit.Limit, n int64) {
	m.full = now + max(m.debt(now, limit)-n*m.each(limit), 0)
}

func (m *bucketModel) most(limit ratelimit.Limit) int64 { return 2 * limit.Events }

// allModel is several at once.
type allModel []model

func (ms allModel) used(now int64, limit ratelimit.Limit) (most int64) {
	for _, m := range ms {
		most = max(most, m.used(now, limit))
	}
	return most
}

func (ms allModel) fits(now int64, limit ratelimit.Limit, n int64) bool {
	return !slices.ContainsFunc(ms, func(m model) bool { return !m.fits(now, limit, n) })
}

func (ms allModel) denied(now int64, limit ratelimit.Limit) {
	for _, m := range ms {
		m.denied(now, limit)
	}
}

func (ms allModel) add(before, after int64, limit ratelimit.Limit, n int64, state func() int64) bool {
	ok := true
	for _, m := range ms {
		ok = m.add(before, after, limit, n, state) && ok
	}
	return ok
}

func (ms allModel) refund(at, now int64, limit ratelimit.Limit, n int64) {
	for _, m := range ms {
		m.refund(at, now, limit, n)
	}
}

func (ms allModel) most(limit ratelimit.Limit) int64 { return 2 * limit.Events }

// state reads from Redis when the last event was counted, or when the bucket is full.
func state(c *redis.Client, key string) func() int64 {
	return func() int64 {
		if entries := c.ZRangeWithScores(ctx, key, -1, -1).Val(); len(entries) == 1 {
			return int64(entries[0].Score)
		}
		value := c.Get(ctx, key+"~b").Val()
		if value == "" {
			value = c.HGet(ctx, key+"~m", "b").Val() // the rule that is a bucket
		}
		full, _ := strconv.ParseInt(value, 10, 64)
		return full
	}
}

func TestAgainstModels(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]struct {
		build constructor
		model func() model
	}{
		"fixed window":    {ratelimit.NewFixedWindow, func() model { return &windowModel{counts: map[int64]int64{}} }},
		"sliding window":  {ratelimit.NewSlidingWindow, func() model { return &logModel{} }},
		"sliding counter": {ratelimit.NewSlidingCounter, func() model { return &windowModel{slides: true, counts: map[int64]int64{}} }},
		"token bucket":    {ratelimit.NewTokenBucket, func() model { return &bucketModel{} }},
		"multi": {multi(ratelimit.SlidingCounter, ratelimit.TokenBucket, ratelimit.FixedWindow), func() model {
			return allModel{&windowModel{slides: true, counts: map[int64]int64{}}, &bucketModel{}, &windowModel{counts: map[int64]int64{}}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, s *redistest.Server) {
				rapid.Check(t, func(rt *rapid.T) { modelled(t, rt, s, kind.build, kind.model()) })
			})
		})
	}
}

// modelled makes random calls and holds each decision against the model.
func modelled(t *testing.T, rt *rapid.T, s *redistest.Server, build constructor, m model) {
	per, steps := 600*time.Millisecond, 40 // 600000 µs, which all of the limits divide
	if s.IsReal() {
		per, steps = 12*time.Millisecond, 8
	}
	var p plan
	opts := p.options()
	opts.Timeout = -1
	limit := ratelimit.Limit{Events: rapid.SampledFrom([]int64{1, 2, 3, 5, 12}).Draw(rt, "limit"), Per: per}
	highest := limit
	c, id := s.Client(t), redistest.ID()
	defer c.Close()
	l := must(t)(build(c, limit, opts))
	now := func() int64 { return c.Time(ctx).Val().UnixMicro() }

	type admission struct {
		at, n  int64
		limit  ratelimit.Limit
		result ratelimit.Result
	}
	var admitted []admission
	for range steps {
		switch rapid.SampledFrom([]string{"allow", "allow", "allow", "peek", "pause", "pause", "limit", "refund", "reset"}).Draw(rt, "step") {
		case "pause":
			s.Advance(t, time.Duration(rapid.Int64Range(0, per.Microseconds()*5/4).Draw(rt, "µs"))*time.Microsecond)
		case "limit":
			limit.Events = rapid.SampledFrom([]int64{1, 2, 3, 5, 12}).Draw(rt, "events")
			highest.Events = max(highest.Events, limit.Events)
			p.set(limit)
		case "reset":
			if rapid.IntRange(0, 9).Draw(rt, "rarely") > 0 {
				continue
			}
			require.NoError(rt, l.Reset(ctx, id))
			switch m := m.(type) {
			case *windowModel:
				clear(m.counts)
			case *logModel:
				m.times = nil
			case *bucketModel:
				m.full = 0
			default:
				return
			}
			admitted = nil
		case "refund":
			if len(admitted) == 0 {
				continue
			}
			a := admitted[len(admitted)-1]
			admitted = admitted[:len(admitted)-1]
			require.NoError(rt, l.Refund(ctx, a.result))
			m.refund(a.at, now(), a.limit, a.n)
		case "peek":
			before := now()
			r, err := l.Peek(ctx, id)
			require.NoError(rt, err)
			agrees(rt, m, before, now(), limit, 1, r)
		case "allow":
			n := rapid.Int64Range(1, limit.Events).Draw(rt, "n")
			before := now()
			r, err := l.AllowN(ctx, id, n)
			require.NoError(rt, err)
			after := now()
			if !r.Allowed {
				agrees(rt, m, before, after, limit, n, r)
				m.denied(before, limit)
				continue
			}
			require.True(rt, m.fits(before, limit, n) || m.fits(after, limit, n), "allowed what does not fit")
			if !m.add(before, after, limit, n, state(c, "ratelimit:"+id)) {
				return // a window ended while it was asked
			}
			agrees(rt, m, before, after, limit, 0, r)
			admitted = append(admitted, admission{before, n, limit, r})
			total := int64(0)
			for _, a := range admitted {
				if a.at > after-per.Microseconds() {
					total += a.n
				}
			}
			require.LessOrEqual(rt, total, m.most(highest), "admitted in one window")
		}
	}
}

// agrees holds a decision against the model's of the same moment, which lies between before and after: who wants n more.
func agrees(rt *rapid.T, m model, before, after int64, limit ratelimit.Limit, n int64, r ratelimit.Result) {
	remains := func(now int64) int64 { return min(max(limit.Events-m.used(now, limit), 0), limit.Events) }
	require.Equal(rt, limit.Events, r.Limit)
	require.GreaterOrEqual(rt, r.Remaining, min(remains(before), remains(after)))
	require.LessOrEqual(rt, r.Remaining, max(remains(before), remains(after)))
	if n == 0 {
		return
	}
	if m.fits(before, limit, n) == m.fits(after, limit, n) {
		require.Equal(rt, m.fits(before, limit, n), r.Allowed)
	}
	if !r.Allowed { // RetryAfter is when it passes, and not a microsecond more
		require.True(rt, m.fits(after+r.RetryAfter.Microseconds(), limit, n), "after RetryAfter")
		require.False(rt, m.fits(before+r.RetryAfter.Microseconds()-1, limit, n), "before RetryAfter")
	}
}
