package ratelimit

import (
	"context"
	"hash/maphash"
	"strconv"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/script"
)

// fullWindows remembers the keys of windows that were full, as hints: of these a plain GET, which costs Redis a third of
// the script, most likely says all. What is forgotten, or no longer so, costs the script.
type fullWindows struct {
	seed maphash.Seed
	sums [256]atomic.Uint64
}

func newFullWindows() *fullWindows { return &fullWindows{seed: maphash.MakeSeed()} }

func (f *fullWindows) of(key string) (place *atomic.Uint64, sum uint64) {
	sum = maphash.String(f.seed, key) | 1 // 0 is nobody's
	return &f.sums[sum>>1%uint64(len(f.sums))], sum
}

func (f *fullWindows) has(key string) bool {
	place, sum := f.of(key)
	return place.Load() == sum
}

func (f *fullWindows) add(key string) {
	place, sum := f.of(key)
	place.Store(sum)
}

func (f *fullWindows) drop(key string) {
	place, sum := f.of(key)
	place.CompareAndSwap(sum, 0)
}

// stillFull denies by a window's count alone. That its key is there says that it has not ended; for how long it goes on is
// told by the estimate of the server's clock, late by a millisecond at most and never early. Where that is not good enough,
// or the window is not full, the script decides.
func (f *fixedWindow) stillFull(ctx context.Context, key string, n int64, limit Limit, w *window) (r Result, denied bool, err error) {
	now, known := f.clock.earliest()
	if !known || !w.holds(now) {
		return Result{}, false, nil
	}
	cmd := redis.NewStringCmd(ctx, "get", key)
	_ = f.client.Process(ctx, cmd)
	if err := cmd.Err(); err != nil && !script.Replied(err) {
		return Result{}, false, keyed(key, &lookError{err})
	}
	used, err := strconv.ParseInt(cmd.Val(), 10, 64)
	if err != nil || used < 1 || used <= limit.Events-n {
		f.full.drop(key)
		return Result{}, false, nil
	}
	return decided(fixedStanding(limit, n, used, now), n, false), true, nil
}
