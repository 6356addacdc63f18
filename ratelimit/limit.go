package ratelimit

import (
	"fmt"
	"math/bits"
	"time"
)

// maxEvents is the greatest number that Redis' scripts count exactly.
const maxEvents = 1<<53 - 1

const maxPer = 100 * 365 * 24 * time.Hour

// Limit is Events per Per. Of a token bucket it is the refill rate, and Burst the bucket's size.
type Limit struct {
	Events int64         // at least 1
	Per    time.Duration // whole milliseconds, from one to a hundred years
	Burst  int64         // of a token bucket alone; 0: Events
}

// Unlimited is for [Options.LimitFor]: allowed, at no round trip. Limit and Remaining of the Result are math.MaxInt64.
var Unlimited = Limit{Events: -1}

// PerSecond is a limit of events per second.
func PerSecond(events int64) Limit { return Limit{Events: events, Per: time.Second} }

// PerMinute is a limit of events per minute.
func PerMinute(events int64) Limit { return Limit{Events: events, Per: time.Minute} }

// PerHour is a limit of events per hour.
func PerHour(events int64) Limit { return Limit{Events: events, Per: time.Hour} }

// PerDay is a limit of events per day of 24 hours.
func PerDay(events int64) Limit { return Limit{Events: events, Per: 24 * time.Hour} }

// WithBurst is the limit for a token bucket that holds n.
func (l Limit) WithBurst(n int64) Limit {
	l.Burst = n
	return l
}

// burst is the size of a token bucket.
func (l Limit) burst() int64 {
	if l.Burst == 0 {
		return l.Events
	}
	return l.Burst
}

// check refuses what no counting of windows can hold.
func (l Limit) check() error {
	if l.Burst != 0 {
		return fmt.Errorf("%w: Burst is %d, and only a token bucket has one", ErrInvalidLimit, l.Burst)
	}
	return l.checkEvents()
}

func (l Limit) checkEvents() error {
	switch {
	case l.Events < 1 || l.Events > maxEvents:
		return fmt.Errorf("%w: Events is %d, must be 1 to %d", ErrInvalidLimit, l.Events, int64(maxEvents))
	case l.Per < time.Millisecond || l.Per > maxPer || l.Per%time.Millisecond != 0:
		return fmt.Errorf("%w: Per is %v, must be whole milliseconds, from one to a hundred years of them", ErrInvalidLimit, l.Per)
	}
	return nil
}

// boxed is a limit as scripts take it. A limiter keeps that of its own, so that a call need not allocate it.
type boxed struct {
	limit       Limit
	events, per any // per in milliseconds
}

func box(l Limit) boxed { return boxed{limit: l, events: l.Events, per: l.Per.Milliseconds()} }

// of is l as scripts take it.
func (b boxed) of(l Limit) boxed {
	if l != b.limit {
		return box(l)
	}
	return b
}

// muldiv is (a*b + plus)/c of numbers that are not negative, exact between, and at most the greatest int64.
func muldiv(a, b, c int64, plus ...int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	for _, p := range plus {
		var carry uint64
		lo, carry = bits.Add64(lo, uint64(p), 0)
		hi += carry
	}
	if hi >= uint64(c) {
		return 1<<63 - 1
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, 1<<63-1))
}
