package lock

import (
	"cmp"
	"container/list"
	"context"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/redispatterns/redispatterns/internal/script"
)

//go:embed wait.lua
var waitSource string

var waitScript = script.New(waitSource)

const (
	maxGrant = 2 * time.Second        // how long a release gives the lock to a waiter, who makes a lease of it
	minGrant = 100 * time.Millisecond // also where the lease is shorter
	minLook  = 50 * time.Millisecond  // between two looks of a waiter
	linger   = 5 * time.Second        // of a line, after its last waiter
	ackBound = time.Second            // how long a line waits for its subscription
)

// line is where the goroutines of this process wait for one lock, first come first served. Only the first of them stands in
// the queue in Redis, so a thousand goroutines are one waiter there. One goroutine does all I/O of a line, which is why a
// waiter can leave at any time, whatever Redis does.
type line struct {
	locker  *Locker
	mutex   *Mutex // of the name; waiters have their own TTL
	channel string
	ear     *ear          // nil: wake-ups do not reach this process, so it polls
	inbox   chan string   // grants; "" after a reconnect, when some may have been missed
	changed chan struct{} // a waiter came, or left

	mu      sync.Mutex
	waiters *list.List // of *waiter
	last    HeldError  // what was last seen
	ended   bool
}

// waiter is one call of Lock.
type waiter struct {
	ctx      context.Context
	mutex    *Mutex
	token    string
	answered bool // Redis answered before, so an error is ridden out
	attempts int
	place    *list.Element // nil: it got its outcome, or left
	outcome  chan outcome
}

type outcome struct {
	lease *Lease
	err   error
}

// lineOf is the line for the lock, if there is one.
func (l *Locker) lineOf(m *Mutex) *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines[m.key]
}

// join puts w into the line for its lock, and opens one if there is none.
func (l *Locker) join(w *waiter, seen *HeldError) (*line, error) {
	for {
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			return nil, ErrClosed
		}
		q := l.lines[w.mutex.key]
		if q == nil {
			q = &line{
				locker: l, mutex: w.mutex, channel: w.mutex.queue + ":" + l.process,
				inbox: make(chan string, 16), changed: make(chan struct{}, 1), waiters: list.New(),
			}
			l.lines[w.mutex.key] = q
			l.background.Go(q.run)
		}
		l.mu.Unlock()
		if q.add(w, seen) {
			return q, nil
		}
	}
}

// add is false when the line has just ended.
func (q *line) add(w *waiter, seen *HeldError) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return false
	}
	if q.waiters.Len() > 0 {
		w.answered = true
	}
	w.place = q.waiters.PushBack(w)
	if seen != nil {
		q.last = *seen
	}
	q.nudge()
	return true
}

func (q *line) nudge() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

// leave takes w out of the line, unless it has its outcome already.
func (q *line) leave(w *waiter) (last HeldError, attempts int, left bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.place == nil {
		return q.last, 0, false
	}
	q.waiters.Remove(w.place)
	w.place = nil
	q.nudge()
	return q.last, w.attempts, true
}

// waiting says whether w still waits.
func (q *line) waiting(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return w.place != nil
}

// finish gives w its outcome; false when it has left.
func (q *line) finish(w *waiter, o outcome) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.place == nil {
		return false
	}
	q.waiters.Remove(w.place)
	w.place = nil
	w.outcome <- o
	return true
}

// head is the first waiter; nil ends the line: some time after the last waiter, and when the Locker is closed.
func (q *line) head() *waiter {
	timer := time.NewTimer(linger)
	defer timer.Stop()
	for {
		q.mu.Lock()
		first := q.waiters.Front()
		q.mu.Unlock()
		if q.locker.closing.Err() != nil {
			q.end(true)
			return nil
		}
		if first != nil {
			return first.Value.(*waiter)
		}
		select {
		case <-q.changed:
		case <-q.inbox: // for somebody who has left
		case <-q.locker.closing.Done():
		case <-timer.C:
			if q.end(false) {
				return nil
			}
			timer.Reset(linger)
		}
	}
}

// end closes the line, and turns its waiters away; without force only if there are none.
func (q *line) end(force bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiters.Len() > 0 && !force {
		return false
	}
	q.ended = true
	for first := q.waiters.Front(); first != nil; first = q.waiters.Front() {
		w := q.waiters.Remove(first).(*waiter)
		w.place = nil
		w.outcome <- outcome{err: failed(w.ctx, "acquire", w.mutex.name, ErrClosed)}
	}
	q.locker.mu.Lock()
	delete(q.locker.lines, q.mutex.key)
	q.locker.mu.Unlock()
	return true
}

// hint passes on what was heard. Where there is no room, it is lost as messages can be: the next look tells.
func (q *line) hint(message string) {
	select {
	case q.inbox <- message:
	default:
	}
}

func (q *line) run() {
	q.ear = q.locker.hub.listen(q)
	defer q.ear.remove(q)
	if q.ear != nil {
		select {
		case <-q.inbox: // the subscription is confirmed: what a release sends from now on comes here
		case <-time.After(ackBound):
		case <-q.locker.closing.Done():
		}
	}
	for w := q.head(); w != nil; w = q.head() {
		lease, err := q.serve(w)
		if !q.finish(w, outcome{lease, err}) && lease != nil {
			_ = lease.Release(w.ctx) // it came too late
		}
	}
}

