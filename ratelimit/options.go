package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Options of a Limiter; nil and zero fields mean the defaults.
type Options struct {
	// Name is part of the limiter's keys, ratelimit:<Name>:<id>, and holds no colon. Give each limiter its own: named limiters
	// without a Prefix never share a key. An unnamed one can: its id "api:user42" is the key of id "user42" of the limiter
	// named "api". Defaults to none.
	Name string
	// Prefix stands before every id. Name is then no part of the keys: limiters with the same Prefix and algorithm share keys,
	// and so do those of which one's Prefix begins with the other's, for certain ids. Defaults to "ratelimit:", or
	// "ratelimit:<Name>:" where Name is set.
	Prefix string
	// LimitFor answers the limit of an id, its plan say: [Unlimited], or the zero Limit where the limiter's own holds. It is
	// asked at every call before anything is sent, of NewMulti's limiter once for each rule by its name, so it must be
	// quick. Its error is returned, wrapped. A limit that changes holds at once. Of a counter or a log what was taken stays
	// taken; a bucket counts in time, and who has used half of it has used half of the new one as well. A fixed window of
	// another length begins anew.
	LimitFor func(ctx context.Context, id, rule string) (Limit, error)
	// Timeout bounds one decision, not Refund or Reset. Defaults to 500 ms; negative leaves it to the client, whose retries can
	// take tens of seconds. A *redis.Client with ContextTimeoutEnabled ends its calls by itself, and is the one to use; a
	// cancelled ctx then shows only when the call ends. With any other client a decision runs in a goroutine, which stays until
	// the client gives up. While 64 such goroutines wait, OnFailure decides at once, so no more than 64 stay and those of the
	// calls that are under way by then. While Redis has been silent for a while OnFailure decides at once too, and one call
	// every 200 ms tries again.
	Timeout time.Duration
	// OnFailure is what a decision is when Redis cannot answer. Defaults to FailWithError.
	OnFailure FailurePolicy
	// DenyCache is how many denials this process remembers, so that a flood costs no round trip: each no longer than its
	// RetryAfter and one second. A Reset or Refund in another process may show so much later. The places, 8 bytes each, are
	// there from the beginning; a denial takes about 300 bytes more. Defaults to 0: none.
	DenyCache int
	// Observe sees every decision and every failure of Redis to give one, Peek's failures too. What is refused before Redis is
	// asked (an id, a cost, LimitFor's error, a ctx that has ended) it does not see, nor Refund and Reset: they return their
	// errors, whatever OnFailure is. It must not block.
	Observe func(ctx context.Context, e Event)
}

func (o *Options) withDefaults() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if strings.Contains(opts.Name, ":") {
		return Options{}, fmt.Errorf("ratelimit: new: Options.Name is %q, must hold no colon", opts.Name)
	}
	if opts.DenyCache < 0 {
		return Options{}, fmt.Errorf("ratelimit: new: Options.DenyCache is %d, must not be negative", opts.DenyCache)
	}
	if opts.OnFailure > FailClosed {
		return Options{}, fmt.Errorf("ratelimit: new: Options.OnFailure is %d, must be FailWithError, FailOpen or FailClosed", opts.OnFailure)
	}
	if opts.Prefix == "" {
		opts.Prefix = "ratelimit:"
		if opts.Name != "" {
			opts.Prefix += opts.Name + ":"
		}
	}
	return opts, nil
}

var (
	errNoClient  = errors.New("ratelimit: new: the client is nil")
	errNoLimiter = errors.New("a Limiter must come from its constructor")
	errForeign   = errors.New("ratelimit: refund: the result is another limiter's")
)
