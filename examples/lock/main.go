// Lock hands out locks over HTTP. Its leases are not renewed, so that one can watch them expire.
//
//	curl -d '{"resource":"order:12345"}' localhost:8084/lock/acquire
//	curl localhost:8084/lock/status/order:12345
//	curl -d '{"resource":"order:12345","owner":"<the uuid>"}' localhost:8084/lock/release
package main

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/redispatterns/redispatterns/examples/internal/app"
	"github.com/redispatterns/redispatterns/lock"
)

func main() { app.Main(run) }

func run(ctx context.Context, out io.Writer) error {
	client, stop, err := app.Redis(ctx)
	if err != nil {
		return err
	}
	defer stop()
	locker, err := lock.New(client, &lock.Options{NoRenew: true})
	if err != nil {
		return err
	}
	defer locker.Close()
	s := server{locker}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /lock/acquire", s.acquire)
	mux.HandleFunc("POST /lock/release", s.release)
	mux.HandleFunc("GET /lock/status/{resource...}", s.status)
	return app.Serve(ctx, out, "lock", app.Getenv("ADDR", "127.0.0.1:8084"), mux)
}

type server struct{ locker *lock.Locker }

func (s server) acquire(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Resource string `json:"resource"`
	}
	if !app.Decode(w, r, &in) {
		return
	}
	lease, err := s.locker.Mutex(in.Resource).TryLock(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	ttl, err := lease.TTL(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	app.Reply(w, http.StatusOK, struct {
		Owner string `json:"owner"`
		Fence int64  `json:"fence"`
		TTL   int64  `json:"ttl_ms"`
	}{lease.Token(), lease.Fence(), ttl.Milliseconds()})
}

// release needs no lease of this process: whoever knows the owner's token can take the lease over, and end it.
func (s server) release(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Resource string `json:"resource"`
		Owner    string `json:"owner"`
	}
	if !app.Decode(w, r, &in) {
		return
	}
	if in.Owner == "" {
		app.Fail(w, http.StatusBadRequest, "owner must not be empty")
		return
	}
	mutex := s.locker.Mutex(in.Resource)
	lease, err := mutex.Adopt(r.Context(), in.Owner)
	if err == nil {
		err = lease.Release(r.Context())
	}
	switch {
	case errors.Is(err, lock.ErrLost):
		status, err := mutex.Status(r.Context())
		switch {
		case err != nil:
			fail(w, err)
		case status.Held:
			app.Fail(w, http.StatusForbidden, "another owner holds it")
		default:
			app.Fail(w, http.StatusConflict, "nobody holds it")
		}
	case err != nil:
		fail(w, err)
	default:
		app.Reply(w, http.StatusOK, struct {
			Released bool `json:"released"`
		}{true})
	}
}

func (s server) status(w http.ResponseWriter, r *http.Request) {
	status, err := s.locker.Mutex(r.PathValue("resource")).Status(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	app.Reply(w, http.StatusOK, struct {
		Held  bool   `json:"held"`
		Owner string `json:"owner"`
		TTL   int64  `json:"ttl_ms"`
	}{status.Held, status.Owner, status.TTL.Milliseconds()})
}

func fail(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, lock.ErrInvalidName):
		app.Fail(w, http.StatusBadRequest, err.Error())
	case errors.Is(err, lock.ErrNotAcquired):
		app.Fail(w, http.StatusConflict, "it is held")
	default:
		app.Unavailable(w, err)
	}
}
