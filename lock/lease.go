package lock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/script"
)

var (
	//go:embed release.lua
	releaseSource string
	//go:embed extend.lua
	extendSource string

	releaseScript     = script.New(releaseSource)
	releaseOnceScript = releaseScript.Once()
	extendScript      = script.New(extendSource)
)

// releaseBound is how long a Release whose context has ended may take.
const releaseBound = 5 * time.Second

// Lease is one acquisition of a lock. It is renewed in the background until it is released, unless Options say otherwise,
// so what its holder watches is Context, or Held, rather than the time. Safe for concurrent use. The zero Lease and nil are
// leases that were lost.
type Lease struct {
	mutex  *Mutex
	locker *Locker
	token  string
	member any // what stands in Redis, boxed once: the token, and before it what a reader's or permit's member begins with
	fence  int64
	began  time.Time

	waited   *redis.IntCmd                   // how many replicas know of it; nil: nobody has asked
	answered []chan struct{}                 // of a quorum: closed when the node has answered the acquisition
	observed atomic.Pointer[context.Context] // in which it was acquired; for Options.Observe

	renewal renewal // guarded by the renewer's mutex

	releasing sync.Mutex // held by the Release under way; before mu
	unknown   bool       // a release, or Leave, was sent and no reply came, or may yet be; guarded by releasing

	mu       sync.Mutex
	until    time.Time
	granted  bool  // by a release, for a short time: to be extended soon
	over     bool  // the holder has it no more: released, lost, or the Locker was closed
	cause    error // why, for the contexts; nil is a release
	released bool  // and Redis knows, or it was left
	gone     bool  // Redis said that another has it, or nobody
	lost     bool  // and Options.Observe was told
	failure  error // of the last renewal
	children map[*leaseContext]struct{}
	renewals flights // and healings of a quorum's nodes
	extends  flights // calls of Extend
}

// validity is how much of a lease its holder counts on: clocks run at different speeds, and timers fire late.
func validity(ttl time.Duration) time.Duration {
	return ttl - min(ttl/100+2*time.Millisecond, ttl/4)
}

// past says whether t is over by the monotonic clock or by the wall clock: the first stands still while a machine sleeps.
func past(t time.Time) bool {
	now := time.Now()
	return !now.Before(t) || now.UnixNano() >= t.UnixNano()
}

// begin starts the lease, which has this length from when its request was sent.
func (l *Lease) begin(sent time.Time, ttl time.Duration) error {
	l.began, l.until = sent, sent.Add(validity(ttl))
	if past(l.until) {
		return fmt.Errorf("%w: the reply took longer than the TTL of %v", ErrLost, ttl)
	}
	return l.locker.renewer.add(l)
}

// Name is the name of the lock.
func (l *Lease) Name() string {
	if l == nil || l.mutex == nil {
		return ""
	}
	return l.mutex.name
}

// Token is the UUID that this acquisition has in Redis. Whoever knows it can take the lease over with Adopt.
func (l *Lease) Token() string {
	if l == nil {
		return ""
	}
	return l.token
}

// Fence is a number that grows with every acquisition of the name, to be sent along with every write to the resource that
// the lock protects. A resource that refuses a number below the highest it has seen is safe from a holder that was paused
// past its lease and does not know. Until it has seen the next holder's number it takes a late write, so a holder that reads
// before it writes has its number stored first. Fence is about the time in microseconds, and below 2⁵³. It is 0, and not to
// be sent, for readers, permits and a quorum.
func (l *Lease) Fence() int64 {
	if l == nil {
		return 0
	}
	return l.fence
}

// String shows the name and the fence, but not the token, so that a lease can be logged.
func (l *Lease) String() string { return fmt.Sprintf("lease of %q, fence %d", l.Name(), l.Fence()) }

// GoString is String, so that %#v shows no more.
func (l *Lease) GoString() string { return l.String() }

