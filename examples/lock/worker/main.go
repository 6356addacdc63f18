// Worker competes with others of its kind for one lock: it tries once, waits its turn where another holds it, and then
// holds and renews it until it is told to stop. Killed, it releases nothing, and the lease's end frees the lock.
//
//	WORKER_NAME=worker-a REDIS_ADDR=localhost:6379 go run ./examples/lock/worker
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

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
	locker, err := lock.New(client, &lock.Options{TTL: 5 * time.Second})
	if err != nil {
		return err
	}
	defer locker.Close()
	name := app.Getenv("WORKER_NAME", "worker")
	mutex := locker.Mutex(app.Getenv("RESOURCE", "order:12345"))

	began := time.Now()
	lease, err := mutex.TryLock(ctx)
	if errors.Is(err, lock.ErrNotAcquired) {
		fmt.Fprintf(out, "%s is refused, and waits\n", name)
		lease, err = mutex.Lock(ctx)
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		fmt.Fprintf(out, "%s waits no more\n", name)
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s holds %s after %v, fence %d\n", name, lease.Name(), time.Since(began).Round(time.Millisecond), lease.Fence())

	held := lease.Context(ctx)
	<-held.Done()
	if cause := context.Cause(held); errors.Is(cause, lock.ErrLost) {
		return fmt.Errorf("%s: %w", name, cause)
	}
	if err := lease.Release(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s releases %s\n", name, lease.Name())
	return nil
}
