package ratelimit

import "time"

// Result is a decision. A denial is a Result, not an error.
type Result struct {
	Allowed    bool
	Limit      int64         // events per window, or the burst
	Remaining  int64         // what could still be taken now: 0 <= Remaining <= Limit
	RetryAfter time.Duration // 0 when allowed; after exactly this long the same call passes, if nobody else took
	ResetAfter time.Duration // until the full limit is back
	Reason     Reason
}

// Reason says where a decision comes from.
type Reason uint8

const (
	ReasonAllowed Reason = iota
	ReasonLimited
)

// decided is a Result for used of limit events, allowed where it names no wait.
func decided(limit, used int64, retryAfter, resetAfter time.Duration) Result {
	r := Result{
		Allowed: retryAfter == 0, Limit: limit, Remaining: min(max(limit-used, 0), limit),
		RetryAfter: retryAfter, ResetAfter: resetAfter,
	}
	if !r.Allowed {
		r.Reason = ReasonLimited
	}
	return r
}
