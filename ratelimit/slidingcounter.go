package ratelimit

import (
	"context"
	_ "embed"
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
	return newLimiter(client, one(limit), opts, func(k keys) algorithm {
		return &slidingCounter{keys: k, limit: box(limit)}
	})
}

type slidingCounter struct {
	keys
	limit boxed
}

func (s *slidingCounter) check(_ int, limit Limit) error { return limit.check() }

func (s *slidingCounter) most(_ int, limit Limit) int64 { return limit.Events }

func (s *slidingCounter) take(ctx context.Context, id string, limits []Limit, n int64) (Result, error) {
	key, b := s.key(id), s.limit.of(limits[0])
	reply, err := sent(slidingCounterScript, slidingCounterOnce, n).Ints(ctx, s.client, 4, []string{key}, n, b.events, b.per, 0)
	if err != nil {
		return Result{}, keyed(key, err)
	}
	counted, cur, last, now := reply[0] == 1, reply[1], reply[2], reply[3]
	r := decided(counterStanding(limits[0], wanted(n, counted), cur, last, now), n, counted)
	if counted {
		r.taken = &taken{at: now}
	}
	return r, nil
}

func (s *slidingCounter) refund(ctx context.Context, t *taken) error {
	key, b := s.key(t.id), s.limit.of(t.limits[0])
	_, err := slidingCounterOnce.Ints(ctx, s.client, 4, []string{key}, -t.n, b.events, b.per, t.at/1000)
	return keyed(key, err)
}

func (s *slidingCounter) reset(ctx context.Context, id string, _ []Limit) error {
	return s.del(ctx, s.key(id))
}

func (s *slidingCounter) key(id string) string { return s.prefix + id + "~c" }

// counterStanding is what the counts cur and last of this window and the one before mean at now, in microseconds, for who
// wants n more; 0: has got them. Like the script it weighs by whole milliseconds.
func counterStanding(limit Limit, n, cur, last, now int64) RuleResult {
	win := limit.Per.Milliseconds()
	end := now/1000/win*win + win
	used := cur + muldiv(last, end-now/1000, win)
	if cur == 0 && used == 0 {
		return standing(limit, 0, 0, 0)
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
	return standing(limit, used, retry, reset)
}
