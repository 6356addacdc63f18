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
	// Name names the limiter in its keys. It holds no colon. Give each limiter of an application its own: two that have
	// different names, and no Prefix, never share a key, whatever the ids. One without a name shares keys with one that has
	// one for certain ids: its "api:user42" is the "user42" of the limiter named "api". Defaults to none.
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
	// Timeout bounds one decision, whatever the client's own timeouts are. A *redis.Client with ContextTimeoutEnabled, which
	// this is best used with, ends a call by itself. With any other client a decision runs in a goroutine; one that is given up
	// is parked until the client gives it up too. While 64 are parked, or Redis has answered nothing for a while, OnFailure
	// decides at once, and one call every 200 ms tries again.
	// Refund and Reset are not bounded by it. Defaults to 500 ms; negative: the client's, which can come to tens of seconds
	// with its retries, most of all through an AutoPipeliner, which does not end a batch with a caller's context.
	Timeout time.Duration
	// OnFailure is what a decision is when Redis cannot answer. Defaults to FailWithError.
	OnFailure FailurePolicy
	// DenyCache is how many denials this process remembers, so that a flood costs no round trip: each no longer than its
	// RetryAfter and one second. A Reset or Refund in another process may show so much later. The places, 8 bytes each, are
	// there from the beginning; a denial takes about 300 bytes more. Defaults to 0: none.
	DenyCache int
	// Observe sees every decision and every failure of one, Peek's failures too. It must not block.
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
