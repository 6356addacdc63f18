package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redispatterns/redispatterns/lock"
)

const (
	leaseTTL = 2 * time.Second
	permits  = 3
	writer   = 1000 // the weight of a writer, among readers
)

// capacity is how much of a lock may be held at once.
func capacity(name string) int {
	switch kind, _, _ := strings.Cut(name, ":"); kind {
	case "semaphore":
		return permits
	case "rwmutex":
		return writer
	}
	return 1
}

// locks takes locks and holds them, mostly for a moment, sometimes beyond a renewal.
func (w *worker) locks(ctx context.Context) error {
	locker, err := lock.New(w.client, &lock.Options{TTL: leaseTTL, FenceRetention: fenceRetention})
	if err != nil {
		return err
	}
	take := func(name string, weight int, acquire func(context.Context) (*lock.Lease, error)) {
		wait, cancel := context.WithTimeout(context.Background(), opTimeout)
		defer cancel()
		lease, err := acquire(wait)
		if err != nil {
			var held *lock.HeldError
			if errors.As(err, &held) && w.planted("lock", 2) {
				w.hold(Hold{Name: name, Token: fmt.Sprint(rand.Int64()), Weight: weight, From: now(), To: now() + int64(time.Second)})
			}
			w.failed("lock", err, lock.ErrNotAcquired, lock.ErrLost) // lost: the reply came later than the lease lasts
			return
		}
		w.use(lease, name, weight)
	}
	mutex := func() {
		name := fmt.Sprintf("mutex:%d", rand.IntN(3))
		m := locker.Mutex(name)
		if rand.IntN(4) == 0 {
			take(name, 1, m.TryLock)
		} else {
			take(name, 1, m.Lock)
		}
	}
	rwmutex := func() {
		m := locker.RWMutex("rwmutex:{a}")
		if rand.IntN(3) == 0 {
			take("rwmutex:{a}", writer, m.Lock)
		} else {
			take("rwmutex:{a}", 1, m.RLock)
		}
	}
	semaphore := func() { take("semaphore:a", 1, locker.Semaphore("semaphore:a", permits).Acquire) }
	w.repeat(ctx, 10, mutex, mutex, mutex, rwmutex, rwmutex, semaphore, semaphore)
	return locker.Close()
}

// use holds a lease, writes to what it protects, and releases it.
func (w *worker) use(lease *lock.Lease, name string, weight int) {
	w.did("lock: acquired " + strings.SplitN(name, ":", 2)[0])
	h := Hold{Name: name, Token: lease.Token(), Weight: weight, From: now(), Fence: lease.Fence()}
	until := time.Now().Add(between(0, 30))
	if rand.IntN(50) == 0 {
		until = time.Now().Add(between(0, 3000)) // longer than a lease
	}
	for lost := false; !lost; time.Sleep(between(0, 20)) {
		if h.Fence != 0 {
			var accepted bool
			w.ask("Write", h, &accepted)
			if !accepted && lease.Held() {
				w.violate("lock", "the resource refused a lease that is held: %v", h.owner(w.Index, w.Incarnation))
			}
		}
		h.To = now()
		if lost = !lease.Held(); !lost {
			w.hold(h)
		}
		if time.Now().After(until) {
			break
		}
	}
	release, cancel := context.WithTimeout(context.Background(), opTimeout)
	defer cancel()
	if err := lease.Release(release); err != nil {
		w.failed("lock", err, lock.ErrLost)
	}
}

func (w *worker) hold(h Hold) {
	var ok bool
	w.ask("Hold", h.owner(w.Index, w.Incarnation), &ok)
}