// Held says whether the lease is held, by this process' own clock and without asking Redis. By the time that it returns
// this may have changed: only a resource that checks Fence closes that gap.
func (l *Lease) Held() bool {
	return l != nil && l.locker != nil && l.look() == nil
}

// Until is the earliest time at which the lease may lapse, if nothing renews it.
func (l *Lease) Until() time.Time {
	if l == nil {
		return time.Time{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// TTL asks Redis how much of the lease is left: -1ms where another program took its expiry away, which the next renewal puts
// back. The error is ErrLost when it is not held.
func (l *Lease) TTL(ctx context.Context) (time.Duration, error) {
	return l.extend(ctx, "TTL of", 0)
}

// Extend sees to it that at least ttl of the lease is left. It never shortens a lease, nor revives one that was lost, which
// is ErrLost. Renewal goes on beside it.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	if err := checkLength("the TTL", ttl); err != nil {
		return failed(ctx, "extend", l.Name(), err)
	}
	_, err := l.extend(ctx, "extend", ttl.Truncate(time.Millisecond))
	return err
}

func (l *Lease) extend(ctx context.Context, op string, ttl time.Duration) (time.Duration, error) {
	if l == nil || l.locker == nil {
		return 0, ErrLost
	}
	if ttl > 0 { // before it looks: either this finds the lease over or Leave finds this under way
		l.mu.Lock()
		l.extends.n++
		l.mu.Unlock()
		defer l.landed(&l.extends)
	}
	if err := l.look(); err != nil {
		return 0, failed(ctx, op, l.mutex.name, err)
	}
	if err := ctx.Err(); err != nil {
		return 0, failed(ctx, op, l.mutex.name, err)
	}
	sent := time.Now()
	left, err := l.sendExtend(ctx, ttl, false)
	if err == nil {
		err = l.extended(sent, ttl, left)
	}
	if err != nil {
		return 0, failed(ctx, op, l.mutex.name, err)
	}
	return time.Duration(left) * time.Millisecond, nil
}

func (l *Lease) sendExtend(ctx context.Context, ttl time.Duration, exactly bool) (int64, error) {
	switch {
	case l.locker.nodes != nil:
		return l.extendQuorum(ctx, ttl, exactly)
	case exactly:
		return l.leaveOn(ctx, l.locker.client, ttl)
	}
	return extendScript.IntOf(ctx, l.locker.client, l.mutex.lockKey(), l.member, ttl.Milliseconds())
}

// extended takes in the reply of extend.lua.
func (l *Lease) extended(sent time.Time, ttl time.Duration, left int64) error {
	if left == notHeld {
		l.taken("another has it, or it was deleted")
		return ErrLost
	}
	if err := l.look(); err != nil {
		return err // it lapsed before the reply was here
	}
	if ttl == 0 {
		return nil
	}
	l.mu.Lock()
	if until := sent.Add(validity(ttl)); until.After(l.until) {
		l.until, l.failure, l.granted = until, nil, false
	}
	l.mu.Unlock()
	l.locker.renewer.reschedule(l)
	return nil
}

const notHeld = -2 // as extend.lua answers

// taken ends a lease of which Redis said that it is not held. Where it is over, that may have been its own release.
func (l *Lease) taken(how string) {
	l.endAs(fmt.Errorf("%w: %s", ErrLost, how), true)
}

// Release gives the lock up, to the waiter that is next if there is one. It works though ctx has ended, and then takes five
// seconds at most. The lease is over when Release is called, whatever it returns: nil when the lock was freed, by an earlier
// call too; ErrLost when the lease had been lost, joined by what kept Redis from answering if it did not; and else that alone.
// Then it may be called again, and the lock lapses at its TTL.
func (l *Lease) Release(ctx context.Context) error {
	return l.finish(ctx, "release", l.release)
}

// finish ends the lease here, and then in Redis.
func (l *Lease) finish(ctx context.Context, op string, send func(context.Context) error) error {
	if l == nil || l.locker == nil {
		return ErrLost
	}
	_ = l.look()
	l.end(nil)
	if op == "leave" {
		l.settleExtends(ctx) // before anything that a Release would wait for
	}
	l.releasing.Lock()
	defer l.releasing.Unlock()
	bounded := ctx
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(context.WithoutCancel(ctx), releaseBound)
		defer cancel()
	}
	if op == "leave" || l.locker.nodes != nil {
		l.settle(bounded, &l.renewals) // a renewal would lengthen what is left, or take a node of a quorum again
	}
	defer l.settle(bounded, &l.renewals)
	l.mu.Lock()
	released, gone, lost := l.released, l.gone, errors.Is(l.cause, ErrLost)
	l.mu.Unlock()
	if !released && !gone {
		err := send(bounded)
		if bounded != ctx {
			err = ownBound(bounded, err)
		}
		released, gone = err == nil, errors.Is(err, ErrLost)
		l.mu.Lock()
		l.released, l.gone = released, gone
		l.mu.Unlock()
		switch {
		case lost: // and observed
		case released:
			l.observe(Released, nil)
		case gone:
			l.observe(Lost, ErrLost)
		}
		if err != nil && !gone {
			if lost { // for sure, whatever became of what was sent
				err = fmt.Errorf("%w: %w", ErrLost, err)
			}
			return failed(ctx, op, l.mutex.name, err)
		}
	}
	if gone || lost {
		return failed(ctx, op, l.mutex.name, ErrLost)
	}
	return nil
}

