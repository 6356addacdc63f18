package lock

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/script"
)

var (
	//go:embed acquire.lua
	acquireSource string
	//go:embed adopt.lua
	adoptSource string
	//go:embed status.lua
	statusSource string

	acquireScript = newAcquisition(acquireSource)
	adoptScript   = script.New(adoptSource)
	statusScript  = script.New(statusSource)
)

// Mutex is the lock of a resource: a key in Redis that one holder at a time has. It holds no state of an acquisition, so
// any number of goroutines may share one; each acquisition is a *Lease. Most callers want Lock, or Do around it.
type Mutex struct {
	locker *Locker
	name   string
	key    string
	queue  string
	boxed  [3]any // the keys of the lock, its fence and its queue
	ttl    time.Duration
	millis any   // of the TTL, boxed once
	err    error // why it cannot be used
}

// Scripts get as many of the keys as they need.
func (m *Mutex) lockKey() script.Keys   { return m.boxed[:1] }
func (m *Mutex) fenceKeys() script.Keys { return m.boxed[:2] }
func (m *Mutex) keys() script.Keys      { return m.boxed[:] }
func (m *Mutex) shareKeys() script.Keys { return script.Keys{m.key, m.queue} }

// WithTTL returns a copy whose leases have this length: at least 1ms, of which whole milliseconds count.
func (m *Mutex) WithTTL(ttl time.Duration) *Mutex {
	c := *m
	c.ttl, c.millis = ttl.Truncate(time.Millisecond), ttl.Milliseconds()
	if c.err == nil {
		c.err = checkLength("the TTL", ttl)
	}
	return &c
}

// Lock takes the lock, waiting while somebody else holds it. The context bounds the wait and nothing else: the lease
// outlives it. If the first attempt fails, its error is returned at once. A call that already waits rides errors out, and
// returns one only after a whole TTL of them. Where the context ends the wait the error is a *HeldError, and matches
// ErrNotAcquired and the context's error. It is ErrLost where the reply to the first attempt took longer than the TTL, and
// ErrNotReplicated as Options.Replicas says; either way what was taken is given up.
//
// Those of a Locker that wait for a name stand in one line, first come first served, and are one waiter in Redis. There may be
// 10000 of them: one more is refused at once, with a *HeldError.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) {
	began := time.Now()
	lease, attempts, err := m.lock(ctx)
	return m.acquired(ctx, began, attempts, lease, err)
}

func (m *Mutex) lock(ctx context.Context) (*Lease, int, error) {
	if m.locker.nodes != nil {
		return m.poll(ctx, m.attemptQuorum)
	}
	if m.locker.lineOf(m) != nil { // others wait, or did lately
		if err := m.ready(ctx); err != nil {
			return nil, 0, failed(ctx, "acquire", m.name, err)
		}
		return m.wait(ctx, nil)
	}
	lease, held, err := m.attempt(ctx)
	if held == nil {
		return lease, 1, err
	}
	return m.wait(ctx, held)
}

// TryLock takes the lock if it is free, else it returns a *HeldError, which matches ErrNotAcquired. Where the reply took longer
// than the TTL it is ErrLost, as of Lock.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) {
	began := time.Now()
	var lease *Lease
	var held *HeldError
	var err error
	if m.locker.nodes != nil {
		lease, held, err = m.attemptQuorum(ctx)
	} else {
		lease, held, err = m.attempt(ctx)
	}
	if held != nil {
		err = held
	}
	return m.acquired(ctx, began, 1, lease, err)
}

// attempt asks once for the lock: a lease, or who has it, or an error. Its token is never used again, so that what it may
// have taken can be given up in the background, however late.
func (m *Mutex) attempt(ctx context.Context) (*Lease, *HeldError, error) {
	const op = "acquire"
	if err := m.ready(ctx); err != nil {
		return nil, nil, failed(ctx, op, m.name, err)
	}
	token := uuid.NewString()
	member, sent := any(token), time.Now()
	reply, waited, err := acquireScript.ask(ctx, m, m.fenceKeys(), member, m.millis, m.locker.retention)
	if err != nil {
		if !redis.HasErrorPrefix(err, "WRONGTYPE") {
			m.cleanup(ctx, member, "")
		}
		return nil, nil, failed(ctx, op, m.name, err)
	}
	if len(reply) == 2 {
		held, err := m.held(reply)
		if err != nil {
			return nil, nil, failed(ctx, op, m.name, err)
		}
		return nil, held, nil
	}
	lease, err := m.lease(token, member, reply, sent)
	if err != nil {
		m.giveUp(ctx, member, err)
		return nil, nil, failed(ctx, op, m.name, err)
	}
	lease.waited = waited
	return lease, nil, nil
}

// held is a refusal.
func (m *Mutex) held(reply []string) (*HeldError, error) {
	left, err := strconv.ParseInt(reply[1], 10, 64)
	return &HeldError{Name: m.name, Owner: reply[0], TTL: rest(left)}, err
}

// rest is what a holder has left. Redis says 0 in the last millisecond, which counts as one, and less where there is no end.
func rest(millis int64) time.Duration {
	if millis < 0 {
		return 0
	}
	return time.Duration(max(millis, 1)) * time.Millisecond
}

func (m *Mutex) newLease(token string, member any, fence int64) *Lease {
	return &Lease{mutex: m, locker: m.locker, token: token, member: member, fence: fence}
}

// maxFence is where Lua's numbers are not exact any more: from there on a fence would not grow.
const maxFence = 1 << 53

