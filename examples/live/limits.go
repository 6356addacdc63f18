package main

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/examples/internal/app"
	"github.com/redispatterns/redispatterns/ratelimit"
)

// limits are three limiters of one limit, asked the same at the same time.
type limits struct {
	client *redis.Client
	hub    *hub
	limit  ratelimit.Limit
	ways   []way

	mu sync.Mutex // one burst at the edge at a time
}

type way struct {
	name    string
	limiter *ratelimit.Limiter
	show    func(ctx context.Context, now time.Time) (key, value string, err error) // what lies in Redis
}

const (
	visitor  = "you"           // whom the limits count
	patience = 5 * time.Second // of a click: on a busy machine it is answered late rather than not at all
)

func newLimits(client *redis.Client, h *hub) (*limits, error) {
	l := &limits{client: client, hub: h, limit: ratelimit.Limit{Events: 10, Per: 10 * time.Second}}
	fixed, errFixed := ratelimit.NewFixedWindow(client, l.limit, &ratelimit.Options{Name: "live-fixed", Timeout: patience})
	sliding, errSliding := ratelimit.NewSlidingWindow(client, l.limit, &ratelimit.Options{Name: "live-sliding", Timeout: patience})
	bucket, errBucket := ratelimit.NewTokenBucket(client, l.limit, &ratelimit.Options{Name: "live-bucket", Timeout: patience})
	if err := errors.Join(errFixed, errSliding, errBucket); err != nil {
		return nil, err
	}
	l.ways = []way{
		{"fixed", fixed, func(ctx context.Context, now time.Time) (string, string, error) {
			key := "ratelimit:live-fixed:" + visitor + ":" + now.UTC().Truncate(l.limit.Per).Format("2006-01-02T15:04:05") + "/10s"
			v, err := client.Get(ctx, key).Result()
			return key, v, err
		}},
		{"sliding", sliding, func(ctx context.Context, _ time.Time) (string, string, error) {
			key := "ratelimit:live-sliding:" + visitor
			n, err := client.ZCard(ctx, key).Result()
			return key, strconv.FormatInt(n, 10) + " times", err
		}},
		{"bucket", bucket, func(ctx context.Context, _ time.Time) (string, string, error) {
			key := "ratelimit:live-bucket:" + visitor + "~b"
			v, err := client.Get(ctx, key).Result()
			return key, v, err
		}},
	}
	h.state("limits", map[string]any{"events": l.limit.Events, "per": l.limit.Per.Milliseconds()})
	return l, nil
}

func (l *limits) routes(mux *http.ServeMux) {
	mux.HandleFunc("POST /api/limits/hit", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Times int `json:"times"`
		}
		if !app.Decode(w, r, &in) {
			return
		}
		if in.Times < 1 || in.Times > 20 {
			app.Fail(w, http.StatusBadRequest, "times must be from 1 to 20")
			return
		}
		done(w, l.hit(r.Context(), in.Times))
	})
	mux.HandleFunc("POST /api/limits/edge", func(w http.ResponseWriter, r *http.Request) {
		if !l.mu.TryLock() {
			app.Fail(w, http.StatusConflict, "a burst is under way")
			return
		}
		defer l.mu.Unlock()
		done(w, l.burstAtEdge(r.Context()))
	})
	mux.HandleFunc("POST /api/limits/reset", func(w http.ResponseWriter, r *http.Request) {
		done(w, l.reset(r.Context()))
	})
}

// hit asks each limiter, so many times.
func (l *limits) hit(ctx context.Context, times int) error {
	type decision struct {
		Allowed   bool   `json:"allowed"`
		Remaining int64  `json:"remaining"`
		Retry     int64  `json:"retry"`
		Key       string `json:"key,omitempty"` // after the last
		Value     string `json:"value,omitempty"`
	}
	for i := range times {
		now, err := l.client.Time(ctx).Result() // a fixed window's edges are on Redis' clock
		if err != nil {
			return err
		}
		decisions := map[string]decision{}
		for _, way := range l.ways {
			res, err := way.limiter.Allow(ctx, visitor)
			if err != nil {
				return err
			}
			d := decision{Allowed: res.Allowed, Remaining: res.Remaining, Retry: res.RetryAfter.Milliseconds()}
			if i == times-1 {
				d.Key, d.Value, err = way.show(ctx, now)
				if err != nil && !errors.Is(err, redis.Nil) { // it may have ended meanwhile
					return err
				}
			}
			decisions[way.name] = d
		}
		l.hub.moment("decision", map[string]any{"at": now.UnixMilli(), "ways": decisions})
	}
	return nil
}

// burstAtEdge sends a full limit's worth just before a fixed window ends and again just after: a fixed window lets both
// through, twice its limit in under a second.
func (l *limits) burstAtEdge(ctx context.Context) error {
	now, err := l.client.Time(ctx).Result()
	if err != nil {
		return err
	}
	const before, after = 500 * time.Millisecond, 100 * time.Millisecond
	edge := now.Truncate(l.limit.Per).Add(l.limit.Per)
	if edge.Sub(now) < 2*before {
		edge = edge.Add(l.limit.Per)
	}
	l.hub.state("edge", map[string]any{"at": edge.UnixMilli()})
	defer l.hub.state("edge", map[string]any{"at": 0})
	began := time.Now()
	until := func(t time.Time) error { return pause(ctx, t.Sub(now)-time.Since(began)) }
	if err := until(edge.Add(-before)); err != nil {
		return err
	}
	if err := l.reset(ctx); err != nil {
		return err
	}
	if err := l.hit(ctx, int(l.limit.Events)); err != nil {
		return err
	}
	if err := until(edge.Add(after)); err != nil {
		return err
	}
	return l.hit(ctx, int(l.limit.Events))
}

func (l *limits) reset(ctx context.Context) error {
	var errs []error
	for _, way := range l.ways {
		errs = append(errs, way.limiter.Reset(ctx, visitor))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	now, err := l.client.Time(ctx).Result()
	l.hub.moment("reset", map[string]any{"at": now.UnixMilli()})
	return err
}

// pause waits for d, or for the context's end.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
