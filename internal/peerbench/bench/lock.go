package bench

import (
	"context"
	"strconv"
	"time"
)

const lockTTL = 8 * time.Second

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
	return table(r, "lock/uncontended: acquire and release a fresh key", workers, UncontendedLocks, func(c Contender[LockConfig, Locker]) (work, error) {
		l, err := c.New(LockConfig{Conn: r.conn(workers), TTL: lockTTL})
		if err != nil {
			return work{}, err
		}
		ctx := context.Background()
		serial := 0
		var keys [][]string
		return work{
			prepare: func(ops int) error {
				keys = make([][]string, workers)
				for g := range keys {
					for range ops / workers {
						serial++
						keys[g] = append(keys[g], "job:"+strconv.Itoa(serial))
					}
				}
				return nil
			},
			op: func(g, i int) error {
				h, err := l.Lock(ctx, keys[g][i])
				if err != nil {
					return err
				}
				return h.Unlock(ctx)
			},
			close: l.Close,
		}, nil
	})
}
