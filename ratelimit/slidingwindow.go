package ratelimit

import (
	"context"
	_ "embed"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/script"
)

//go:embed slidingwindow.lua
var slidingWindowSource string

var slidingWindowScript = script.New(slidingWindowSource)

// maxLogged is the greatest cost of one call to a sliding window, which writes an entry for each event.
const maxLogged = 1000

// NewSlidingWindow limits events exactly: in no window of length limit.Per, wherever it is laid, are there more than
// limit.Events. It keeps a log, a sorted set with an entry of about 25 bytes per event of the last window; above 128
// entries Redis stores it otherwise, at about 120 bytes each. One call may cost at most 1000, else its error is [ErrCost].
//
// A request whose reply is lost is sent again by go-redis and counts once.
func NewSlidingWindow(client redispatterns.Client, limit Limit, opts *Options) (*Limiter, error) {
	return newLimiter(client, one(limit), opts, func(k keys) algorithm {
		return &slidingWindow{keys: k, limit: box(limit)}
	})
}

type slidingWindow struct {
	keys
	limit boxed
}

func (s *slidingWindow) check(_ int, limit Limit) error { return limit.check() }

func (s *slidingWindow) most(_ int, limit Limit) int64 { return min(limit.Events, maxLogged) }

func (s *slidingWindow) take(ctx context.Context, id string, limits []Limit, n int64) (Result, error) {
	key, b, number := s.prefix+id, s.limit.of(limits[0]), requestNumber()
	reply, err := slidingWindowScript.Ints(ctx, s.client, 3, []string{key}, n, b.events, b.per, number)
	if err != nil {
		return Result{}, keyed(key, err)
	}
	retry, reset := time.Duration(reply[1])*time.Microsecond, time.Duration(reply[2])*time.Microsecond
	r := decided(standing(limits[0], reply[0], retry, reset), n, retry == 0)
	if r.Allowed && n > 0 {
		r.taken = &taken{number: number}
	}
	return r, nil
}

// refund removes the request's entries; which a repetition finds removed.
func (s *slidingWindow) refund(ctx context.Context, t *taken) error {
	key := s.prefix + t.id
	args := make([]any, 0, 2+t.n)
	args = append(args, "zrem", key)
	for i := range t.n {
		args = append(args, t.number+i)
	}
	cmd := redis.NewIntCmd(ctx, args...)
	_ = s.client.Process(ctx, cmd)
	return keyed(key, cmd.Err())
}

func (s *slidingWindow) reset(ctx context.Context, id string, _ []Limit) error {
	return s.del(ctx, s.prefix+id)
}

// requestNumber names a request's entries: 19 digits, as many as fit the 64-bit integer that Redis stores compactly, the
// last three left to count with.
func requestNumber() int64 {
	const least, most = 1_000_000_000_000_000, 9_223_372_036_854_775
	return (least + rand.Int64N(most-least)) * 1000
}
