package lock

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// renewer keeps the leases of a Locker: one goroutine renews each when a third of it is over, many at a time, and ends those
// that lapse. It does no I/O itself, so nothing that hangs makes it late. The goroutine starts with the first lease. It
// ends when it finds none at the time that it had last set itself, so that a lease that is soon released wakes nobody.
type renewer struct {
	locker *Locker
	wake   chan struct{}

	mu      sync.Mutex
	leases  leaseHeap
	running bool
	next    time.Time // when the goroutine wakes by itself
	closed  bool
}

// renewal is a lease's place with the renewer.
type renewal struct {
	due   time.Time
	place int // in the heap, from 1; 0 is none
}

const (
	renewalBatch    = 100 // leases in a pipeline
	renewalsAtATime = 2   // of one lease, where the first got no reply yet

	extendGrant = 20 * time.Millisecond // after which a grant is extended, if it is still held then
)

func (r *renewer) init(l *Locker) {
	r.locker, r.wake = l, make(chan struct{}, 1)
}

func (r *renewer) add(l *Lease) error {
	due := r.dueOf(l)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.running {
		r.next = due
		r.running = r.locker.run(r.loop)
	}
	if !r.running || r.closed {
		return ErrClosed
	}
	l.renewal.due = due
	heap.Push(&r.leases, l)
	if due.Before(r.next) {
		r.rouse(due)
	}
	return nil
}

func (r *renewer) remove(l *Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.renewal.place > 0 {
		heap.Remove(&r.leases, l.renewal.place-1)
	}
}

// reschedule takes account of a lease's new length.
func (r *renewer) reschedule(l *Lease) { r.move(l, r.dueOf(l)) }

func (r *renewer) move(l *Lease, due time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.renewal.place == 0 {
		return
	}
	l.renewal.due = due
	heap.Fix(&r.leases, l.renewal.place-1)
	if due.Before(r.next) {
		r.rouse(due)
	}
}

func (r *renewer) rouse(next time.Time) {
	r.next = next
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// dueOf is when to look at a lease next: when two thirds are left, a little earlier by chance so that leases that began
// together spread out.
func (r *renewer) dueOf(l *Lease) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.granted:
		return time.Now().Add(min(extendGrant, time.Until(l.until)/3))
	case !r.renews(l):
		return l.until
	}
	return l.until.Add(-l.mutex.ttl * 2 / 3).Add(-rand.N(l.mutex.ttl/15 + 1))
}

// renews says whether a lease is still to be renewed.
func (r *renewer) renews(l *Lease) bool {
	o := &r.locker.opts
	return !o.NoRenew && (o.MaxHold == 0 || time.Since(l.began) < o.MaxHold)
}

func (r *renewer) loop() {
	timer := time.NewTimer(r.pause())
	defer timer.Stop()
	for {
		select {
		case <-r.wake:
			timer.Reset(r.pause())
			continue
		case <-timer.C:
		}
		lapsed, due, more := r.take()
		for _, l := range lapsed {
			l.lapse()
		}
		for _, batch := range r.batches(due) {
			if !r.locker.run(func() { r.renew(batch) }) {
				r.landed(batch)
			}
		}
		if !more {
			return
		}
		timer.Reset(r.pause())
	}
}

// pause is how long there is nothing to do.
func (r *renewer) pause() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.next)
}

// take collects what is due, and with it what will soon be, so that leases are renewed many at a time. It says whether
// there are leases left.
func (r *renewer) take() (lapsed, due []*Lease, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	horizon := now
	for len(r.leases) > 0 && !r.leases[0].renewal.due.After(horizon) {
		l := r.leases[0]
		l.mu.Lock()
		early := l.renewal.due.After(now)
		renew := (l.granted || r.renews(l)) && (l.renewals.n == 0 || !early && l.renewals.n < renewalsAtATime)
		switch {
		case past(l.until):
			lapsed = append(lapsed, l)
			heap.Pop(&r.leases)
		case renew:
			due = append(due, l)
			l.renewals.n++
			l.renewal.due = now.Add(min(l.mutex.ttl/3, l.until.Sub(now)/2) + 1) // the half of a grant, which is shorter than a TTL
			heap.Fix(&r.leases, 0)
			horizon = now.Add(l.mutex.ttl / 15)
		case early:
			horizon = now // it only waits to lapse
		case l.granted || r.renews(l): // as many as may be are under way, or heal nodes of a quorum
			l.renewal.due = now.Add(min(l.mutex.ttl/20+1, l.until.Sub(now)))
			heap.Fix(&r.leases, 0)
		default:
			l.renewal.due = l.until
			heap.Fix(&r.leases, 0)
		}
		l.mu.Unlock()
	}
	if len(r.leases) == 0 {
		r.running = false
		return lapsed, due, false
	}
	r.next = r.leases[0].renewal.due
	return lapsed, due, true
}

