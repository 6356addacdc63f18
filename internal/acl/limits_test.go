package acl_test

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

func limits(c *calls, client redispatterns.Client) {
	name := redistest.ID()
	for _, limit := range []ratelimit.Limit{ratelimit.PerDay(3), {Events: 3, Per: 50 * time.Millisecond}} {
		opts := func(kind string) *ratelimit.Options {
			return &ratelimit.Options{Name: fmt.Sprint(name, kind, limit.Per.Milliseconds()), Timeout: -1}
		}
		rules := []ratelimit.Rule{
			{Name: "a", Limit: limit, Algorithm: ratelimit.TokenBucket}, {Name: "b", Limit: limit, Algorithm: ratelimit.FixedWindow},
			{Name: "c", Limit: limit},
		}
		for _, make := range []func() (*ratelimit.Limiter, error){
			func() (*ratelimit.Limiter, error) { return ratelimit.NewFixedWindow(client, limit, opts("f")) },
			func() (*ratelimit.Limiter, error) { return ratelimit.NewSlidingWindow(client, limit, opts("s")) },
			func() (*ratelimit.Limiter, error) { return ratelimit.NewSlidingCounter(client, limit, opts("c")) },
			func() (*ratelimit.Limiter, error) { return ratelimit.NewTokenBucket(client, limit, opts("b")) },
			func() (*ratelimit.Limiter, error) { return ratelimit.NewMulti(client, rules, opts("m")) },
		} {
			l, err := make()
			c.did("New", err)
			if limit.Per < time.Second {
				waitForLimit(c, l)
			} else {
				useLimiter(c, l)
			}
		}
	}
	// A clock that was set back leaves entries in the future; a denial dates them to now.
	l, err := ratelimit.NewSlidingWindow(client, ratelimit.PerMinute(1), &ratelimit.Options{Name: name, Timeout: -1})
	c.did("New", err)
	ahead := redis.NewCmd(c.ctx, "zadd", "ratelimit:"+name+":ahead", time.Now().Add(time.Hour).UnixMicro(), "1234567890123456000")
	c.did("zadd", client.Process(c.ctx, ahead))
	_, err = l.Allow(c.ctx, "ahead")
	c.did("Limiter.Allow", err)
	knows[ratelimit.Limiter](c)
}

func useLimiter(c *calls, l *ratelimit.Limiter) {
	r, err := l.Allow(c.ctx, "user42")
	c.did("Limiter.Allow", err)
	c.did("Limiter.Refund", l.Refund(c.ctx, r))
	_, err = l.Peek(c.ctx, "user42")
	c.did("Limiter.Peek", err)
	r, err = l.AllowN(c.ctx, "user42", 2)
	c.did("Limiter.AllowN", err)
	c.did("Limiter.Refund", l.Refund(c.ctx, r))
	_, err = l.AllowN(c.ctx, "user42", 2)
	c.did("Limiter.AllowN", err)
	_, err = l.AllowN(c.ctx, "user42", 2) // denied
	c.did("Limiter.AllowN", err)
	_, err = l.Allow(c.ctx, "user42")
	c.did("Limiter.Allow", err)
	_, err = l.Allow(c.ctx, "user42") // denied
	c.did("Limiter.Allow", err)
	_, err = l.Peek(c.ctx, "user42")
	c.did("Limiter.Peek", err)
	c.did("Limiter.Reset", l.Reset(c.ctx, "user42"))
}

func waitForLimit(c *calls, l *ratelimit.Limiter) {
	for range 2 {
		_, err := l.Wait(c.ctx, "user42")
		c.did("Limiter.Wait", err)
		_, err = l.WaitN(c.ctx, "user42", 3)
		c.did("Limiter.WaitN", err)
	}
}
