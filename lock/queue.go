package lock

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redispatterns/redispatterns/internal/script"
)

//go:embed wait.lua
var waitSource string

var waitScript = script.New(waitSource)

const (
	maxGrant = 2 * time.Second        // how long a release gives the lock to a waiter, who makes a lease of it
	minGrant = 100 * time.Millisecond // also where the lease is shorter
	minLook  = 50 * time.Millisecond  // between two looks of a waiter
	ackBound = time.Second            // how long a line waits for its subscription
)

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
	var known terms // on which a grant counts
	for {
		sent := time.Now()
		if !q.ask(w, sent) {
			q.failing = time.Time{}
			return nil, nil
		}
		lease, held, fence, err := q.look(ctx, w, member, 3*refresh)
		q.told(err)
		pause := refresh - rand.N(refresh/10+1) // so that processes which began together do not go on together
		switch {
		case lease != nil:
			q.failing = time.Time{}
			return lease, nil
		case held != nil:
			if fence > 0 { // it stands in the queue
				known = terms{fence: fence, answered: sent, length: grant}
			}
			q.failing, w.answered = time.Time{}, true
			if held.TTL > 0 {
				pause = min(pause, max(held.TTL+time.Millisecond, minLook))
			}
			if q.ear.deaf() {
				pause = min(pause, minLook+rand.N(3*minLook))
			}
		default:
			if q.failing.IsZero() {
				q.failing = sent
			}
			if !w.answered || time.Since(q.failing) > w.mutex.ttl {
				q.turnAway(w, err)
				if q.locker.open() == nil {
					w.mutex.cleanup(ctx, w.token, member)
				} else { // nothing new runs in the background
					q.forget(w, member)
				}
				return nil, failed(w.ctx, "acquire", w.mutex.name, err)
			}
			pause = min(pause, minLook+rand.N(3*minLook))
		}
		q.pause(w, known)
		for again := time.After(pause); again != nil; {
			select {
			case message := <-q.inbox:
				if message == "" { // wake-ups may have been missed
					again = nil
				} else {
					q.grant(message)
				}
			case <-again:
				again = nil
			case <-q.changed:
			case <-q.locker.closing.Done():
			}
			closing := q.locker.closing.Err() != nil
			waits, granted := q.state(w, closing)
			if granted {
				q.failing = time.Time{}
				return nil, nil
			}
			if closing || !waits {
				q.forget(w, member)
				return nil, failed(w.ctx, "acquire", w.mutex.name, ErrClosed) // where it waits
			}
		}
	}
}

// look asks for the lock, and stands in the queue if another has it. Its error is that of Redis alone: it is told to those who
// wait behind w too, whom the end of w's context does not concern.
func (q *line) look(ctx context.Context, w *waiter, member string, alive time.Duration) (*Lease, *HeldError, int64, error) {
	bounded, cancel := context.WithTimeout(ctx, max(w.mutex.ttl, time.Second))
	defer cancel()
	lease, held, fence, err := q.lookOnce(bounded, w, member, alive)
	switch {
	case err == nil:
		return lease, q.saw(held), fence, nil
	case q.locker.closing.Err() != nil:
		err = ErrClosed
	default:
		err = ownBound(bounded, err)
	}
	return nil, nil, 0, err
}

func (q *line) lookOnce(ctx context.Context, w *waiter, member string, alive time.Duration) (*Lease, *HeldError, int64, error) {
	if q.ear.deaf() {
		lease, held, err := w.mutex.attempt(ctx)
		return lease, held, 0, errors.Unwrap(err)
	}
	m, sent := w.mutex, time.Now()
	reply, err := waitScript.StringsOf(ctx, m.locker.client, script.AnyLength, m.keys(),
		w.token, m.millis, m.locker.retention, member, alive.Milliseconds(), q.channel)
	if err != nil {
		return nil, nil, 0, err
	}
	if len(reply) == 3 {
		held, err := m.held(reply)
		fence, fenceErr := strconv.ParseInt(reply[2], 10, 64)
		return nil, held, fence, cmp.Or(err, fenceErr)
	}
	lease, err := m.lease(w.token, w.token, reply, sent)
	return lease, nil, 0, err
}

func (q *line) saw(held *HeldError) *HeldError {
	if held != nil {
		q.mu.Lock()
		q.last = *held
		q.mu.Unlock()
	}
	return held
}

// terms are what makes a grant count: that its fence exceeds what the last look that was answered saw, so that the grant
// was made after that look was sent, from where its time is counted. One that is older may have lapsed.
type terms struct {
	fence    int64
	answered time.Time
	length   time.Duration
}

// ask says that a look is sent, during which a grant has to wait: the reply may say the same, or that it is over. It is
// false when the waiter has been granted the lock.
func (q *line) ask(w *waiter, sent time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pausing = nil
	if w.granted {
		return false
	}
	w.attempts++
	q.asked = sent
	return true
}

// told says that the look has its outcome.
func (q *line) told(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked, q.trouble = time.Time{}, err
}

// pause says that until the next look the waiter may be granted the lock.
func (q *line) pause(w *waiter, known terms) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !known.answered.IsZero() {
		q.pausing, q.terms = w, known
	}
}

// state says whether w still waits and, if not, whether it was granted the lock. With stop it is not from now on.
func (q *line) state(w *waiter, stop bool) (waits, granted bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if stop {
		q.pausing = nil
	}
	return w.place != nil, w.granted
}

// grant makes a lease of a message that a release sent to the waiter that pauses, and hands it over at once, from whichever
// goroutine heard it.
func (q *line) grant(message string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.pausing
	if w == nil || w.place == nil || len(message) <= len(w.token) || message[:len(w.token)] != w.token {
		return false
	}
	fence, err := strconv.ParseInt(message[len(w.token):], 10, 64)
	if err != nil || fence <= q.terms.fence {
		return false
	}
	lease := w.mutex.newLease(w.token, w.token, fence)
	lease.granted = true
	if lease.begin(q.terms.answered, q.terms.length) != nil {
		return false // too late: a look tells
	}
	q.waiters.Remove(w.place)
	w.place, w.granted, q.pausing = nil, true, nil
	if q.waiters.Len() > 0 {
		q.nudge()
	}
	w.outcome <- outcome{lease: lease}
	return true
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
