package lock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// Two that ask at once, while a node is down, can get a node each. Enough nodes have answered, so neither is told of an outage:
// both wait, and get the lock one after the other.
func TestASplitVoteIsNoOutage(t *testing.T) {
	t.Parallel()
	unreachable, asked := errors.New("unreachable"), atomic.Int32{}
	quorumBetween(t, 3, nil, func(_ context.Context, node int, cmd redis.Cmder, send func() error) error {
		switch {
		case node == 2:
			cmd.SetErr(unreachable)
			return unreachable
		case node == 1 && scriptOf(cmd) == acquires && asked.Add(1) == 1:
			time.Sleep(10 * time.Millisecond)
		}
		return send()
	}, func(t *testing.T, servers []*redistest.Server, locks *lock.Locker) {
		ctx := context.Background()
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				lease, err := locks.Mutex("x").Lock(ctx)
				if err == nil {
					err = lease.Release(ctx)
				}
				if err != nil {
					t.Error(err)
				}
			})
			redistest.Sleep(time.Millisecond)
		}
		both.Wait()
	})
}

// Whether a majority answers decides between "held" and "no quorum", and not in which order the nodes answer.
func TestASplitVoteInAnyOrder(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		nodes string // n: another has it, y: it is free, f: it fails
		err   error
	}{
		"one of three fails":             {"nyf", lock.ErrNotAcquired},
		"two of three fail":              {"nff", lock.ErrNoQuorum},
		"one of four fails":              {"nyyf", lock.ErrNotAcquired},
		"two of four fail":               {"nyff", lock.ErrNoQuorum},
		"two of five fail":               {"nyyff", lock.ErrNotAcquired},
		"three of five fail":             {"nyfff", lock.ErrNoQuorum},
		"those that say no are too many": {"nnnff", lock.ErrNotAcquired},
	} {
		for _, order := range []time.Duration{time.Millisecond, -time.Millisecond} {
			unreachable := errors.New("unreachable")
			quorumBetween(t, len(want.nodes), nil, func(_ context.Context, node int, cmd redis.Cmder, send func() error) error {
				time.Sleep(10*time.Millisecond + time.Duration(node)*order)
				if want.nodes[node] == 'f' {
					cmd.SetErr(unreachable)
					return unreachable
				}
				return send()
			}, func(t *testing.T, servers []*redistest.Server, locks *lock.Locker) {
				for i, s := range servers {
					if want.nodes[i] == 'n' {
						require.NoError(t, s.Mini.Set("lock:x", "another"))
					}
				}
				_, err := locks.Mutex("x").TryLock(context.Background())
				require.ErrorIs(t, err, want.err, name)
			})
		}
	}
}
