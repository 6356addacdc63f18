package main

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/examples/internal/app"
	"github.com/redispatterns/redispatterns/ratelimit"
)

//go:embed static
var static embed.FS

// policy lets the page load what this server has, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// newHandler serves the page, its events, and what it asks of the panels. The page limits itself by our own limiter.
func newHandler(ctx context.Context, client *redis.Client, h *hub, sessions *servers, limits *limits, board *board, workers *workers) (http.Handler, error) {
	files, err := fs.Sub(static, "static")
	if err != nil {
		return nil, err
	}
	perVisitor, err := ratelimit.NewTokenBucket(client, ratelimit.PerSecond(10).WithBurst(40), &ratelimit.Options{Name: "live-page", Timeout: patience})
	if err != nil {
		return nil, err
	}
	api := http.NewServeMux()
	for _, p := range []panel{sessions, limits, board, workers} {
		p.routes(api)
	}
	api.Handle("GET /events", &stream{ctx, h, sessions, board})
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServerFS(files))
	limited := ratelimit.Middleware(perVisitor, ratelimit.ClientIP(), &ratelimit.MiddlewareOptions{OnLimited: tooFast})(api)
	mux.Handle("/events", limited)
	mux.Handle("/api/", limited)
	return headers(http.NewCrossOriginProtection().Handler(mux)), nil
}

func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy":    policy,
			"X-Content-Type-Options":     "nosniff",
			"Referrer-Policy":            "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin",
			"Cache-Control":              "no-cache",
		} {
			w.Header().Set(name, value)
		}
		next.ServeHTTP(w, r)
	})
}

// tooFast answers a request that the page's own limiter denies; its Retry-After is set.
func tooFast(w http.ResponseWriter, _ *http.Request, _ ratelimit.Result) {
	app.Fail(w, http.StatusTooManyRequests, "this page limits itself: not so fast")
}

// done answers a request that needs no more than that, or that Redis could not answer.
func done(w http.ResponseWriter, err error) {
	if err != nil {
		app.Unavailable(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// stream is the page's events: what all pages are told, and what only this one is: its visitor's session, and the ranking
// around the player that was chosen.
type stream struct {
	ctx      context.Context // of the server: its end ends the streams
	hub      *hub
	sessions *servers
	board    *board
}

func (s *stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	player := r.URL.Query().Get("player")
	if player != "" && !isName(player) {
		app.Fail(w, http.StatusBadRequest, "player: "+nameRule)
		return
	}
	page, missed, ok := s.hub.open()
	if !ok {
		app.Fail(w, http.StatusServiceUnavailable, "too many pages are open")
		return
	}
	defer s.hub.close(page)
	w.Header().Set("Content-Type", "text/event-stream")
	v := &view{w: w, flush: http.NewResponseController(w).Flush}
	v.send("hello", map[string]any{"now": time.Now().UnixMilli()})
	for _, e := range missed {
		v.write(e.name, e.data)
	}
	id := s.sessions.id(r)
	v.session(r.Context(), s.sessions, id)
	v.around(r.Context(), s.board, player)

	second := time.NewTicker(time.Second)
	defer second.Stop()
	for v.err == nil {
		v.err = v.flush()
		select {
		case <-s.ctx.Done():
			return
		case <-r.Context().Done():
			return
		case e, open := <-page:
			if !open {
				return
			}
			v.write(e.name, e.data)
			switch e.name {
			case "servers":
				v.session(r.Context(), s.sessions, id)
			case "ranking":
				v.around(r.Context(), s.board, player)
			}
		case <-second.C:
			v.session(r.Context(), s.sessions, id)
			v.send("tick", map[string]any{"now": time.Now().UnixMilli()}) // a page that is gone shows at a write
		}
	}
}

// view writes one page's events. After the first error it writes nothing more.
type view struct {
	w     http.ResponseWriter
	flush func() error
	err   error
}

func (v *view) write(name string, data []byte) {
	if v.err == nil {
		_, v.err = fmt.Fprintf(v.w, "event: %s\ndata: %s\n\n", name, data)
	}
}

func (v *view) send(name string, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // as in hub
	}
	v.write(name, data)
}

// session sends the session's hash as it lies in Redis.
func (v *view) session(ctx context.Context, sessions *servers, id string) {
	if seen, err := sessions.look(ctx, id); err == nil {
		v.send("session", seen)
	}
}

func (v *view) around(ctx context.Context, board *board, player string) {
	if player == "" {
		return
	}
	if rows, err := board.around(ctx, player); err == nil {
		v.send("around", rows)
	}
}
