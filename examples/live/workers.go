package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/examples/internal/app"
	"github.com/redispatterns/redispatterns/lock"
)

const (
	resource = "live:order"
	leaseTTL = 3 * time.Second
	workerN  = 4
)

// workers are four workers that compete for one lock, each with a client and a Locker of its own, as processes have.
type workers struct {
	ctx    context.Context // ends when the machine that the workers run on does
	client *redis.Client
	hub    *hub
	watch  *lock.Locker // looks at the lock to show it
	order  order
	all    [workerN]*worker
	group  sync.WaitGroup
}

// newWorkers makes them; ctx is that of their processes.
func newWorkers(ctx context.Context, client *redis.Client, h *hub) (*workers, error) {
	watch, err := lock.New(client, nil)
	if err != nil {
		return nil, err
	}
	w := &workers{ctx: ctx, hub: h, watch: watch, client: client, order: order{hub: h}}
	for i := range w.all {
		w.all[i] = &worker{n: i + 1, workers: w, state: "dead"}
	}
	return w, nil
}

func (w *workers) run(ctx context.Context) error {
	w.order.tell()
	var errs []error
	for _, worker := range w.all {
		errs = append(errs, worker.start())
	}
	w.look(ctx)
	for _, worker := range w.all {
		worker.kill()
	}
	w.group.Wait()
	return errors.Join(append(errs, w.watch.Close())...)
}

// look tells what Redis holds, until ctx ends.
func (w *workers) look(ctx context.Context) {
	type lockSeen struct {
		Key   string `json:"key"`
		Held  bool   `json:"held"`
		Owner string `json:"owner"`
		TTL   int64  `json:"ttl"`
		Fence string `json:"fence"`
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.hub.watched():
		}
		if status, err := w.watch.Mutex(resource).Status(ctx); err == nil {
			seen := lockSeen{Key: "lock:" + resource, Held: status.Held, TTL: status.TTL.Milliseconds(), Fence: strconv.FormatInt(status.Fence, 10)}
			if status.Held {
				seen.Owner = status.Owner[:min(8, len(status.Owner))] + "…" // whoever knows it all can release
			}
			w.hub.state("lock", seen)
		}
		if pause(ctx, 500*time.Millisecond) != nil {
			return
		}
	}
}

func (w *workers) routes(mux *http.ServeMux) {
	for what, do := range map[string]func(*worker) error{
		"kill":   func(o *worker) error { o.kill(); return nil },
		"start":  func(o *worker) error { return o.start() },
		"pause":  func(o *worker) error { o.pause(); return nil },
		"resume": func(o *worker) error { o.resume(); return nil },
	} {
		mux.HandleFunc("POST /api/workers/{n}/"+what, func(rw http.ResponseWriter, r *http.Request) {
			n, err := strconv.Atoi(r.PathValue("n"))
			if err != nil || n < 1 || n > workerN {
				app.Fail(rw, http.StatusNotFound, "there is no such worker")
				return
			}
			done(rw, do(w.all[n-1]))
		})
	}
}

// order is what the lock protects. It lies elsewhere than the lock, and so must check the fence itself: a write with a
// fence that is less than one it has seen comes from a holder that has lost the lock, and is refused.
type order struct {
	hub *hub

	mu      sync.Mutex
	fence   int64
	by      int
	writes  int
	refused int
}

func (o *order) write(by int, fence int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if fence < o.fence {
		o.refused++
		o.tell()
		return false
	}
	o.fence, o.by = fence, by
	o.writes++
	o.tell()
	return true
}

func (o *order) tell() {
	o.hub.state("order", map[string]any{
		"fence": strconv.FormatInt(o.fence, 10), "by": o.by, "writes": o.writes, "refused": o.refused,
	})
}

// worker is one process: it waits for the lock, works under it, and releases it, again and again.
type worker struct {
	n       int
	workers *workers

	mu     sync.Mutex
	gate   *gate
	end    context.CancelFunc
	state  string
	before string // the state that a pause interrupted
	fence  int64
}

