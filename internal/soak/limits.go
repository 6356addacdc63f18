package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redispatterns/redispatterns/ratelimit"
)

const (
	limitEvents = 20
	limitBurst  = 10
	slowEvents  = 40
	slowWindow  = 3 * time.Second
)

// limits asks every algorithm, more often than it allows.
func (w *worker) limits(ctx context.Context) error {
	limit := ratelimit.PerSecond(limitEvents)
	rules := []ratelimit.Rule{
		{Name: "fast", Limit: limit.WithBurst(limitBurst), Algorithm: ratelimit.TokenBucket},
		{Name: "slow", Limit: ratelimit.Limit{Events: slowEvents, Per: slowWindow}, Algorithm: ratelimit.SlidingCounter},
	}
	limiters := map[string]*ratelimit.Limiter{}
	var err error
	add := func(name string, l *ratelimit.Limiter, e error) {
		limiters[name] = l
		if e != nil {
			err = e
		}
	}
	of := func(name string) *ratelimit.Options { return &ratelimit.Options{Name: name} }
	l, e := ratelimit.NewFixedWindow(w.client, limit, of("fixed"))
	add("fixed", l, e)
	l, e = ratelimit.NewSlidingWindow(w.client, limit, of("sliding"))
	add("sliding", l, e)
	l, e = ratelimit.NewSlidingCounter(w.client, limit, of("counter"))
	add("counter", l, e)
	l, e = ratelimit.NewTokenBucket(w.client, limit.WithBurst(limitBurst), of("bucket"))
	add("bucket", l, e)
	l, e = ratelimit.NewMulti(w.client, rules, of("multi"))
	add("multi", l, e)
	if err != nil {
		return err
	}
	var ops []func()
	for name, l := range limiters {
		ops = append(ops, func() { w.request(name, l) })
	}
	w.repeat(ctx, 10, ops...)
	return nil
}

// request asks a limiter once, and tells the oracle at once what it let through.
func (w *worker) request(name string, l *ratelimit.Limiter) {
	id := []string{"user1", "user{2}"}[rand.IntN(2)]
	ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
	defer cancel()
	e := admitted{Limiter: name, ID: id, N: 1 + rand.Int64N(2), From: now()}
	result, err := l.AllowN(ctx, id, e.N)
	e.To = now()
	switch {
	case err != nil:
		w.failed("limit", err, ratelimit.ErrUnknown, ratelimit.ErrUnavailable)
	case result.Allowed, w.planted("limit", 2):
		w.did("limit: allowed by " + name)
		var ok bool
		w.ask("Admit", []admitted{e}, &ok)
	default:
		w.did("limit: denied by " + name)
	}
}
