package ratelimit

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/script"
)

//go:embed tokenbucket.lua
var tokenBucketSource string

var (
	tokenBucketScript = script.New(tokenBucketSource)
	tokenBucketOnce   = tokenBucketScript.Once()
)

// NewTokenBucket limits events to limit.Burst at once and limit.Events per limit.Per in the long run: a bucket that holds
// Burst tokens is filled evenly, one every Per/Events. It is the smoothest algorithm: nothing comes back all at once. In one
// Per it lets up to Burst + Events through. The algorithm is GCRA, the generic cell rate algorithm of ATM networks.
//
// A request whose reply is lost is not sent again, since it might count twice: its error is [ErrUnknown].
func NewTokenBucket(client redispatterns.Client, limit Limit, opts *Options) (*Limiter, error) {
	r, err := newRate(limit)
	if err != nil {
		return nil, err
	}
	return newLimiter(client, one(limit), opts, func(k keys) algorithm { return &tokenBucket{keys: k, rate: r} })
}

type tokenBucket struct {
	keys
	rate rate
}

func (b *tokenBucket) check(_ int, limit Limit) error {
	_, err := newRate(limit)
	return err
}

func (b *tokenBucket) most(_ int, limit Limit) int64 { return limit.burst() }

func (b *tokenBucket) take(ctx context.Context, id string, limits []Limit, n int64) (Result, error) {
	key, r := b.key(id), b.rate.of(limits[0])
	debt, err := sent(tokenBucketScript, tokenBucketOnce, n).Int(ctx, b.client, []string{key}, r.cost(n), r.args[1], r.args[2])
	if err != nil {
		return Result{}, keyed(key, err)
	}
	counted := debt >= 0
	if !counted {
		debt = -1 - debt
	}
	result := decided(r.standing(wanted(n, counted), debt), n, counted)
	if counted {
		result.taken = &taken{}
	}
	return result, nil
}

func (b *tokenBucket) refund(ctx context.Context, t *taken) error {
	key, r := b.key(t.id), b.rate.of(t.limits[0])
	_, err := tokenBucketOnce.Int(ctx, b.client, []string{key}, r.cost(-t.n), r.args[1], r.args[2])
	return keyed(key, err)
}

func (b *tokenBucket) reset(ctx context.Context, id string, _ []Limit) error {
	return b.del(ctx, b.key(id), "string")
}

func (b *tokenBucket) key(id string) string { return b.prefix + id + "~b" }

// rate is a limit as a bucket counts: a token costs a/b microseconds.
type rate struct {
	limit       Limit
	a, b, empty int64  // empty is the debt of an empty bucket, in units of 1/b microseconds
	args        [3]any // a, b and empty, boxed once
}

// newRate is exact: a/b is Per/Events in lowest terms. Only where an empty bucket's debt could then not be counted exactly,
// a token's cost is rounded up to a whole microsecond.
func newRate(limit Limit) (rate, error) {
	if err := limit.checkEvents(); err != nil {
		return rate{}, err
	}
	if limit.Burst < 0 || limit.Burst > maxEvents {
		return rate{}, fmt.Errorf("%w: Burst is %d, must be 1 to %d, or 0 for Events", ErrInvalidLimit, limit.Burst, int64(maxEvents))
	}
	us := limit.Per.Microseconds()
	g := gcd(us, limit.Events)
	r := rate{limit: limit, a: us / g, b: limit.Events / g}
	if r.a > maxEvents/limit.burst() {
		r.a, r.b = (us+limit.Events-1)/limit.Events, 1
	}
	if r.a > maxEvents/limit.burst() {
		return rate{}, fmt.Errorf("%w: a bucket of %d takes over %v to fill", ErrInvalidLimit, limit.burst(), time.Duration(maxEvents)*time.Microsecond)
	}
	r.empty = r.a * limit.burst()
	r.args = [3]any{r.a, r.b, r.empty}
	return r, nil
}

// of is the rate of limit, which has been checked.
func (r rate) of(limit Limit) rate {
	if limit != r.limit {
		r, _ = newRate(limit)
	}
	return r
}

// cost is what n tokens cost, boxed.
func (r rate) cost(n int64) any {
	if n == 1 {
		return r.args[0]
	}
	return n * r.a
}

// standing is what a debt means for who wants n more; 0: has got them.
func (r rate) standing(n, debt int64) RuleResult {
	var retry time.Duration
	if lacking := debt + n*r.a - r.empty; n > 0 && lacking > 0 {
		retry = r.duration(lacking)
	}
	used := (debt + r.a - 1) / r.a // a token that is partly there is not there
	return standing(r.limit, used, retry, r.duration(debt))
}

// duration is how long a debt takes to pay, rounded up.
func (r rate) duration(debt int64) time.Duration {
	return time.Duration((debt+r.b-1)/r.b) * time.Microsecond
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
