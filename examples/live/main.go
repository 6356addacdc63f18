// Live is one page that shows the four patterns at work: sessions on two servers, three limiters side by side, a ranking
// that moves, and workers that compete for a lock. Everything on it is done by the packages on the Redis at REDIS_ADDR, or
// on an embedded one, and reaches the page as server-sent events.
//
//	go run ./examples/live
//
// Open http://localhost:8080. ADDR is where it listens. Its keys begin with session:, ratelimit:live, ranking:live and
// lock:live, and each has a TTL.
package main

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/redispatterns/redispatterns/examples/internal/app"
)

func main() { app.Main(run) }

func run(ctx context.Context, out io.Writer) (err error) {
	client, stop, err := app.Redis(ctx)
	if err != nil {
		return err
	}
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := newHub()
	servers, errServers := newServers(client, h)
	limits, errLimits := newLimits(client, h)
	board, errBoard := newBoard(client, h)
	workers, errWorkers := newWorkers(ctx, client, h)
	if err := errors.Join(errServers, errLimits, errBoard, errWorkers); err != nil {
		return err
	}
	handler, err := newHandler(ctx, client, h, servers, limits, board, workers)
	if err != nil {
		return err
	}
	ended := make(chan error, 3)
	go func() { ended <- servers.run(ctx) }()
	go func() { ended <- board.run(ctx) }()
	go func() { ended <- workers.run(ctx) }()
	err = app.Serve(ctx, out, "live", app.Getenv("ADDR", "127.0.0.1:8080"), handler)
	cancel()
	return errors.Join(err, <-ended, <-ended, <-ended)
}

// panel is one of the page's four: it adds what the page can ask of it.
type panel interface{ routes(mux *http.ServeMux) }