// says tells the page what the worker does. A paused one does nothing, until it goes on.
func (o *worker) says(gate *gate, state string, fence int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gate != gate {
		return // of a process that is dead
	}
	o.fence = fence
	if o.state == "paused" && state != "dead" {
		o.before = state
		return
	}
	o.become(state)
}

func (o *worker) become(state string) {
	o.state = state
	fence := ""
	if o.fence != 0 {
		fence = strconv.FormatInt(o.fence, 10)
	}
	lane := map[string]any{"worker": o.n, "state": state, "fence": fence, "at": time.Now().UnixMilli()}
	o.workers.hub.moment("lane", lane)
	o.workers.hub.state("lane"+strconv.Itoa(o.n), lane)
}

func (o *worker) mark(kind string, fence int64) {
	o.workers.hub.moment("mark", map[string]any{
		"worker": o.n, "kind": kind, "fence": strconv.FormatInt(fence, 10), "at": time.Now().UnixMilli(),
	})
}

func (o *worker) start() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state != "dead" || o.workers.ctx.Err() != nil {
		return nil
	}
	gate := newGate()
	client := app.Client(o.workers.client.Options().Addr)
	client.AddHook(gate)
	locker, err := lock.New(client, &lock.Options{TTL: leaseTTL, PollInterval: 200 * time.Millisecond})
	if err != nil {
		_ = client.Close()
		return err
	}
	ctx, end := context.WithCancel(o.workers.ctx)
	o.gate, o.end, o.fence = gate, end, 0
	o.become("idle")
	o.workers.group.Go(func() {
		o.live(ctx, gate, locker.Mutex(resource))
		gate.kill() // nothing more gets out: what it holds lapses at its TTL
		_ = locker.Close()
		_ = client.Close()
	})
	return nil
}

// kill ends the process. It releases nothing.
func (o *worker) kill() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state == "dead" {
		return
	}
	o.gate.kill()
	o.end()
	o.gate = nil
	o.become("dead")
}

// pause stops the process where it is, as a long garbage collection or a machine that sleeps would: it renews nothing, and
// does not know it.
func (o *worker) pause() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gate != nil && o.gate.pause() {
		o.before = o.state
		o.become("paused")
	}
}

func (o *worker) resume() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gate != nil && o.gate.resume() {
		o.become(o.before)
	}
}

// live is the process's main loop. It returns when the process is killed.
func (o *worker) live(ctx context.Context, gate *gate, mutex *lock.Mutex) {
	for {
		o.says(gate, "idle", 0)
		select {
		case <-ctx.Done():
			return
		case <-o.workers.hub.watched(): // while nobody looks, nobody works
		}
		if pause(ctx, time.Duration(600+rand.IntN(1500))*time.Millisecond) != nil || gate.pass(ctx) != nil {
			return
		}
		o.says(gate, "waiting", 0)
		lease, err := mutex.Lock(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil { // Redis cannot answer
			continue
		}
		if o.work(ctx, gate, lease) != nil {
			return
		}
	}
}

// work writes to the order under the lease, for a while.
func (o *worker) work(ctx context.Context, gate *gate, lease *lock.Lease) error {
	fence := lease.Fence()
	o.says(gate, "holding", fence)
	held := lease.Context(ctx)
	until, left := lease.Until(), 4+rand.IntN(4)
	step := time.NewTicker(time.Second / 2)
	defer step.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-step.C:
		}
		// Here the process may stand still for any time, and whatever it knew about its lease may be old when it writes.
		if err := gate.pass(ctx); err != nil {
			return err
		}
		if !o.workers.order.write(o.n, fence) {
			o.mark("refused", fence)
		}
		if errors.Is(context.Cause(held), lock.ErrLost) {
			o.says(gate, "lost", fence)
			return pause(ctx, 2*time.Second)
		}
		if now := lease.Until(); now.After(until) {
			o.mark("renewed", fence)
			until = now
		}
		if left--; left < 0 {
			if err := lease.Release(ctx); errors.Is(err, lock.ErrLost) {
				o.says(gate, "lost", fence)
				return pause(ctx, 2*time.Second)
			}
			return ctx.Err()
		}
	}
}
