package lock

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	linger  = 5 * time.Second // of a line, after its last waiter
	maxLine = 10_000          // waiters in a line
)

var errLineFull = fmt.Errorf("%d of this process wait for it already", maxLine)

// line is where the goroutines of this process wait for one lock, first come first served. Only the first of them stands in
// the queue in Redis, so a thousand goroutines are one waiter there. One goroutine does all I/O of a line, which is why a
// waiter can leave at any time, whatever Redis does.
type line struct {
	locker  *Locker
	mutex   *Mutex // of the name; waiters have their own TTL
	channel string
	ear     *ear          // nil: wake-ups do not reach this process, so it polls
	failing time.Time     // since when looks fail, whoever waits; zero: the last did not. Of the goroutine alone
	inbox   chan string   // grants that came during a look; "" after a reconnect, when some may have been missed
	changed chan struct{} // a waiter came, or left

	mu      sync.Mutex
	waiters *list.List // of *waiter
	last    HeldError  // what was last seen
	asked   time.Time  // when the look under way was sent; zero: none is
	trouble error      // of the last look, if it failed
	pausing *waiter    // it has asked, and a grant may come
	terms   terms      // on which
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
	granted  bool          // its outcome is a lease that a release granted
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
	switch {
	case seen != nil:
		q.last = *seen
	case q.waiters.Len() == 0:
		q.last = HeldError{} // what was seen for those who have left is old
	}
	if q.waiters.Len() >= maxLine {
		w.outcome <- outcome{err: w.refused(q.seen(), errLineFull)}
		return true
	}
	w.place = q.waiters.PushBack(w)
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
	return q.seen(), w.attempts, true
}

// seen is what was last seen of the lock. Where Redis does not answer, or has not yet, its Err says why.
func (q *line) seen() HeldError {
	last := q.last
	if last.Err = q.trouble; last.Err == nil && (last.Name == "" || unanswered(q.asked)) {
		last.Err = errNoAnswer
	}
	return last
}

// refused is the error of a waiter that gets no lease.
func (w *waiter) refused(last HeldError, why error) error {
	if last.Err != nil { // whether it is held, nobody knows
		return failed(w.ctx, "acquire", w.mutex.name, last.Err)
	}
	last.Name, last.Err = w.mutex.name, why
	return &last
}

// turnAway gives the waiters behind w its outcome where Redis has failed for their TTL too: each would find that out for
// itself only when its turn comes.
func (q *line) turnAway(w *waiter, err error) {
	failing := time.Since(q.failing)
	q.mu.Lock()
	defer q.mu.Unlock()
	for place := q.waiters.Front(); place != nil; {
		other := place.Value.(*waiter)
		place = place.Next()
		if other != w && failing > other.mutex.ttl {
			q.waiters.Remove(other.place)
			other.place = nil
			other.outcome <- outcome{err: failed(other.ctx, "acquire", other.mutex.name, err)}
		}
	}
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
		q.failing = time.Time{} // of those who have left
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
	if message != "" && q.grant(message) {
		return
	}
	select {
	case q.inbox <- message:
	default:
	}
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
	return nil, attempts, w.refused(held, ended(ctx))
}
