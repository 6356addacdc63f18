package ratelimit

import (
	"context"
	"fmt"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/rediskey"
)

// Limiter decides whether an id may do something now; the constructor chooses the algorithm. Safe for concurrent use.
type Limiter struct {
	algorithm algorithm
	limit     Limit
}

// algorithm keeps the counts of ids in Redis. What it is given has been checked.
type algorithm interface {
	// take counts n events, all or nothing; 0 looks whether one more would pass, and changes nothing.
	take(ctx context.Context, id string, limit Limit, n int64) (Result, error)
	reset(ctx context.Context, id string) error
	// most is the greatest cost that can ever pass.
	most(limit Limit) int64
}

// keys is what every algorithm needs: where it writes, and what it puts before an id.
type keys struct {
	client redispatterns.Client
	prefix string
}

func newKeys(client redispatterns.Client, opts *Options) (keys, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return keys{}, err
	}
	if client == nil {
		return keys{}, errNoClient
	}
	return keys{client: client, prefix: o.Prefix}, nil
}

// Allow says whether one event of id may happen now, and counts it if so. When Redis cannot answer there is an error that
// matches [ErrUnavailable], and no decision.
func (l *Limiter) Allow(ctx context.Context, id string) (Result, error) {
	return l.AllowN(ctx, id, 1)
}

// AllowN is Allow for a cost of n, at least 1: all or nothing, and what is denied is not counted. A cost above the limit
// is ErrCost.
func (l *Limiter) AllowN(ctx context.Context, id string, n int64) (Result, error) {
	if n < 1 {
		return Result{}, fmt.Errorf("ratelimit: allow %.64q: n is %d, must be at least 1", id, n)
	}
	return l.decide(ctx, "allow", id, n)
}

// Peek says what Allow would say, and counts nothing. It creates no key.
func (l *Limiter) Peek(ctx context.Context, id string) (Result, error) {
	return l.decide(ctx, "peek", id, 0)
}

// Reset forgets what id has taken. A sliding window forgets all of it, a fixed one the window of now.
func (l *Limiter) Reset(ctx context.Context, id string) error {
	err := l.usable(ctx, id)
	if err == nil {
		if err = l.algorithm.reset(ctx, id); err != nil {
			err = unavailable(err)
		}
	}
	if err != nil {
		return fmt.Errorf("ratelimit: reset %.64q: %w", id, err)
	}
	return nil
}

func (l *Limiter) decide(ctx context.Context, op, id string, n int64) (Result, error) {
	r, err := l.ask(ctx, id, n)
	if err != nil {
		return Result{}, fmt.Errorf("ratelimit: %s %.64q: %w", op, id, err)
	}
	return r, nil
}

func (l *Limiter) ask(ctx context.Context, id string, n int64) (Result, error) {
	if err := l.usable(ctx, id); err != nil {
		return Result{}, err
	}
	if most := l.algorithm.most(l.limit); n > most {
		return Result{}, fmt.Errorf("%w: %d, at most %d can pass", ErrCost, n, most)
	}
	r, err := l.algorithm.take(ctx, id, l.limit, n)
	if err != nil {
		return Result{}, unavailable(err)
	}
	return r, nil
}

// usable is all that can be refused before anything is sent.
func (l *Limiter) usable(ctx context.Context, id string) error {
	if l == nil || l.algorithm == nil {
		return errNoLimiter
	}
	if err := checkID(id); err != nil {
		return err
	}
	return ctx.Err()
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
