// Boundary draws what three rate limits let through around the end of a window, from a run on an embedded Redis or on
// REDIS_ADDR:
//
//	go run ./examples/boundary > docs/boundary.svg
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/examples/internal/app"
	"github.com/redispatterns/redispatterns/ratelimit"
)

const (
	limit = 10 // requests
	per   = time.Second

	// The burst, in time from the end of a window.
	from  = -400 * time.Millisecond
	to    = 1100 * time.Millisecond
	every = 25 * time.Millisecond
)

func main() { app.Main(run) }

func run(ctx context.Context, out io.Writer) error { return boundary(ctx, out, every/2) }

// boundary draws a run of which no request was later than it may be.
func boundary(ctx context.Context, out io.Writer, tolerated time.Duration) error {
	client, stop, err := app.Redis(ctx)
	if err != nil {
		return err
	}
	defer stop()
	for range 30 { // a minute
		lanes, late, err := burst(ctx, client)
		if err != nil {
			return err
		}
		if late <= tolerated {
			return draw(out, lanes)
		}
	}
	return errors.New("boundary: this machine is too busy to keep the burst's pace")
}

// lane is one algorithm, and what it decided.
type lane struct {
	name     string
	limiter  *ratelimit.Limiter
	requests []request
}

// request was decided between two times, from the end of the window.
type request struct {
	sent, answered time.Duration
	allowed        bool
}

// burst sends the same requests to each of three limiters, and says how late the latest of them was.
func burst(ctx context.Context, client *redis.Client) (lanes []*lane, late time.Duration, err error) {
	user := fmt.Sprintf("boundary-%d", time.Now().UnixNano())
	patient := &ratelimit.Options{Timeout: -1} // what comes late is seen, and the burst repeated
	for _, algorithm := range []struct {
		name string
		make func() (*ratelimit.Limiter, error)
	}{
		{"NewFixedWindow", func() (*ratelimit.Limiter, error) {
			return ratelimit.NewFixedWindow(client, ratelimit.PerSecond(limit), patient)
		}},
		{"NewSlidingWindow", func() (*ratelimit.Limiter, error) {
			return ratelimit.NewSlidingWindow(client, ratelimit.PerSecond(limit), patient)
		}},
		{"NewTokenBucket", func() (*ratelimit.Limiter, error) {
			return ratelimit.NewTokenBucket(client, ratelimit.PerSecond(limit), patient)
		}},
	} {
		limiter, err := algorithm.make()
		if err != nil {
			return nil, 0, err
		}
		if _, err := limiter.Allow(ctx, user+"-warm"); err != nil { // loads the script
			return nil, 0, err
		}
		lanes = append(lanes, &lane{name: algorithm.name, limiter: limiter})
	}
	edge, err := nextEdge(ctx, client)
	if err != nil {
		return nil, 0, err
	}
	for at := from; at < to; at += every {
		if err := sleepUntil(ctx, edge.Add(at)); err != nil {
			return nil, 0, err
		}
		late = max(late, time.Since(edge.Add(at)))
		for _, l := range lanes {
			sent := time.Since(edge)
			result, err := l.limiter.Allow(ctx, user)
			if err != nil {
				return nil, 0, err
			}
			l.requests = append(l.requests, request{sent, time.Since(edge), result.Allowed})
		}
		late = max(late, time.Since(edge.Add(at)))
	}
	return lanes, late, nil
}

// nextEdge is when, by this process's clock, a window of the server's clock ends that leaves time to prepare.
func nextEdge(ctx context.Context, client *redis.Client) (time.Time, error) {
	sent := time.Now()
	server, err := client.Time(ctx).Result()
	if err != nil {
		return time.Time{}, err
	}
	now := sent.Add(time.Since(sent) / 2)
	edge := server.Truncate(per).Add(per)
	if edge.Add(from).Before(server) {
		edge = edge.Add(per)
	}
	return now.Add(edge.Sub(server)), nil
}

func sleepUntil(ctx context.Context, at time.Time) error {
	select {
	case <-time.After(time.Until(at)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// inWindow is how many of the requests up to the i-th were surely allowed within the window that ends with it.
func (l *lane) inWindow(i int) (n int) {
	for _, r := range l.requests[:i+1] {
		if r.allowed && r.sent > l.requests[i].answered-per {
			n++
		}
	}
	return n
}

// most is how many were allowed in the fullest window.
func (l *lane) most() (n int) {
	for i := range l.requests {
		n = max(n, l.inWindow(i))
	}
	return n
}
