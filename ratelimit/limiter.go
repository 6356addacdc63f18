package ratelimit

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/rediskey"
	"github.com/redispatterns/redispatterns/internal/script"
)

//go:embed reset.lua
var resetSource string

var resetScript = script.New(resetSource)

// Limiter decides whether an id may do something now; the constructor chooses the algorithm. Safe for concurrent use.
type Limiter struct {
	algorithm algorithm
	options   Options
	rules     []string // their names: of a limiter that is not NewMulti's one, ""
	limits    []Limit  // of each rule
	guard     *guard
	denials   *denials // nil: none are remembered
	lines     lines
}

// algorithm keeps the counts of ids in Redis, for one rule or several. What it is given has been checked.
type algorithm interface {
	// check says whether a limit can be that of a rule.
	check(rule int, limit Limit) error
	// most is the greatest cost that can ever pass a rule.
	most(rule int, limit Limit) int64
	// take counts n events, all or nothing; 0 looks whether one more would pass, and changes nothing.
	take(ctx context.Context, id string, limits []Limit, n int64) (Result, error)
	// refund gives back what was taken, as far as it still counts.
	refund(ctx context.Context, t *taken) error
	reset(ctx context.Context, id string, limits []Limit) error
}

// keys is what every algorithm needs: where it writes, and what it puts before an id.
type keys struct {
	client redispatterns.Client
	prefix string
}

func newLimiter(client redispatterns.Client, rules []Rule, opts *Options, build func(keys) algorithm) (*Limiter, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if client == nil {
		return nil, errNoClient
	}
	l := &Limiter{algorithm: build(keys{client: client, prefix: o.Prefix}), options: o, guard: newGuard(o.Timeout, client)}
	if o.DenyCache > 0 {
		l.denials = newDenials(o.DenyCache)
	}
	for i, rule := range rules {
		if err := l.algorithm.check(i, rule.Limit); err != nil {
			if rule.Name != "" {
				err = fmt.Errorf("%w, of rule %q", err, rule.Name)
			}
			return nil, err
		}
		l.rules, l.limits = append(l.rules, rule.Name), append(l.limits, rule.Limit)
	}
	return l, nil
}

// one is the rules of a limiter that has but one.
func one(limit Limit) []Rule { return []Rule{{Limit: limit}} }

// Allow says whether one event of id may happen now, and counts it if so. When Redis cannot answer within
// [Options.Timeout], [Options.OnFailure] decides: by default there is an error that matches [ErrUnavailable], and no decision.
func (l *Limiter) Allow(ctx context.Context, id string) (Result, error) {
	return l.AllowN(ctx, id, 1)
}

// AllowN is Allow for a cost of n, at least 1: all or nothing, and what is denied is not counted. A cost above the limit
// is ErrCost.
func (l *Limiter) AllowN(ctx context.Context, id string, n int64) (Result, error) {
	if n < 1 {
		return Result{}, fmt.Errorf("ratelimit: allow %.64q: n is %d, must be at least 1", id, n)
	}
	r, err := l.decide(ctx, id, n)
	if err != nil {
		return r, fmt.Errorf("ratelimit: allow %.64q: %w", id, err)
	}
	return r, nil
}

// Peek says what Allow would say, and counts nothing. It creates no key.
func (l *Limiter) Peek(ctx context.Context, id string) (Result, error) {
	r, err := l.decide(ctx, id, 0)
	if err != nil {
		return r, fmt.Errorf("ratelimit: peek %.64q: %w", id, err)
	}
	return r, nil
}

