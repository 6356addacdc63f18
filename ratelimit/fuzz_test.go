package ratelimit_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

func FuzzClientIP(f *testing.F) {
	f.Add("10.0.0.1:80", "203.0.113.7, 10.0.0.2")
	f.Add("[::1%x]:1", ",,::,")
	for _, text := range redistest.Hostile() {
		f.Add(text, "203.0.113.7")
		f.Add("10.0.0.1:80", text)
		f.Add("10.0.0.1:80", "203.0.113.7, "+text+", 10.0.0.2")
	}
	c := redistest.Mini(f).Client(f)
	l := must(f)(ratelimit.NewTokenBucket(c, ratelimit.PerDay(1), calm))
	key := ratelimit.ClientIP(netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::/0"))
	f.Fuzz(func(t *testing.T, remote, forwarded string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr, r.Header["X-Forwarded-For"] = remote, []string{forwarded}
		id, err := key(r)
		if err != nil {
			requireOneLine(t, err)
			return
		}
		prefix, err := netip.ParsePrefix(id)
		if err != nil {
			addr, err := netip.ParseAddr(id)
			require.NoError(t, err, "what counts is an address")
			require.True(t, addr.Is4())
		} else {
			require.Equal(t, 64, prefix.Bits())
		}
		_, err = l.Peek(ctx, id)
		require.NoError(t, err, "an address is an id")
	})
}

// A name, of a limiter or a rule, and an id are refused, or they limit: one event passes, the second does not, and all keys
// have a TTL.
func FuzzNameAndID(f *testing.F) {
	for _, text := range redistest.Hostile() {
		f.Add(text, "user42")
		f.Add("api", text)
	}
	c := redistest.Mini(f).Client(f)
	f.Fuzz(func(t *testing.T, name, id string) {
		limits := func(kind string, l *ratelimit.Limiter) {
			r, err := l.Allow(ctx, id)
			if err != nil {
				require.ErrorIs(t, err, ratelimit.ErrInvalidID, kind)
				requireOneLine(t, err)
				require.Less(t, len(err.Error()), 1000)
				require.Empty(t, c.Keys(ctx, "*").Val())
				return
			}
			require.True(t, r.Allowed, kind)
			r, err = l.Allow(ctx, id)
			require.NoError(t, err)
			require.False(t, r.Allowed, kind)
			keys := c.Keys(ctx, "*").Val()
			require.Len(t, keys, 1)
			require.Positive(t, c.PTTL(ctx, keys[0]).Val())
			require.True(t, strings.HasPrefix(keys[0], "ratelimit:"))
			require.NoError(t, l.Reset(ctx, id))
			require.Empty(t, c.Keys(ctx, "*").Val())
		}
		l, err := ratelimit.NewMulti(c, []ratelimit.Rule{{Name: name, Limit: ratelimit.PerDay(1)}}, calm)
		if err != nil {
			requireOneLine(t, err)
			require.Empty(t, name)
		} else {
			limits("rule", l)
		}
		for kind, build := range algorithms {
			l, err := build(c, ratelimit.PerDay(1), &ratelimit.Options{Name: name})
			if err != nil {
				requireOneLine(t, err)
				require.Contains(t, name, ":")
				return
			}
			limits(kind, l)
		}
	})
}

// Whatever another program has written where a limiter counts, there is a decision that makes sense, or an error.
func FuzzStored(f *testing.F) {
	for _, text := range append(redistest.Hostile(), "1764432000000 5 5", "1764432000000 -5 1e300", "1764432000000000 5", "99999999999999999999 1") {
		f.Add(text)
	}
	c := redistest.Mini(f).Client(f)
	now := c.Time(ctx).Val()
	day := now.UTC().Format("2006-01-02")
	f.Fuzz(func(t *testing.T, text string) {
		for kind, build := range algorithms {
			l := must(t)(build(c, ratelimit.PerDay(5), nil))
			require.NoError(t, c.FlushDB(ctx).Err())
			switch kind {
			case "fixed window":
				require.NoError(t, c.Set(ctx, "ratelimit:user42:"+day, text, time.Hour).Err())
			case "sliding window":
				require.NoError(t, c.ZAdd(ctx, "ratelimit:user42", redis.Z{Score: 1e15, Member: text}).Err())
			case "sliding counter":
				require.NoError(t, c.Set(ctx, "ratelimit:user42~c", text, time.Hour).Err())
			case "token bucket":
				require.NoError(t, c.Set(ctx, "ratelimit:user42~b", text, time.Hour).Err())
			default:
				require.NoError(t, c.HSet(ctx, "ratelimit:user42~m", "a", text, "b", text).Err())
			}
			for range 2 {
				r, err := l.Allow(ctx, "user42")
				if err != nil {
					requireOneLine(t, err)
					continue
				}
				consistent(t, r)
				r, err = l.Peek(ctx, "user42")
				if err == nil {
					consistent(t, r)
				}
			}
		}
	})
}

// The headers are Structured Fields whatever the limiter is called, and a client can tell the limits apart.
func FuzzHeaders(f *testing.F) {
	for _, text := range redistest.Hostile() {
		f.Add(text, "rule", int64(5), int64(time.Second), int64(7), true)
		f.Add("", text, int64(0), int64(0), int64(1<<62), false)
	}
	str := `"(?:[ !#-\[\]-~]|\\["\\])*"`
	policy := regexp.MustCompile(`^` + str + `;q=\d{1,15}(;w=\d{1,15})?(, ` + str + `;q=\d{1,15}(;w=\d{1,15})?)*$`)
	limit := regexp.MustCompile(`^` + str + `;r=\d{1,15}(;t=\d{1,15})?(, ` + str + `;r=\d{1,15}(;t=\d{1,15})?)*$`)
	f.Fuzz(func(t *testing.T, name, rule string, remaining, retry, most int64, allowed bool) {
		remaining, retry, most = max(remaining, 0), max(retry, 0), max(most, 1)
		r := ratelimit.Result{Allowed: allowed, Limit: most, Remaining: remaining, RetryAfter: time.Duration(retry), ResetAfter: time.Duration(retry)}
		if rule != "" {
			r.Rules = []ratelimit.RuleResult{
				{Name: rule, Limit: most, Remaining: remaining, RetryAfter: time.Duration(retry)}, {Name: "other", Limit: 1, ResetAfter: time.Duration(retry)},
			}
		}
		h := http.Header{}
		ratelimit.SetHeaders(h, name, r, true)
		for field, values := range h {
			require.Len(t, values, 1)
			switch field {
			case "Ratelimit-Policy":
				require.Regexp(t, policy, values[0])
			case "Ratelimit":
				require.Regexp(t, limit, values[0])
			default:
				require.Regexp(t, `^\d+$`, values[0], field)
			}
		}
	})
}

func requireOneLine(t *testing.T, err error) {
	t.Helper()
	require.False(t, strings.ContainsAny(err.Error(), "\n\r\x00"), "%q", err.Error())
}
