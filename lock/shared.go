package lock

import (
	"context"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/script"
)

//go:embed share.lua
var shareSource string

var shareScript = script.New(shareSource)

// shared is the side of a lock that several may have at a time: readers, or a number of permits. Who has it stands in a
// sorted set under the key of the name, where a Mutex of the name has a String, so that either keeps the other out.
type shared struct {
	mutex   *Mutex
	kind    string // what its members begin with
	permits int    // 0: no bound
}

const (
	minPoll = 10 * time.Millisecond
	maxPoll = 200 * time.Millisecond
)

func (s *shared) lock(ctx context.Context) (*Lease, error) {
	began := time.Now()
	lease, attempts, err := s.wait(ctx)
	return s.mutex.acquired(ctx, began, attempts, lease, err)
}

func (s *shared) tryLock(ctx context.Context) (*Lease, error) {
	began := time.Now()
	lease, held, err := s.attempt(ctx)
	if held != nil {
		err = held
	}
	return s.mutex.acquired(ctx, began, 1, lease, err)
}

// wait asks until it is let in, at random intervals that grow.
func (s *shared) wait(ctx context.Context) (*Lease, int, error) {
	lease, held, err := s.attempt(ctx)
	if held == nil {
		return lease, 1, err
	}
	over, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.mutex.locker.closing, func() { cancel(ErrClosed) })()
	failing := time.Time{} // since when there are errors
	for attempts, pause := 1, minPoll; ; pause = min(2*pause, maxPoll) {
		wait := min(pause/2+rand.N(pause), s.mutex.locker.opts.PollInterval)
		if !sleep(over, wait) {
			if ctx.Err() == nil {
				return nil, attempts, failed(ctx, "acquire", s.mutex.name, ErrClosed)
			}
			held.Err = ended(ctx)
			return nil, attempts, held
		}
		sent := time.Now()
		attempts++
		lease, refusal, err := s.attempt(ctx)
		switch {
		case lease != nil:
			return lease, attempts, nil
		case refusal != nil:
			held, failing = refusal, time.Time{}
		case ctx.Err() != nil:
			held.Err = ended(ctx)
			return nil, attempts, held
		case failing.IsZero():
			failing = sent
		case time.Since(failing) > s.mutex.ttl:
			return nil, attempts, err
		}
	}
}

// attempt asks once: a lease, or who keeps it out, or an error.
func (s *shared) attempt(ctx context.Context) (*Lease, *HeldError, error) {
	const op = "acquire"
	m := s.mutex
	if err := m.ready(ctx); err != nil {
		return nil, nil, failed(ctx, op, m.name, err)
	}
	token, sent := uuid.NewString(), time.Now()
	lease := m.newLease(token, 0)
	lease.member = s.kind + token
	reply, err := shareScript.StringsOf(ctx, m.locker.client, script.AnyLength, m.shareKeys(),
		lease.member, m.millis, s.kind, s.permits)
	switch {
	case err != nil:
		if !redis.HasErrorPrefix(err, "WRONGTYPE") {
			m.cleanup(ctx, lease.member, "")
		}
	case len(reply) == 2:
		held, err := m.held(reply)
		if err != nil {
			return nil, nil, failed(ctx, op, m.name, err)
		}
		return nil, held, nil
	case len(reply) == 1:
		err = fmt.Errorf("the semaphore has %d permits here and %s elsewhere", s.permits, strings.Trim(reply[0], "p:"))
	default:
		if err = lease.begin(sent, m.ttl); err == nil {
			return lease, nil, nil
		}
		m.cleanup(ctx, lease.member, "")
	}
	return nil, nil, failed(ctx, op, m.name, err)
}
