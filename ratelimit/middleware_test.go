package ratelimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

func user(r *http.Request) (string, error) {
	if u := r.Header.Get("User"); u != "" {
		return u, nil
	}
	return "", errors.New("who are you")
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })

func get(h http.Handler, user string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	if user != "" {
		r.Header.Set("User", user)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(b)
}

func TestMiddleware(t *testing.T) {
	t.Parallel()
	s := at(t) // half past the minute
	l := must(t)(ratelimit.NewFixedWindow(s.Client(t), ratelimit.PerMinute(2), &ratelimit.Options{Timeout: -1, Name: `a"b`}))
	h := ratelimit.Middleware(l, user, &ratelimit.MiddlewareOptions{Legacy: true})(hello)
	for i, want := range []string{`"a\"b";r=1;t=30`, `"a\"b";r=0;t=30`} {
		r := get(h, "u")
		require.Equal(t, 200, r.StatusCode)
		require.Equal(t, "hello", body(t, r))
		require.Equal(t, `"a\"b";q=2;w=60`, r.Header.Get("RateLimit-Policy"))
		require.Equal(t, want, r.Header.Get("RateLimit"), i)
		require.Equal(t, "2", r.Header.Get("X-RateLimit-Limit"))
		require.Equal(t, "30", r.Header.Get("X-RateLimit-Reset"))
		require.Empty(t, r.Header.Get("Retry-After"))
	}
	r := get(h, "u")
	require.Equal(t, 429, r.StatusCode)
	require.Equal(t, "30", r.Header.Get("Retry-After"))
	require.Equal(t, `"a\"b";r=0;t=30`, r.Header.Get("RateLimit"))
	require.Equal(t, "application/problem+json", r.Header.Get("Content-Type"))
	require.JSONEq(t, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request quota exceeded","status":429,"violated-policies":["a\"b"]}`, body(t, r))
	require.Equal(t, 200, get(h, "v").StatusCode)

	r = get(h, "")
	require.Equal(t, 400, r.StatusCode, "a key function's error")
	require.Equal(t, 400, get(h, "u~c").StatusCode)

	s.Advance(t, 29*time.Second+100*time.Millisecond) // 900 ms are left
	r = get(h, "u")
	require.Equal(t, "1", r.Header.Get("Retry-After"), "rounded up")
	s.Advance(t, time.Second)
	require.Equal(t, 200, get(h, "u").StatusCode)
}

func TestMiddlewareOfSeveralRulesAndLimiters(t *testing.T) {
	t.Parallel()
	s := at(t)
	c := s.Client(t)
	many := must(t)(ratelimit.NewMulti(c, []ratelimit.Rule{
		{Name: "burst", Limit: ratelimit.PerSecond(10).WithBurst(3), Algorithm: ratelimit.TokenBucket},
		{Name: "day", Limit: ratelimit.PerDay(1000), Algorithm: ratelimit.FixedWindow},
		{Name: "tick", Limit: ratelimit.Limit{Events: 50, Per: 100 * time.Millisecond}},
	}, &ratelimit.Options{Timeout: -1, Name: "api"}))
	other := must(t)(ratelimit.NewSlidingWindow(c, ratelimit.PerMinute(100), calm))
	h := ratelimit.Middleware(other, user, &ratelimit.MiddlewareOptions{Legacy: true})(ratelimit.Middleware(many, user, &ratelimit.MiddlewareOptions{Legacy: true})(hello))
	r := get(h, "u")
	require.Equal(t, []string{`"default";q=100;w=60`, `"api/burst";q=3, "api/day";q=1000;w=86400, "api/tick";q=50`}, r.Header.Values("RateLimit-Policy"))
	require.Equal(t, []string{`"default";r=99;t=60`, `"api/burst";r=2;t=1, "api/day";r=999;t=43170, "api/tick";r=49;t=1`}, r.Header.Values("RateLimit"))
	require.Equal(t, "2", r.Header.Get("X-RateLimit-Remaining"), "of the tightest")
	get(h, "u")
	get(h, "u")
	r = get(h, "u")
	require.Equal(t, 429, r.StatusCode)
	require.Equal(t, `"api/burst";r=0;t=1, "api/day";r=997, "api/tick";r=47`, r.Header.Values("RateLimit")[1])
	require.Contains(t, body(t, r), `"violated-policies":["api/burst"]`)
}

func TestMiddlewareOptions(t *testing.T) {
	t.Parallel()
	c := redistest.Mini(t).Client(t)
	var p plan
	opts := p.options()
	opts.Timeout = -1
	l := must(t)(ratelimit.NewTokenBucket(c, ratelimit.PerDay(10), opts))
	cost := int64(4)
	var seen error
	h := ratelimit.Middleware(l, user, &ratelimit.MiddlewareOptions{
		Cost:      func(*http.Request) int64 { return cost },
		Skip:      func(r *http.Request) bool { return r.Header.Get("User") == "admin" },
		OnLimited: func(w http.ResponseWriter, _ *http.Request, r ratelimit.Result) { w.WriteHeader(420) },
		OnError: func(w http.ResponseWriter, _ *http.Request, err error) {
			seen = err
			w.WriteHeader(500)
		},
	})(hello)
	require.Equal(t, 200, get(h, "u").StatusCode)
	require.Equal(t, 200, get(h, "u").StatusCode)
	require.Equal(t, 420, get(h, "u").StatusCode)
	for range 20 {
		r := get(h, "admin")
		require.Equal(t, 200, r.StatusCode)
		require.Empty(t, r.Header.Get("RateLimit"))
	}
	cost = 0
	require.Equal(t, 200, get(h, "u").StatusCode, "free")
	cost = -1
	require.Equal(t, 500, get(h, "u").StatusCode)
	cost = 11
	require.Equal(t, 500, get(h, "u").StatusCode)
	require.ErrorIs(t, seen, ratelimit.ErrCost)
	require.Equal(t, 500, get(h, "").StatusCode)
	require.ErrorContains(t, seen, "who are you")

	plain := ratelimit.Middleware(l, user, &ratelimit.MiddlewareOptions{Cost: func(*http.Request) int64 { return 11 }})(hello)
	r := get(plain, "u")
	require.Equal(t, 429, r.StatusCode, "never passes")
	require.Empty(t, r.Header.Get("Retry-After"))
	p.set(ratelimit.Unlimited)
	r = get(plain, "u")
	require.Equal(t, 200, r.StatusCode)
	require.Empty(t, r.Header.Get("RateLimit"))
	for _, broken := range []http.Handler{ratelimit.Middleware(nil, user, nil)(hello), ratelimit.Middleware(l, nil, nil)(hello)} {
		require.Equal(t, 503, get(broken, "u").StatusCode)
	}
}

// Redis being down is never 429.
func TestMiddlewareWithoutRedis(t *testing.T) {
	t.Parallel()
	p := redistest.Mini(t).Proxy(t)
	p.BlackHole(true)
	defer p.BlackHole(false)
	c := p.Client(t, patient)
	for policy, want := range map[ratelimit.FailurePolicy]int{ratelimit.FailWithError: 503, ratelimit.FailClosed: 503, ratelimit.FailOpen: 200} {
		var failures int
		l := must(t)(ratelimit.NewSlidingCounter(c, ratelimit.PerDay(10), &ratelimit.Options{
			Timeout: 50 * time.Millisecond, OnFailure: policy,
			Observe: func(_ context.Context, e ratelimit.Event) {
				if errors.Is(e.Err, ratelimit.ErrUnavailable) {
					failures++
				}
			},
		}))
		h := ratelimit.Middleware(l, user, nil)(hello)
		for range 3 {
			r := get(h, "u")
			require.Equal(t, want, r.StatusCode)
			require.Empty(t, r.Header.Get("RateLimit"))
			require.Empty(t, r.Header.Get("Retry-After"))
		}
		require.Equal(t, 3, failures)
	}
}

func TestClientIP(t *testing.T) {
	t.Parallel()
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:1::/48"), netip.MustParsePrefix("::ffff:192.168.0.0/112")}
	for _, test := range []struct {
		name, remote string
		forwarded    []string
		want         string
	}{
		{"the peer", "203.0.113.7:1234", nil, "203.0.113.7"},
		{"who is no proxy may claim what he likes", "203.0.113.7:1234", []string{"1.1.1.1"}, "203.0.113.7"},
		{"behind a proxy", "10.0.0.1:80", []string{"203.0.113.7"}, "203.0.113.7"},
		{"the leftmost may be an invention", "10.0.0.1:80", []string{"6.6.6.6, 203.0.113.7, 10.0.0.2"}, "203.0.113.7"},
		{"all lines, in order", "10.0.0.1:80", []string{"6.6.6.6", "203.0.113.7", "10.0.0.2, 10.0.0.3"}, "203.0.113.7"},
		{"an unreadable hop ends it", "10.0.0.1:80", []string{"203.0.113.7, what, 10.0.0.2"}, "10.0.0.2"},
		{"an empty one too", "10.0.0.1:80", []string{""}, "10.0.0.1"},
		{"proxies alone", "10.0.0.1:80", []string{"10.0.0.9, 10.0.0.2"}, "10.0.0.9"},
		{"no header", "10.0.0.1:80", nil, "10.0.0.1"},
		{"with ports", "10.0.0.1:80", []string{"203.0.113.7:99"}, "203.0.113.7"},
		{"v6 by /64", "[2001:db8:2:3:4:5:6:7]:80", nil, "2001:db8:2:3::/64"},
		{"v6 behind v6", "[2001:db8:1::1]:80", []string{"[2001:db8:2:3::9]:80"}, "2001:db8:2:3::/64"},
		{"v6 in brackets", "10.0.0.1:80", []string{"[2001:db8:2:3::9]"}, "2001:db8:2:3::/64"},
		{"mapped", "[::ffff:203.0.113.7]:80", nil, "203.0.113.7"},
		{"mapped proxy", "[::ffff:10.0.0.1]:80", []string{"::ffff:203.0.113.7"}, "203.0.113.7"},
		{"trusted by a mapped prefix", "192.168.3.4:80", []string{"203.0.113.7"}, "203.0.113.7"},
		{"zone", "[fe80::1%eth0]:80", nil, "fe80::/64"},
		{"no port", "203.0.113.7", nil, "203.0.113.7"},
		{"v6, no port", "2001:db8:2:3:4:5:6:7", nil, "2001:db8:2:3::/64"},
		{"nobody", "", nil, ""},
		{"a socket", "@", nil, ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = test.remote
		r.Header["X-Forwarded-For"] = test.forwarded
		id, err := ratelimit.ClientIP(proxies...)(r)
		require.Equal(t, test.want, id, test.name)
		require.Equal(t, test.want == "", err != nil, test.name)
	}
}