// Refund gives back what r took, for an event that did not happen after all: to whom it was taken from and in the window
// that it was taken in, so nothing comes back that would have come back anyhow. But a bucket does not know what became of its
// tokens, nor any counter what was before a Reset: there as many come back as were taken, so refund soon. It gives back once,
// however often it is called; what was denied, or allowed without being counted, it leaves alone. An error that is not
// [ErrUnknown] means that it may be called again.
func (l *Limiter) Refund(ctx context.Context, r Result) error {
	t := r.taken
	if t == nil {
		return nil
	}
	if t.by != l {
		return errForeign
	}
	err := ctx.Err()
	if err == nil && t.refunded.CompareAndSwap(false, true) {
		err = l.algorithm.refund(ctx, t)
		l.forget(t.id)
		if err != nil {
			err = unavailable(err, false)
			if !errors.Is(err, ErrUnknown) {
				t.refunded.Store(false)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("ratelimit: refund %.64q: %w", t.id, err)
	}
	return nil
}

// Reset forgets what id has taken; of a fixed window, what it has taken in the window of now. A key of a type that the
// limiter does not write is an error that names it, and is left alone.
func (l *Limiter) Reset(ctx context.Context, id string) error {
	limits, err := l.limitsOf(ctx, id)
	if err == nil {
		err = l.algorithm.reset(ctx, id, limits)
		l.forget(id)
		if err != nil {
			err = unavailable(err, false)
		}
	}
	if err != nil {
		return fmt.Errorf("ratelimit: reset %.64q: %w", id, err)
	}
	return nil
}

// forget forgets what this process remembers of id.
func (l *Limiter) forget(id string) {
	if l.denials != nil {
		l.denials.forget(id)
	}
}

// decide decides, and lets it be observed: all but looks that succeed.
func (l *Limiter) decide(ctx context.Context, id string, n int64) (Result, error) {
	limits, err := l.admissible(ctx, id, n)
	if err != nil {
		return Result{}, err
	}
	if l.options.Observe == nil {
		r, _, err := l.ask(ctx, id, limits, n)
		return r, err
	}
	began := time.Now()
	r, failure, err := l.ask(ctx, id, limits, n)
	if n > 0 || failure != nil {
		l.options.Observe(ctx, Event{Name: l.options.Name, ID: id, Result: r, Err: failure, Took: time.Since(began)})
	}
	return r, err
}

// ask finds the cheapest answer that is right.
func (l *Limiter) ask(ctx context.Context, id string, limits []Limit, n int64) (r Result, failure, err error) {
	if len(limits) == 1 && limits[0] == Unlimited {
		return decided(unlimited, 0, true), nil, nil
	}
	if l.denials == nil || n == 0 {
		return l.askRedis(ctx, id, limits, n)
	}
	r, known, turn, waited, failure := l.denials.recall(ctx, id, limits, n)
	switch {
	case known:
		return r, nil, nil
	case failure != nil:
		r, err = l.failed(ctx, failure)
		return r, failure, err
	case turn != nil:
		defer func() {
			shared := failure
			if isOver(ctx) { // that concerns nobody else
				shared = nil
			}
			l.denials.end(turn, shared)
		}()
	case waited > 0 && l.guard.timeout > 0: // it is part of the decision
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.guard.timeout-waited)
		defer cancel()
	}
	epoch := l.denials.epoch(id).Load()
	r, failure, err = l.askRedis(ctx, id, limits, n)
	if failure == nil && !r.Allowed {
		l.denials.remember(id, limits, n, r, epoch)
	}
	return r, failure, err
}

// askRedis asks. A failure of Redis is told apart from the error that the policy makes of it.
func (l *Limiter) askRedis(ctx context.Context, id string, limits []Limit, n int64) (r Result, failure, err error) {
	r, failure = l.take(ctx, id, limits, n)
	if failure != nil {
		r, err = l.failed(ctx, failure)
		return r, failure, err
	}
	if t := r.taken; t != nil {
		t.by, t.id, t.limits, t.n = l, id, limits, n
	}
	return r, nil, nil
}

// admissible is what holds for id, after all that can be refused before anything is sent.
func (l *Limiter) admissible(ctx context.Context, id string, n int64) ([]Limit, error) {
	limits, err := l.limitsOf(ctx, id)
	if err != nil {
		return nil, err
	}
	for i, limit := range limits {
		if limit == Unlimited {
			continue
		}
		if most := l.algorithm.most(i, limit); n > most {
			return nil, fmt.Errorf("%w: %d, at most %d can pass", ErrCost, n, most)
		}
	}
	return limits, nil
}

// limitsOf is one limit for each rule.
func (l *Limiter) limitsOf(ctx context.Context, id string) ([]Limit, error) {
	if l == nil || l.algorithm == nil {
		return nil, errNoLimiter
	}
	if err := checkID(id); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil || l.options.LimitFor == nil {
		return l.limits, err
	}
	limits := make([]Limit, len(l.limits))
	for i, rule := range l.rules {
		limit, err := l.options.LimitFor(ctx, id, rule)
		switch {
		case err != nil:
			return nil, fmt.Errorf("LimitFor: %w", err)
		case limit == Limit{}:
			limit = l.limits[i]
		case limit != Unlimited:
			if err := l.algorithm.check(i, limit); err != nil {
				return nil, fmt.Errorf("LimitFor: %w", err)
			}
		}
		limits[i] = limit
	}
	return limits, nil
}

const maxID = 512

// checkID refuses ids with which two limiters of one prefix could meet in a key.
func checkID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%w: it is empty", ErrInvalidID)
	case len(id) > maxID:
		return fmt.Errorf("%w: it has %d bytes, at most %d may be", ErrInvalidID, len(id), maxID)
	case rediskey.ReservedSuffix(id):
		return fmt.Errorf("%w: it ends in ~ and lower-case letters or digits, as keys of other limiters do", ErrInvalidID)
	case endsInLabel(id):
		return fmt.Errorf("%w: it ends like the label of a fixed window", ErrInvalidID)
	}
	return nil
}

// del deletes a key of a type. One of another type is not a limiter's, and an error.
func (k keys) del(ctx context.Context, key, kind string) error {
	_, err := resetScript.Int(ctx, k.client, []string{key}, kind)
	return keyed(key, err)
}

// keyed names the key in what came of asking Redis.
func keyed(key string, err error) error {
	if err != nil {
		return fmt.Errorf("key %q: %w", key, err)
	}
	return nil
}

// sent is how a script is sent that looks, with n = 0, or counts: what counts must not be repeated.
func sent(s *script.Script, once *script.Script, n int64) *script.Script {
	if n == 0 {
		return s
	}
	return once
}
