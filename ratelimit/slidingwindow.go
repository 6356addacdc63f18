package ratelimit

import (
	"context"
	_ "embed"
	"fmt"
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
	k, err := newKeys(client, opts)
	if err != nil {
		return nil, err
	}
	if err := limit.check(); err != nil {
		return nil, err
	}
	return &Limiter{algorithm: &slidingWindow{keys: k, limit: box(limit)}, limit: limit}, nil
}

type slidingWindow struct {
	keys
	limit boxed
}

func (s *slidingWindow) take(ctx context.Context, id string, limit Limit, n int64) (Result, error) {
	key, b := s.prefix+id, s.limit.of(limit)
	reply, err := slidingWindowScript.Ints(ctx, s.client, 3, []string{key}, n, b.events, b.per, requestNumber())
	if err != nil {
		return Result{}, fmt.Errorf("key %q: %w", key, err)
	}
	return decided(limit.Events, reply[0], time.Duration(reply[1])*time.Microsecond, time.Duration(reply[2])*time.Microsecond), nil
}

func (s *slidingWindow) reset(ctx context.Context, id string) error { return s.del(ctx, s.prefix+id) }

func (s *slidingWindow) most(limit Limit) int64 { return min(limit.Events, maxLogged) }

// requestNumber names a request's entries: 19 digits, as many as fit the 64-bit integer that Redis stores compactly, the
// last three left to count with.
func requestNumber() int64 {
	const least, most = 1_000_000_000_000_000, 9_223_372_036_854_775
	return (least + rand.Int64N(most-least)) * 1000
}

func (k keys) del(ctx context.Context, key string) error {
	cmd := redis.NewIntCmd(ctx, "del", key)
	_ = k.client.Process(ctx, cmd)
	if err := cmd.Err(); err != nil {
		return fmt.Errorf("key %q: %w", key, err)
	}
	return nil
}
