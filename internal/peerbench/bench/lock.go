package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

const (
	lockTTL  = 8 * time.Second
	lockWait = 5 * time.Second // a free lock that is not had by then is an error: a contender may stall for ever
)

func (r *Run) lock() error {
	for _, c := range r.Workers {
		if err := r.lockUncontended(c); err != nil {
			return err
		}
	}
	for _, m := range []handoffMode{
		{title: "lock/handoff, 8 waiters, a client each; the releaser steps out until another has the lock", stepOut: true},
		{title: "lock/handoff, 8 waiters in one process with one shared client; the releaser steps out", stepOut: true, shared: true},
		{title: "lock/barging, 8 waiters, a client each; the releaser asks again at once"},
	} {
		if m.shared && r.Short {
			continue
		}
		if err := r.lockHandoff(m); err != nil {
			return err
		}
	}
	return nil
}

func (r *Run) lockUncontended(workers int) error {
	contender := 0 // each has keys of its own: a release may go on in the background
	return table(r, "lock/uncontended: acquire and release a fresh key", workers, UncontendedLocks, func(c Contender[LockConfig, Locker]) (work, error) {
		l, err := c.New(LockConfig{Conn: r.conn(workers), TTL: lockTTL})
		if err != nil {
			return work{}, err
		}
		contender++
		prefix, serial := fmt.Sprintf("job:%02d:", contender), 0
		var keys [][]string
		ctx, cancel := make([]context.Context, workers), make([]func(), workers) // one each, so that nobody waits for another's
		end := func() {
			for _, c := range cancel {
				if c != nil {
					c()
				}
			}
		}
		return work{
			prepare: func(ops int) error {
				end()
				keys = make([][]string, workers)
				for g := range keys {
					ctx[g], cancel[g] = context.WithTimeout(context.Background(), lockWait)
					for range ops / workers {
						serial++
						keys[g] = append(keys[g], prefix+strconv.Itoa(serial))
					}
				}
				return nil
			},
			op: func(g, i int) error {
				h, err := l.Lock(ctx[g], keys[g][i])
				if err != nil {
					return err
				}
				return h.Unlock(ctx[g])
			},
			close: func() error {
				end()
				return l.Close()
			},
		}, nil
	})
}
