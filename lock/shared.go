package lock

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

//go:embed share.lua
var shareSource string

var shareScript = newAcquisition(shareSource)

// shared is the side of a lock that several may have at a time: readers, or a number of permits. Who has it stands in a
// sorted set under the key of the name, where a Mutex of the name has a String, so that either keeps the other out.
type shared struct {
	mutex   *Mutex
	kind    string // what its members begin with
	permits int    // 0: no bound
}

func (s *shared) lock(ctx context.Context) (*Lease, error) {
	began := time.Now()
	lease, attempts, err := s.mutex.poll(ctx, s.attempt)
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

// attempt asks once: a lease, or who keeps it out, or an error.
func (s *shared) attempt(ctx context.Context) (*Lease, *HeldError, error) {
	const op = "acquire"
	m := s.mutex
	if err := m.readyAlone(ctx); err != nil {
		return nil, nil, failed(ctx, op, m.name, err)
	}
	token, sent := uuid.NewString(), time.Now()
	lease := m.newLease(token, s.kind+token, 0)
	reply, waited, err := shareScript.ask(ctx, m, m.shareKeys(), lease.member, m.millis, s.kind, s.permits)
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
		lease.waited = waited
		if err = lease.begin(sent, m.ttl); err == nil {
			return lease, nil, nil
		}
		m.giveUp(ctx, lease.member, err)
	}
	return nil, nil, failed(ctx, op, m.name, err)
}