// batches divides leases into those that go together in a pipeline. On a cluster these are of neighbouring slots, since a
// pipeline is over when the last of its nodes has answered: one that hangs must not cost the leases of the others.
func (r *renewer) batches(due []*Lease) [][]*Lease {
	parts := make([][]*Lease, max(len(r.locker.hub), 1))
	for _, l := range due {
		n := 0
		if len(parts) > 1 {
			n = r.locker.hub.place(l.mutex.key)
		}
		parts[n] = append(parts[n], l)
	}
	size := renewalBatch
	if r.locker.nodes != nil {
		size = 1 // there is no pipeline over the nodes, and one after the other would be late
	}
	var batches [][]*Lease
	for _, part := range parts {
		batches = slices.AppendSeq(batches, slices.Chunk(part, size))
	}
	return batches
}

// renew extends some leases in one round trip. It gives up when half of what the shortest has left is over, so that what
// others were answered counts, and there is time to try again.
func (r *renewer) renew(batch []*Lease) {
	defer r.landed(batch)
	sent, first := time.Now(), batch[0].Until()
	for _, l := range batch {
		if until := l.Until(); until.Before(first) {
			first = until
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), sent.Add(first.Sub(sent)/2))
	defer cancel()

	rest := batch
	if len(batch) > 1 {
		cmds := make([]*redis.IntCmd, len(batch))
		_, _ = r.locker.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, l := range batch {
				cmds[i] = extendScript.QueueInt(ctx, p, l.mutex.lockKey(), l.member, l.mutex.ttl.Milliseconds())
			}
			return nil
		})
		rest = nil
		for i, l := range batch {
			left, err := cmds[i].Result()
			if redis.HasErrorPrefix(err, "NOSCRIPT") {
				rest = append(rest, l)
				continue
			}
			r.renewed(l, sent, left, ownBound(ctx, err))
		}
	}
	for _, l := range rest {
		sent := time.Now()
		left, err := l.sendExtend(ctx, l.mutex.ttl, false)
		r.renewed(l, sent, left, ownBound(ctx, err))
	}
}

// renewed takes in the outcome of a renewal. After an error there is another one soon, until the lease lapses.
func (r *renewer) renewed(l *Lease, sent time.Time, left int64, err error) {
	if err == nil {
		if l.extended(sent, l.mutex.ttl, left) == nil {
			l.observe(Renewed, nil)
		}
		return
	}
	l.mu.Lock()
	over := l.over
	l.failure = err
	l.mu.Unlock()
	if over {
		return
	}
	l.observe(Renewed, err)
	pause := max(min(l.mutex.ttl/20, time.Second, time.Until(l.Until())/3), time.Millisecond)
	l.mu.Lock()
	again := time.Now().Add(min(pause/2+rand.N(pause+1), time.Until(l.until)))
	l.mu.Unlock()
	r.move(l, again)
}

// landed says that the renewals of these leases are over.
func (r *renewer) landed(batch []*Lease) {
	for _, l := range batch {
		l.landed(&l.renewals)
	}
}

// taken ends the leases of a name whose members ForceUnlock took out of Redis.
func (r *renewer) taken(key string, members []string) {
	var gone []*Lease
	r.mu.Lock()
	for _, l := range r.leases {
		if l.mutex.key == key && slices.Contains(members, l.member.(string)) {
			gone = append(gone, l)
		}
	}
	r.mu.Unlock()
	for _, l := range gone {
		l.taken("it was unlocked by force")
	}
}

// close ends every lease with ErrClosed.
func (r *renewer) close() {
	r.mu.Lock()
	r.closed = true
	leases := r.leases
	r.leases = nil
	for _, l := range leases {
		l.renewal.place = 0
	}
	r.rouse(time.Time{})
	r.mu.Unlock()
	for _, l := range leases {
		l.end(ErrClosed)
	}
}

// leaseHeap has the lease that is due first at its top.
type leaseHeap []*Lease

func (h leaseHeap) Len() int           { return len(h) }
func (h leaseHeap) Less(i, j int) bool { return h[i].renewal.due.Before(h[j].renewal.due) }

func (h leaseHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].renewal.place, h[j].renewal.place = i+1, j+1
}

func (h *leaseHeap) Push(x any) {
	l := x.(*Lease)
	*h = append(*h, l)
	l.renewal.place = len(*h)
}

func (h *leaseHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	l.renewal.place = 0
	return l
}
