package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/script"
)

// FailurePolicy says what a decision is when Redis cannot answer.
type FailurePolicy uint8

const (
	FailWithError FailurePolicy = iota // no decision: an error that matches ErrUnavailable
	FailOpen                           // allow, Result.Reason == ReasonUnavailable
	FailClosed                         // deny, Result.Reason == ReasonUnavailable
)

const (
	defaultTimeout = 500 * time.Millisecond
	maxParked      = 64                     // calls that were given up and still wait for Redis; then none is begun
	manyFailures   = 5                      // in a row, and
	quiet          = 100 * time.Millisecond // for so long no answer at all: the circuit opens
	probeEvery     = 200 * time.Millisecond // then one call in so long tries Redis
)

// guard stands between a decision and a Redis that does not answer.
type guard struct {
	timeout time.Duration // negative: as long as the client takes
	obeys   bool          // the client ends a call with its context
	base    time.Time
	alarms  sync.Pool
	parked  atomic.Int64

	failures atomic.Int64           // since the last answer
	answered atomic.Int64           // when that was: nanoseconds since base
	probe    atomic.Int64           // when Redis may be tried again, while the circuit is open; 0: it is closed
	cause    atomic.Pointer[string] // what the last failure was
}

func newGuard(timeout time.Duration, client redispatterns.Client) *guard {
	if timeout == 0 {
		timeout = defaultTimeout
	}
	return &guard{timeout: timeout, obeys: ends(client), base: time.Now()}
}

// take asks the algorithm, for as long as the timeout and ctx allow, and not at all while Redis is known not to answer.
func (l *Limiter) take(ctx context.Context, id string, limits []Limit, n int64) (Result, error) {
	g := l.guard
	hasty := isHasty(ctx)
	if err := g.closed(hasty); err != nil {
		return Result{}, err
	}
	var r Result
	var err error
	switch {
	case g.timeout < 0:
		r, err = l.takeNow(ctx, id, limits, n)
	case g.obeys:
		bounded := g.bound(ctx)
		r, err = l.takeNow(bounded, id, limits, n)
		g.release(bounded)
	default:
		r, err = l.takeAside(ctx, id, limits, n)
	}
	g.saw(ctx, err, hasty)
	return r, err
}

// takeNow runs the call.
func (l *Limiter) takeNow(ctx context.Context, id string, limits []Limit, n int64) (Result, error) {
	r, err := l.algorithm.take(ctx, id, limits, n)
	if err != nil {
		err = unavailable(err, n > 0)
	}
	return r, err
}

// bounded is the caller's context with an end of its own: the timeout, or the caller's deadline if that is sooner. That the
// caller gave up meanwhile it does not say, since go-redis would not end a read for it either.
type bounded struct {
	context.Context
	*alarm
}

// alarm closes a channel at a time. One that did not go off is used again: a decision should cost no timer.
type alarm struct {
	at    time.Time
	timer *time.Timer
	done  chan struct{}
}

func (b *bounded) Deadline() (time.Time, bool) { return b.at, true }

func (b *bounded) Done() <-chan struct{} { return b.done }