func (l *Lease) release(ctx context.Context) error {
	if l.locker.nodes != nil {
		return l.releaseQuorum(ctx)
	}
	had, err := int64(0), error(nil)
	if !l.unknown {
		had, err = releaseOnceScript.IntOf(ctx, l.locker.client, l.mutex.keys(), l.member, l.locker.retention, "")
		l.unknown = err != nil && script.Unknown(err)
	}
	if l.unknown { // whether it was executed; when it was, this run finds nothing
		had, err = releaseScript.IntOf(ctx, l.locker.client, l.mutex.keys(), l.member, l.locker.retention, "")
	}
	switch {
	case err != nil:
		if ctx.Err() != nil {
			l.unknown = true // the cleanup may free it before this is called again
			l.mutex.cleanup(ctx, l.member, "")
		}
		return err
	case had == 0 && !l.unknown:
		return ErrLost
	}
	return nil
}

// look ends a lease that has lapsed by the clock. It returns why the lease is over, or nil while it is held.
func (l *Lease) look() error {
	l.mu.Lock()
	if l.over {
		defer l.mu.Unlock()
		if errors.Is(l.cause, ErrClosed) {
			return ErrClosed
		}
		return ErrLost
	}
	lapsed := past(l.until)
	l.mu.Unlock()
	if !lapsed {
		return nil
	}
	l.lapse()
	return ErrLost
}

// lapse ends a lease whose time is over.
func (l *Lease) lapse() {
	l.mu.Lock()
	failure := l.failure
	l.mu.Unlock()
	if failure != nil {
		l.end(fmt.Errorf("%w: it lapsed, since its renewal failed: %w", ErrLost, failure))
		return
	}
	l.end(fmt.Errorf("%w: it lapsed", ErrLost))
}

// end ends the lease for its holder: the contexts and the renewal. What ended it first, counts.
func (l *Lease) end(cause error) { l.endAs(cause, false) }

func (l *Lease) endAs(cause error, gone bool) {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return
	}
	l.over, l.cause, l.gone = true, cause, gone
	children := l.children
	l.children = nil
	l.mu.Unlock()
	for c := range children {
		c.forget()
		c.cancel(cause)
	}
	l.locker.renewer.remove(l)
	if errors.Is(cause, ErrLost) {
		l.observeLoss()
	}
}
