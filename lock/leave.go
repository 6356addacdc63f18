package lock

import (
	"context"
	"time"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/script"
)

var extendOnceScript = extendScript.Once()

// Leave ends the lease as Release does, but keeps the name taken for ttl from now: for a job that shall not run again
// before, or for a process that adopts the token. Until then only Adopt and ForceUnlock free it. Leave waits for an Extend that
// is under way, five seconds at most. A ttl below 1ms or above 100 years is refused, and the lease goes on. The error is ErrLost
// when the lease had been lost, as of Release, and when an earlier Release or Leave whose reply did not come has left nothing to
// keep. After any other the lease is over here, the lock lapses at its TTL, and Leave or Release may be called again.
func (l *Lease) Leave(ctx context.Context, ttl time.Duration) error {
	if err := checkLength("the TTL", ttl); err != nil {
		return failed(ctx, "leave", l.Name(), err)
	}
	return l.finish(ctx, "leave", func(ctx context.Context) error {
		left, err := l.sendExtend(ctx, ttl.Truncate(time.Millisecond), true)
		switch {
		case err == nil && left == notHeld:
			return ErrLost
		case err != nil && (l.locker.nodes != nil || script.Unknown(err)):
			l.unknown = true // it may lapse before a Release
		}
		return err
	})
}

// leaveOn has so much left at a Redis, and no more. It is sent once, as a release is, and again where no reply came: by then what
// the first run left may have lapsed.
func (l *Lease) leaveOn(ctx context.Context, c redispatterns.Client, ttl time.Duration) (int64, error) {
	sent, args := time.Now(), []any{l.member, ttl.Milliseconds(), "exactly"}
	left, err := extendOnceScript.IntOf(ctx, c, l.mutex.lockKey(), args...)
	if err != nil && script.Unknown(err) {
		again, failure := extendScript.IntOf(ctx, c, l.mutex.lockKey(), args...)
		if failure != nil {
			return 0, err
		}
		if left, err = again, nil; left == notHeld && time.Since(sent) >= ttl {
			left = 0
		}
	}
	return left, err
}

// settleExtends waits until no Extend is under way, which would lengthen what is left, but not for so long that nothing were
// left, and five seconds at most.
func (l *Lease) settleExtends(ctx context.Context) {
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, min(time.Until(l.Until())/2, releaseBound))
	defer cancel()
	l.settle(ctx, &l.extends)
}
