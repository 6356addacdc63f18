package ratelimit

import (
	"context"
	_ "embed"
	"fmt"
	"math/bits"
	"time"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/script"
)

//go:embed slidingcounter.lua
var slidingCounterSource string

var (
	slidingCounterScript = script.New(slidingCounterSource)
	slidingCounterOnce   = slidingCounterScript.Once()
)

// NewSlidingCounter limits events in a window that slides, by an estimate: it counts in fixed windows, and adds of the last
// window's count the part that a window ending now still covers, as if its events had been spread evenly. One small key
// per id, whatever the limit; it is what Cloudflare counts with. Where the events of the last window were not spread
// evenly, up to one limit more than an exact log allows may fall into one window, and as much may be denied.
//
// A request whose reply is lost is not sent again, since it might count twice: its error is [ErrUnknown].
func NewSlidingCounter(client redispatterns.Client, limit Limit, opts *Options) (*Limiter, error) {
	k, err := newKeys(client, opts)
	if err != nil {
		return nil, err
	}
	if err := limit.check(); err != nil {
		return nil, err
	}
	return &Limiter{algorithm: &slidingCounter{keys: k, limit: box(limit)}, limit: limit}, nil
}

type slidingCounter struct {
	keys
	limit boxed
}

func (s *slidingCounter) take(ctx context.Context, id string, limit Limit, n int64) (Result, error) {
	key, b, run := s.key(id), s.limit.of(limit), slidingCounterOnce
	if n == 0 {
		run = slidingCounterScript
	}
	reply, err := run.Ints(ctx, s.client, 4, []string{key}, n, b.events, b.per)
	if err != nil {
		return Result{}, fmt.Errorf("key %q: %w", key, err)
	}
	wanted := max(n, 1)
	if reply[0] == 1 {
		wanted = 0
	}
	return counterStanding(limit, wanted, reply[1], reply[2], reply[3]), nil
}

func (s *slidingCounter) reset(ctx context.Context, id string) error { return s.del(ctx, s.key(id)) }

func (s *slidingCounter) most(limit Limit) int64 { return limit.Events }

func (s *slidingCounter) key(id string) string { return s.prefix + id + "~c" }

// counterStanding is what the counts cur and last of this window and the one before mean at now, in microseconds, for who
// wants n more; 0: has got them. Like the script it weighs by whole milliseconds.
func counterStanding(limit Limit, n, cur, last, now int64) Result {
	win := limit.Per.Milliseconds()
	end := now/1000/win*win + win
	used := cur + muldiv(last, end-now/1000, win)
	if cur == 0 && used == 0 {
		return decided(limit.Events, 0, 0, 0)
	}
	until := func(ms int64) time.Duration { return time.Duration(ms*1000-now) * time.Microsecond }

	// The weight of a count is at most w while at most rest(count, w) of its second window is left.
	rest := func(count, w int64) int64 { return min(muldiv(w+1, win, count, count-1)-1, win) }
	reset := until(end)
	switch {
	case cur > 0:
		reset = until(end + win - rest(cur, 0))
	case last > 0:
		reset = until(end - rest(last, 0))
	}
	var retry time.Duration
	if room := limit.Events - cur - n; n > 0 && used+n > limit.Events {
		if room >= 0 {
			retry = until(end - rest(last, room))
		} else {
			retry = until(end + win - rest(cur, limit.Events-n))
		}
	}
	return decided(limit.Events, used, retry, reset)
}

// muldiv is (a*b + plus)/c, without overflow between.
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