func (b *bounded) Err() error {
	select {
	case <-b.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func (g *guard) bound(ctx context.Context) *bounded {
	left := g.timeout
	at := time.Now().Add(left)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(at) {
		at, left = deadline, time.Until(deadline)
	}
	a, _ := g.alarms.Get().(*alarm)
	if a == nil {
		a = &alarm{done: make(chan struct{})}
		a.timer = time.AfterFunc(left, func() { close(a.done) })
	} else {
		a.timer.Reset(left)
	}
	a.at = at
	return &bounded{ctx, a}
}

func (g *guard) release(b *bounded) {
	if b.timer.Stop() {
		g.alarms.Put(b.alarm)
	}
}

// ends says whether a client ends a read when its context ends, as go-redis' do not unless they are told to. A copy that is
// told to would not do: it runs none of the client's hooks.
func ends(c redispatterns.Client) bool {
	r, ok := c.(*redis.Client)
	return ok && r != nil && r.Options().ContextTimeoutEnabled
}

// call is a decision under way in a goroutine of its own.
type call struct {
	limiter *Limiter
	id      string
	limits  []Limit
	n       int64

	result Result
	err    error
	done   chan struct{}
	over   atomic.Bool // who sets it first: the call has ended, or the caller has gone
}

func (c *call) run(ctx context.Context) {
	c.result, c.err = c.limiter.takeNow(ctx, c.id, c.limits, c.n)
	if c.over.CompareAndSwap(false, true) {
		close(c.done)
		return
	}
	c.limiter.guard.parked.Add(-1)
}

// leave parks the call, unless it has just ended.
func (c *call) leave() bool {
	c.limiter.guard.parked.Add(1)
	if c.over.CompareAndSwap(false, true) {
		return true
	}
	c.limiter.guard.parked.Add(-1)
	<-c.done
	return false
}

// takeAside runs the call in a goroutine of its own: a client that does not end a read with its context cannot be left
// otherwise. Calls that were left are parked until the client gives them up. Once maxParked are, no call is begun, but those
// under way by then may be parked as well: their callers, too, are promised a decision in time.
func (l *Limiter) takeAside(ctx context.Context, id string, limits []Limit, n int64) (Result, error) {
	g := l.guard
	if g.parked.Load() >= maxParked {
		return Result{}, fmt.Errorf("%w: %d calls wait for Redis", ErrUnavailable, maxParked)
	}
	c := &call{limiter: l, id: id, limits: limits, n: n, done: make(chan struct{})}
	bounded := g.bound(ctx)
	go c.run(bounded)
	var err error
	select {
	case <-c.done:
	case <-bounded.done:
		err = fmt.Errorf("no reply within %v: %w", g.timeout, os.ErrDeadlineExceeded)
		if deadline, ok := ctx.Deadline(); ok && !bounded.at.Before(deadline) {
			err = context.DeadlineExceeded // the caller's own
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil || !c.leave() {
		g.release(bounded)
		return c.result, c.err
	}
	if n == 0 { // a look leaves nothing behind
		return Result{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return Result{}, fmt.Errorf("%w: %w", ErrUnknown, err)
}

// isOver says whether ctx has ended, also where its timer is late to say so.
func isOver(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// isHasty says whether the caller's deadline is so near that a silence until then says nothing of Redis.
func isHasty(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < quiet
}

// closed is an error while the circuit is open and it is not yet time to try.
func (g *guard) closed(hasty bool) error {
	probe := g.probe.Load()
	if probe == 0 {
		return nil
	}
	now, due := int64(time.Since(g.base)), probe
	if hasty { // those with more time learn more, so they go first; but there may be none
		due += int64(probeEvery)
	}
	if now >= due && g.probe.CompareAndSwap(probe, now+int64(probeEvery)) {
		return nil
	}
	return &openError{cause: *g.cause.Load()}
}

// openError is what an open circuit costs: an allocation.
type openError struct{ cause string }

func (e *openError) Error() string {
	return ErrUnavailable.Error() + ": not asked, since it does not answer: " + e.cause
}

func (e *openError) Unwrap() error { return ErrUnavailable }

// saw opens and closes the circuit. Redis has answered where it answered an error: then nobody waits for it.
func (g *guard) saw(ctx context.Context, err error, hasty bool) {
	switch {
	case err == nil || answer(err):
		g.answered.Store(int64(time.Since(g.base)))
		if g.failures.Load() != 0 || g.probe.Load() != 0 { // a failure may open it just after an answer has closed it
			g.failures.Store(0)
			g.probe.Store(0)
		}
	case ctx.Err() == context.Canceled || hasty && isOver(ctx): // the caller's doing
	default:
		now := int64(time.Since(g.base))
		cause := err.Error()
		g.cause.Store(&cause)
		if g.failures.Add(1) >= manyFailures && now-g.answered.Load() >= int64(quiet) {
			g.probe.Store(now + int64(probeEvery))
		}
	}
}

// answer says whether err is what Redis said, or says how quickly it said something.
func answer(err error) bool {
	return script.Replied(err) || errors.Is(err, errNoWindow)
}

// failed is the policy's decision. Whoever has given up himself is told so instead.
func (l *Limiter) failed(ctx context.Context, err error) (Result, error) {
	if ctx.Err() == context.Canceled && !errors.Is(err, context.Canceled) {
		err = fmt.Errorf("%w: %w", err, context.Canceled)
	}
	if ctx.Err() == context.Canceled || l.options.OnFailure == FailWithError {
		return Result{}, err
	}
	r := Result{Limit: l.limits[0].burst(), Reason: ReasonUnavailable}
	if l.options.OnFailure == FailOpen {
		r.Allowed = true
	} else {
		r.RetryAfter = probeEvery
	}
	return r, nil
}

// Event is what [Options.Observe] sees: a decision, or that there is none.
type Event struct {
	Name   string // of the limiter
	ID     string
	Result Result
	Err    error // what was wrong with Redis, also where a FailurePolicy decided
	Took   time.Duration
}
