package ratelimit_test

import (
	"cmp"
	"context"
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

func TestMain(m *testing.M) {
	startExampleServer()
	_ = flag.Set("test.parallel", "8") // most of these tests wait; -parallel goes before
	redistest.Main(m)
}

var ctx = context.Background()

// constructor makes a limiter of one algorithm.
type constructor func(redispatterns.Client, ratelimit.Limit, *ratelimit.Options) (*ratelimit.Limiter, error)

var algorithms = map[string]constructor{
	"fixed window":    calmly(ratelimit.NewFixedWindow),
	"sliding window":  calmly(ratelimit.NewSlidingWindow),
	"sliding counter": calmly(ratelimit.NewSlidingCounter),
	"token bucket":    calmly(ratelimit.NewTokenBucket),
	"multi":           calmly(multi(ratelimit.SlidingCounter, ratelimit.FixedWindow)),
	"multi of bucket": calmly(multi(ratelimit.TokenBucket)),
}

// calm are the options of tests that a busy machine must not disturb.
var calm = &ratelimit.Options{Timeout: -1}

// calmly sets no Timeout where the options name none.
func calmly(build constructor) constructor {
	return func(c redispatterns.Client, limit ratelimit.Limit, opts *ratelimit.Options) (*ratelimit.Limiter, error) {
		o := *calm
		if opts != nil {
			o = *opts
			o.Timeout = cmp.Or(opts.Timeout, calm.Timeout)
		}
		return build(c, limit, &o)
	}
}

// multi is NewMulti with a rule of the same limit for each algorithm.
func multi(of ...ratelimit.Algorithm) constructor {
	return func(c redispatterns.Client, limit ratelimit.Limit, opts *ratelimit.Options) (*ratelimit.Limiter, error) {
		var rules []ratelimit.Rule
		for i, algorithm := range of {
			rules = append(rules, ratelimit.Rule{Name: string(rune('a' + i)), Limit: limit, Algorithm: algorithm})
		}
		return ratelimit.NewMulti(c, rules, opts)
	}
}

// eachAlgorithm runs fn for every algorithm on both servers, in parallel.
func eachAlgorithm(t *testing.T, fn func(t *testing.T, s *redistest.Server, build constructor)) {
	t.Helper()
	for name, build := range algorithms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, s *redistest.Server) { fn(t, s, build) })
		})
	}
}

// onBoth runs fn on both servers, on the real one when its hour has some time left.
func onBoth(t *testing.T, fn func(t *testing.T, s *redistest.Server)) {
	t.Helper()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) { fn(t, steady(t, s)) })
}

// steady waits while the hour, and with it perhaps the day, of a real server is about to end: what was counted in it would
// be gone in the middle of a test.
func steady(t testing.TB, s *redistest.Server) *redistest.Server {
	t.Helper()
	for s.IsReal() {
		now := s.Now(t)
		if now.Truncate(time.Hour).Add(time.Hour).Sub(now) > 20*time.Second {
			break
		}
		s.Advance(t, time.Second)
	}
	return s
}

func must(t testing.TB) func(*ratelimit.Limiter, error) *ratelimit.Limiter {
	return func(l *ratelimit.Limiter, err error) *ratelimit.Limiter {
		t.Helper()
		require.NoError(t, err)
		return l
	}
}

// take is Allow that must come to a decision.
func take(t testing.TB, l *ratelimit.Limiter, id string, n int64) ratelimit.Result {
	t.Helper()
	r, err := l.AllowN(ctx, id, n)
	require.NoError(t, err)
	consistent(t, r)
	return r
}

func peek(t testing.TB, l *ratelimit.Limiter, id string) ratelimit.Result {
	t.Helper()
	r, err := l.Peek(ctx, id)
	require.NoError(t, err)
	consistent(t, r)
	return r
}

// consistent checks what holds for every decision.
func consistent(t testing.TB, r ratelimit.Result) {
	t.Helper()
	require.GreaterOrEqual(t, r.Remaining, int64(0))
	require.LessOrEqual(t, r.Remaining, r.Limit)
	require.GreaterOrEqual(t, r.ResetAfter, time.Duration(0))
	require.Equal(t, r.Allowed, r.RetryAfter == 0, "RetryAfter is 0 exactly when allowed: %+v", r)
	require.GreaterOrEqual(t, r.RetryAfter, time.Duration(0))
	require.Equal(t, r.Allowed, r.Reason == ratelimit.ReasonAllowed)
}

// windowOf is when the window of now began. Truncate counts from the year 1, which for most lengths is another moment.
func windowOf(now time.Time, per time.Duration) time.Time {
	return time.UnixMilli(now.UnixMilli() / per.Milliseconds() * per.Milliseconds())
}

// inOneWindow begins a window of the server with start and requires what fn answers in it, unless it is too slow for the
// window: then it tries again.
func inOneWindow(t testing.TB, s *redistest.Server, per time.Duration, start func(), fn func() int, want int) {
	t.Helper()
	for range 20 {
		now := s.Now(t)
		s.Advance(t, windowOf(now, per).Add(per).Sub(now)+time.Millisecond)
		start()
		begun := windowOf(s.Now(t), per)
		got := fn()
		if windowOf(s.Now(t), per).Equal(begun) {
			require.Equal(t, want, got)
			return
		}
	}
	t.Fatalf("20 windows of %v were too short for the test", per)
}