// serve gets the lock for w. It returns nothing when w has left.
func (q *line) serve(w *waiter) (*Lease, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.ctx))
	defer cancel()
	defer context.AfterFunc(q.locker.closing, cancel)()

	grant := min(max(w.mutex.ttl, minGrant), maxGrant)
	member := w.token + fmt.Sprintf("%05d", grant.Milliseconds()) + q.locker.process
	refresh := min(grant/2, q.locker.opts.PollInterval)
	var (
		answered time.Time // when the last look that was answered was sent
		fence    int64     // what a grant made after it exceeds
		failing  time.Time // since when there are errors
	)
	for {
		sent := time.Now()
		q.mu.Lock()
		w.attempts++
		q.mu.Unlock()
		lease, held, seen, err := q.look(ctx, w, member, 3*refresh)
		pause := refresh
		switch {
		case lease != nil:
			return lease, nil
		case held != nil:
			answered, fence, failing, w.answered = sent, seen, time.Time{}, true
			if held.TTL > 0 {
				pause = min(pause, max(held.TTL+time.Millisecond, minLook))
			}
			if q.ear.deaf() {
				pause = min(pause, minLook+rand.N(3*minLook))
			}
		default:
			if failing.IsZero() {
				failing = sent
			}
			if !w.answered || time.Since(failing) > w.mutex.ttl {
				w.mutex.cleanup(ctx, w.token, member)
				return nil, err
			}
			pause = min(pause, minLook+rand.N(3*minLook))
		}
		for again := time.After(pause); again != nil; {
			select {
			case message := <-q.inbox:
				if message == "" { // wake-ups may have been missed
					again = nil
				} else if lease := q.granted(w, message, fence, answered, grant); lease != nil {
					return lease, nil
				}
			case <-again:
				again = nil
			case <-q.changed:
			case <-q.locker.closing.Done():
				q.forget(w, member)
				return nil, failed(w.ctx, "acquire", w.mutex.name, ErrClosed)
			}
			if !q.waiting(w) {
				q.forget(w, member)
				return nil, nil
			}
		}
	}
}

// look asks for the lock, and stands in the queue if another has it.
func (q *line) look(ctx context.Context, w *waiter, member string, alive time.Duration) (*Lease, *HeldError, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, max(w.mutex.ttl, time.Second))
	defer cancel()
	if q.ear.deaf() {
		lease, held, err := w.mutex.attempt(ctx, w.token)
		return lease, q.saw(held), 0, err
	}
	m, sent := w.mutex, time.Now()
	reply, err := waitScript.StringsOf(ctx, m.locker.client, script.AnyLength, m.keys(),
		w.token, m.millis, m.locker.retention, member, alive.Milliseconds(), q.channel)
	if err != nil {
		return nil, nil, 0, failed(ctx, "acquire", m.name, err)
	}
	if len(reply) == 3 {
		held, err := m.held(reply)
		fence, fenceErr := strconv.ParseInt(reply[2], 10, 64)
		if err := cmp.Or(err, fenceErr); err != nil {
			return nil, nil, 0, failed(ctx, "acquire", m.name, err)
		}
		return nil, q.saw(held), fence, nil
	}
	lease, err := m.lease(ctx, w.token, w.token, reply, sent)
	if err != nil {
		return nil, nil, 0, failed(ctx, "acquire", m.name, err)
	}
	return lease, nil, 0, nil
}

func (q *line) saw(held *HeldError) *HeldError {
	if held != nil {
		q.mu.Lock()
		q.last = *held
		q.mu.Unlock()
	}
	return held
}

// granted makes a lease of a message that a release sent. The grant counts only if it was made after the last look that was
// answered: its fence tells, since one that is older, and may have lapsed, has none that exceeds what that look saw. So it
// began after that look was sent, from where its time is counted.
func (q *line) granted(w *waiter, message string, seen int64, answered time.Time, grant time.Duration) *Lease {
	if len(message) <= len(w.token) || message[:len(w.token)] != w.token || answered.IsZero() {
		return nil
	}
	fence, err := strconv.ParseInt(message[len(w.token):], 10, 64)
	if err != nil || fence <= seen {
		return nil
	}
	lease := w.mutex.newLease(w.token, w.token, fence)
	lease.granted = true
	if lease.begin(answered, grant) != nil {
		return nil // too late: a look tells
	}
	return lease
}

// forget takes a waiter that has given up out of the queue, and passes on what it was given in that instant.
func (q *line) forget(w *waiter, member string) {
	if q.ear == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), releaseBound)
	defer cancel()
	_, _ = releaseScript.IntOf(ctx, q.locker.client, w.mutex.keys(), w.token, q.locker.retention, member)
}

// wait is Lock after the first attempt was refused, or where others wait already.
func (m *Mutex) wait(ctx context.Context, seen *HeldError) (*Lease, int, error) {
	w := &waiter{ctx: ctx, mutex: m, token: uuid.NewString(), outcome: make(chan outcome, 1)}
	if seen != nil {
		w.answered, w.attempts = true, 1
	}
	q, err := m.locker.join(w, seen)
	if err != nil {
		return nil, w.attempts, failed(ctx, "acquire", m.name, err)
	}
	select {
	case o := <-w.outcome:
		return o.lease, w.attempts, o.err
	case <-ctx.Done():
	}
	held, attempts, left := q.leave(w)
	if !left {
		o := <-w.outcome
		return o.lease, w.attempts, o.err
	}
	held.Name, held.Err = m.name, ended(ctx)
	return nil, attempts, &held
}
