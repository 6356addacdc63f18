package ratelimit

import (
	"math"
	"sync/atomic"
	"time"
)

// Result is a decision. A denial is a Result, not an error. Where Reason is ReasonUnavailable only Allowed counts; RetryAfter
// is then when to ask again. For who is [Unlimited], Limit and Remaining are math.MaxInt64.
type Result struct {
	Allowed    bool
	Limit      int64         // events per window, or the burst
	Remaining  int64         // what could still be taken now: 0 <= Remaining <= Limit
	RetryAfter time.Duration // 0 when allowed; after exactly this long the same call passes, if nobody else took
	ResetAfter time.Duration // until the full limit is back
	Reason     Reason
	Rules      []RuleResult // of NewMulti, in its order; nil elsewhere

	window time.Duration // what Limit is per
	taken  *taken        // what Refund gives back
}

// RuleResult is how an id stands with one rule of several.
type RuleResult struct {
	Name       string
	Limit      int64
	Remaining  int64
	RetryAfter time.Duration // 0 unless this rule denied
	ResetAfter time.Duration

	window time.Duration
}

// Reason says where a decision comes from.
type Reason uint8

const (
	ReasonAllowed Reason = iota
	ReasonLimited
	ReasonDenyCache   // denied from this process's memory
	ReasonUnavailable // Redis could not answer; FailOpen or FailClosed decided
)

// taken is what a decision took, and where.
type taken struct {
	by       *Limiter
	id       string
	limits   []Limit
	n        int64
	key      string // of a fixed window
	number   int64  // of a request to a sliding window
	at       int64  // when, by the server's clock in microseconds
	refunded atomic.Bool
}

// standing is how an id stands that has used so much of limit, for who must wait retryAfter for what he wants.
func standing(limit Limit, used int64, retryAfter, resetAfter time.Duration) RuleResult {
	most := limit.burst()
	return RuleResult{
		Limit: most, Remaining: min(max(most-used, 0), most), RetryAfter: retryAfter, ResetAfter: resetAfter,
		window: time.Duration(muldiv(most, int64(limit.Per), limit.Events)),
	}
}

// decided is the Result of one rule. Of a look at it, with n = 0, it decides itself.
func decided(r RuleResult, n int64, counted bool) Result {
	if n == 0 {
		counted = r.RetryAfter == 0
	}
	result := Result{
		Allowed: counted, Limit: r.Limit, Remaining: r.Remaining, RetryAfter: r.RetryAfter, ResetAfter: r.ResetAfter, window: r.window,
	}
	if !counted {
		result.Reason = ReasonLimited
		result.RetryAfter = max(result.RetryAfter, time.Microsecond) // where the script's doubles were less exact than we are
	}
	return result
}

// wanted is what still has to fit: nothing where n is counted, and one where it was but looked.
func wanted(n int64, counted bool) int64 {
	if counted {
		return 0
	}
	return max(n, 1)
}

// unlimited is the standing of whom no limit holds.
var unlimited = RuleResult{Limit: math.MaxInt64, Remaining: math.MaxInt64}
