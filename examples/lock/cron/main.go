// Cron runs a job once a minute, however many replicas of it there are and whatever their clocks say, as long as these are
// less than 50 seconds apart: the replica whose minute begins first gets the lock, and leaves it behind until shortly before
// the next.
//
//	REPLICA=a REDIS_ADDR=localhost:6379 go run ./examples/lock/cron
//
// CLOCK_OFFSET sets the replica's clock wrong, and EVERY another period than a minute, so that one can watch.
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
	every, err := time.ParseDuration(app.Getenv("EVERY", "1m"))
	if err != nil {
		return err
	}
	offset, err := time.ParseDuration(app.Getenv("CLOCK_OFFSET", "0s"))
	if err != nil {
		return err
	}
	client, stop, err := app.Redis(ctx)
	if err != nil {
		return err
	}
	defer stop()
	locker, err := lock.New(client, nil)
	if err != nil {
		return err
	}
	defer locker.Close()
	replica, mutex := app.Getenv("REPLICA", "replica"), locker.Mutex("cron:report")

	clock := func() time.Time { return time.Now().Add(offset) } // what this replica takes for the time
	for {
		next := clock().Truncate(every).Add(every)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(next.Sub(clock())):
		}
		began := time.Now()
		lease, err := mutex.TryLock(ctx)
		switch {
		case errors.Is(err, lock.ErrNotAcquired):
			fmt.Fprintf(out, "%s does nothing: another has run the job\n", replica)
			continue
		case err != nil: // nobody knows whether another has: rather no run than two
			fmt.Fprintf(out, "%s does nothing: %v\n", replica, err)
			continue
		}
		fmt.Fprintf(out, "%s runs the job, fence %d\n", replica, lease.Fence())
		report(lease.Context(ctx), lease.Fence())

		// The lock stays taken, without a holder, past the moments at which the others try, and no longer than to the next run.
		if err := leave(ctx, lease, time.Until(began.Add(every*5/6))); err != nil {
			fmt.Fprintf(out, "%s: %v\n", replica, err)
		}
	}
}

func leave(ctx context.Context, lease *lock.Lease, left time.Duration) error {
	if left < time.Millisecond { // the job took all of its time
		return lease.Release(ctx)
	}
	return lease.Leave(ctx, left)
}

// report is the job. It ends with its context, when the lease is lost, and its writes carry the fence.
func report(context.Context, int64) {}
