// Ratelimit limits each client to 10 requests per 10 seconds, by a fixed and by a sliding window.
//
//	curl -i 'localhost:8082/fixed?user=user42'
//	curl -i 'localhost:8082/sliding?user=user42'
package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/redispatterns/redispatterns/examples/internal/app"
	"github.com/redispatterns/redispatterns/ratelimit"
)

func main() { app.Main(run) }

func run(ctx context.Context, out io.Writer) error {
	client, stop, err := app.Redis(ctx)
	if err != nil {
		return err
	}
	defer stop()
	limit := ratelimit.Limit{Events: 10, Per: 10 * time.Second}
	fixed, err := ratelimit.NewFixedWindow(client, limit, nil)
	if err != nil {
		return err
	}
	sliding, err := ratelimit.NewSlidingWindow(client, limit, nil)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /fixed", limited(fixed))
	mux.Handle("GET /sliding", limited(sliding))
	return app.Serve(ctx, out, "ratelimit", app.Getenv("ADDR", "127.0.0.1:8082"), mux)
}

// limited answers 200 while the client is within its limit, and 429 with Retry-After beyond it.
func limited(limiter *ratelimit.Limiter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		res, err := limiter.Allow(r.Context(), user(r))
		switch {
		case errors.Is(err, ratelimit.ErrInvalidID):
			app.Fail(w, http.StatusBadRequest, err.Error())
			return
		case err != nil:
			app.Unavailable(w, err)
			return
		}
		status := http.StatusOK
		if !res.Allowed {
			status = http.StatusTooManyRequests
			w.Header().Set("Retry-After", strconv.FormatInt(whole(res.RetryAfter, time.Second), 10))
		}
		app.Reply(w, status, struct {
			Allowed      bool  `json:"allowed"`
			Limit        int64 `json:"limit"`
			Remaining    int64 `json:"remaining"`
			RetryAfterMS int64 `json:"retry_after_ms"`
		}{res.Allowed, res.Limit, res.Remaining, whole(res.RetryAfter, time.Millisecond)})
	})
}

// user is who the request counts against: ?user=, which stands for whoever is logged in, or the peer's address.
func user(r *http.Request) string {
	if u := r.URL.Query().Get("user"); u != "" {
		return u
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// whole is d in a unit, rounded up: whoever waits that long has waited long enough.
func whole(d, unit time.Duration) int64 { return int64((d + unit - 1) / unit) }
