package ratelimit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Wait waits until one event of id may happen, and counts it.
func (l *Limiter) Wait(ctx context.Context, id string) (Result, error) {
	return l.WaitN(ctx, id, 1)
}

// WaitN waits until n events of id may happen, and counts them. It returns at once with context.DeadlineExceeded if ctx
// would end before, and with [ErrCost] if n can never pass. The waiters of a process stand in line for an id, first in,
// first out; between processes chance decides, so a larger cost may wait longer. Who waits asks again when RetryAfter has
// passed, and up to a tenth of it later.
//
// When Redis cannot answer, [Options.OnFailure] decides each time it asks: FailWithError ends the wait with that error, FailOpen
// lets it pass, FailClosed goes on waiting, and the error is ctx's.
func (l *Limiter) WaitN(ctx context.Context, id string, n int64) (Result, error) {
	if n < 1 {
		return Result{}, fmt.Errorf("ratelimit: wait %.64q: n is %d, must be at least 1", id, n)
	}
	r, err := l.wait(ctx, id, n)
	if err != nil {
		return r, fmt.Errorf("ratelimit: wait %.64q: %w", id, err)
	}
	return r, nil
}

func (l *Limiter) wait(ctx context.Context, id string, n int64) (Result, error) {
	if _, err := l.admissible(ctx, id, n); err != nil {
		return Result{}, err
	}
	if err := l.lines.join(ctx, id); err != nil {
		return Result{}, err
	}
	defer l.lines.leave(id)
	for {
		r, err := l.decide(ctx, id, n)
		if err != nil || r.Allowed {
			return r, err
		}
		pause := max(r.RetryAfter+rand.N(r.RetryAfter/10+1), r.RetryAfter) // a sum may be too long for a Duration
		if deadline, ok := ctx.Deadline(); ok {
			left := time.Until(deadline)
			if left < r.RetryAfter {
				return r, context.DeadlineExceeded
			}
			pause = min(pause, left)
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return r, ctx.Err()
		}
	}
}

// lines are the waiters of a process, by id: only the first of each asks Redis.
type lines struct {
	mu   sync.Mutex
	byID map[string]*line
}

// line is a place at the head of it, and how many stand in it. Who blocks in a send is served in the order of coming.
type line struct {
	head    chan struct{}
	members int
}

// join returns when the caller is the first in line. He must leave.
func (ls *lines) join(ctx context.Context, id string) error {
	ls.mu.Lock()
	if ls.byID == nil {
		ls.byID = map[string]*line{}
	}
	ln := ls.byID[id]
	if ln == nil {
		ln = &line{head: make(chan struct{}, 1)}
		ls.byID[id] = ln
	}
	ln.members++
	ls.mu.Unlock()
	select {
	case ln.head <- struct{}{}:
		return nil
	case <-ctx.Done():
		ls.away(id, ln)
		return ctx.Err()
	}
}

// leave lets the next one in line be the first.
func (ls *lines) leave(id string) {
	ls.mu.Lock()
	ln := ls.byID[id]
	ls.mu.Unlock()
	<-ln.head
	ls.away(id, ln)
}

func (ls *lines) away(id string, ln *line) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ln.members--; ln.members == 0 {
		delete(ls.byID, id)
	}
}