// lease begins the lease that a script granted to token with the fence in reply.
func (m *Mutex) lease(token string, member any, reply []string, sent time.Time) (*Lease, error) {
	fence, err := int64(0), error(nil)
	if len(reply) != 1 {
		err = fmt.Errorf("script answered %d values, not 1", len(reply))
	} else {
		fence, err = strconv.ParseInt(reply[0], 10, 64)
		if err != nil || fence < 1 || fence >= maxFence {
			err = fmt.Errorf("another program has written a fence from which none can grow: it would be %.64q", reply[0])
		}
	}
	if err != nil {
		return nil, err
	}
	lease := m.newLease(token, member, fence)
	if err := lease.begin(sent, m.ttl); err != nil {
		return nil, err
	}
	return lease, nil
}

// Adopt takes over the lease that was acquired elsewhere under this token, and is the way to hand a lock to another
// process. The lease that it returns has a token and a fence of its own and this Mutex's TTL, and is renewed here; the one
// before it is lost, which its holder learns at its next renewal, if it did not end it with Release before. Of two who adopt
// the same token one succeeds. Where nobody holds the lock under the token the error is ErrLost,
// and also where the reply took longer than the TTL, after which the lock is given up. Where no reply came, what
// it may have taken is given back to the token in the background.
func (m *Mutex) Adopt(ctx context.Context, token string) (*Lease, error) {
	began := time.Now()
	lease, err := m.adopt(ctx, token)
	return m.acquired(ctx, began, 1, lease, err)
}

func (m *Mutex) adopt(ctx context.Context, token string) (*Lease, error) {
	const op = "adopt"
	if err := m.readyAlone(ctx); err != nil {
		return nil, failed(ctx, op, m.name, err)
	}
	if token == "" {
		return nil, failed(ctx, op, m.name, errors.New("the token is empty"))
	}
	own, sent := uuid.NewString(), time.Now()
	reply, err := adoptScript.StringsOf(ctx, m.locker.client, script.AnyLength, m.fenceKeys(),
		token, own, m.millis, m.locker.retention)
	if err != nil {
		if !script.Replied(err) { // perhaps nobody knows the token that has the lock now
			m.undo(ctx, func(ctx context.Context) (bool, error) {
				_, err := adoptScript.StringsOf(ctx, m.locker.client, script.AnyLength, m.fenceKeys(),
					own, token, m.millis, m.locker.retention)
				return false, err // the token has it again, or still: what was sent may be on its way
			})
		}
		return nil, failed(ctx, op, m.name, err)
	}
	if len(reply) == 0 {
		return nil, failed(ctx, op, m.name, ErrLost)
	}
	lease, err := m.lease(own, own, reply, sent)
	if err != nil {
		m.giveUp(ctx, own, err)
		return nil, failed(ctx, op, m.name, err)
	}
	return lease, nil
}

// Status is what an observer sees of a lock.
type Status struct {
	Held  bool
	Owner string        // the holder's token: whoever knows it can release, by Adopt; "" where readers or permits have it
	TTL   time.Duration // what the holder has left; 0 where the lock has no expiry, as when another program set it without
	Fence int64         // of the last acquisition that is remembered; 0 where none is
}

// Status looks at the lock. By the time that it returns, all of it may have changed.
func (m *Mutex) Status(ctx context.Context) (Status, error) {
	status, _, err := m.status(ctx)
	return status, err
}

// status also says how many readers or permits there are.
func (m *Mutex) status(ctx context.Context) (Status, int, error) {
	const op = "status of"
	if err := m.readyAlone(ctx); err != nil {
		return Status{}, 0, failed(ctx, op, m.name, err)
	}
	reply, err := statusScript.StringsOf(ctx, m.locker.client, 4, m.fenceKeys())
	if err != nil {
		return Status{}, 0, failed(ctx, op, m.name, err)
	}
	left, err := strconv.ParseInt(reply[0], 10, 64)
	fence, fenceErr := strconv.ParseInt(reply[2], 10, 64)
	sharers, sharersErr := strconv.Atoi(reply[3])
	if err := cmp.Or(err, fenceErr, sharersErr); err != nil {
		return Status{}, 0, failed(ctx, op, m.name, err)
	}
	status := Status{Held: left != -2, Owner: reply[1], TTL: rest(left), Fence: fence}
	return status, sharers, nil
}

// ForceUnlock takes the lock from whoever holds it; it is for operators, not for programs. The holder learns of it at its
// next renewal at the latest, and at once where its Locker has waiters for the name, or had within five seconds. It succeeds
// where nobody holds the lock. Sent once: where no reply came the error is ErrUnknown, and Status tells.
func (m *Mutex) ForceUnlock(ctx context.Context) error {
	const op = "force unlock"
	if err := m.readyAlone(ctx); err != nil {
		return failed(ctx, op, m.name, err)
	}
	_, err := releaseOnceScript.IntOf(ctx, m.locker.client, m.keys(), "", m.locker.retention, "")
	if script.Unknown(err) {
		err = fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	if err != nil {
		return failed(ctx, op, m.name, err)
	}
	return nil
}

// ready refuses before anything is sent.
func (m *Mutex) ready(ctx context.Context) error {
	if m.err != nil {
		return m.err
	}
	if err := m.locker.open(); err != nil {
		return err
	}
	return ctx.Err()
}

// readyAlone also refuses what a quorum cannot do.
func (m *Mutex) readyAlone(ctx context.Context) error {
	if m.locker.nodes != nil {
		return ErrUnsupported
	}
	return m.ready(ctx)
}

// failed is the error of an operation on a name; where its context has ended, it says so and why.
func failed(ctx context.Context, op, name string, err error) error {
	if over := ended(ctx); over != nil && !errors.Is(err, ErrLost) && !errors.Is(err, ErrClosed) {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			err = over
		} else {
			err = fmt.Errorf("%w: %w", over, err)
		}
	}
	return fmt.Errorf("lock: %s %q: %w", op, name, err)
}
