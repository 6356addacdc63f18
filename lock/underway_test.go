package lock_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// between is a client with f before its network: f sees each command, and sends it.
type between struct {
	redispatterns.Client
	f func(ctx context.Context, cmd redis.Cmder, send func() error) error
}

func (b *between) Process(ctx context.Context, cmd redis.Cmder) error {
	return b.f(ctx, cmd, func() error { return b.Client.Process(ctx, cmd) })
}

// What a script does can be told from how many keys it gets.
const (
	extends  = 1
	acquires = 2
	releases = 3 // or waits
)

func scriptOf(cmd redis.Cmder) int {
	if name := cmd.Name(); name != "evalsha" && name != "eval" {
		return 0
	}
	return cmd.Args()[2].(int)
}

func isLeave(cmd redis.Cmder) bool {
	args := cmd.Args()
	return args[len(args)-1] == "exactly"
}

// renewing runs fn in a bubble with a lease whose renewal is under way and reaches Redis when hold returns.
func renewing(t *testing.T, hold func(), fn func(t *testing.T, s *redistest.Server, lease *lock.Lease)) {
	t.Helper()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		loaded := mustLock(t, newLocker(t, s.Client(t), &lock.Options{NoRenew: true}).Mutex("loaded"))
		require.NoError(t, loaded.Extend(context.Background(), time.Second))
		begun := make(chan struct{})
		begin := sync.OnceFunc(func() { close(begun) })
		c := &between{s.Client(t), func(_ context.Context, cmd redis.Cmder, send func() error) error {
			if scriptOf(cmd) == extends && !isLeave(cmd) {
				begin()
				hold()
			}
			return send()
		}}
		locks, err := lock.New(c, nil)
		require.NoError(t, err)
		defer locks.Close()
		lease := mustLock(t, locks.Mutex("x"))
		<-begun
		fn(t, s, lease)
	})
}

// A renewal that comes after the release finds the lock freed, which is no loss.
func TestARenewalThatIsOvertakenByRelease(t *testing.T) {
	t.Parallel()
	renewing(t, func() { time.Sleep(time.Second) }, func(t *testing.T, s *redistest.Server, lease *lock.Lease) {
		for range 3 {
			require.NoError(t, lease.Release(context.Background()))
			require.False(t, s.Mini.Exists("lock:x"))
		}
	})
}

// Release waits for a renewal though its context has ended, but not for longer than it may take.
func TestNoRenewalAfterReleaseWithAnEndedContext(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for takes, waits := range map[time.Duration]time.Duration{2 * time.Second: 2 * time.Second, time.Minute: 5 * time.Second} {
		renewing(t, func() { time.Sleep(takes) }, func(t *testing.T, s *redistest.Server, lease *lock.Lease) {
			began := time.Now()
			require.NoError(t, lease.Release(ended))
			require.Equal(t, waits, time.Since(began))
			require.False(t, s.Mini.Exists("lock:x"))
		})
	}
}

// A renewal that was sent before Leave does not lengthen what Leave has set.
func TestARenewalDoesNotLengthenWhatLeaveHasSet(t *testing.T) {
	t.Parallel()
	renewing(t, func() { time.Sleep(2 * time.Second) }, func(t *testing.T, s *redistest.Server, lease *lock.Lease) {
		require.NoError(t, lease.Leave(context.Background(), time.Second))
		require.Equal(t, time.Second, s.Mini.TTL("lock:x"))
		redistest.Sleep(5 * time.Second)
		require.False(t, s.Mini.Exists("lock:x"))
	})
}

// An adoption that was given up may reach Redis after what gives the lock back.
func TestAnAdoptionThatComesLateIsGivenBack(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		ctx := context.Background()
		direct := s.Client(t)
		lease := mustLock(t, newLocker(t, direct, nil).Mutex("x"))
		var adoptions atomic.Int32
		locks := newLocker(t, &between{direct, func(ctx context.Context, cmd redis.Cmder, send func() error) error {
			if adoptions.Add(1) > 1 {
				return send()
			}
			late := redis.NewCmd(context.Background(), slices.Clone(cmd.Args())...)
			go func() {
				time.Sleep(150 * time.Millisecond)
				_ = direct.Process(context.Background(), late)
			}()
			<-ctx.Done()
			cmd.SetErr(ctx.Err())
			return ctx.Err()
		}}, nil)
		_, err := locks.Mutex("x").Adopt(short(t, 50*time.Millisecond), lease.Token())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		redistest.Sleep(time.Second)
		require.Equal(t, lease.Token(), owner(t, direct, "x"))
		require.True(t, lease.Held())
		require.NoError(t, lease.Release(ctx))
	})
}

// Where the first renewal of a grant gets no reply, as on a connection that died unnoticed, there is a second while the grant
// lasts.
func TestAGrantIsExtendedThoughTheFirstTryHangs(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		ctx := context.Background()
		first := mustLock(t, newLocker(t, s.Client(t), nil).Mutex("x"))
		require.NoError(t, first.Extend(ctx, time.Second)) // the script is loaded
		var tries atomic.Int32
		locks := newLocker(t, &between{s.Client(t), func(_ context.Context, cmd redis.Cmder, send func() error) error {
			if scriptOf(cmd) == extends && tries.Add(1) == 1 {
				time.Sleep(3 * time.Second)
			}
			return send()
		}}, nil)
		got := make(chan *lock.Lease)
		go func() {
			lease, err := locks.Mutex("x").Lock(ctx)
			if err != nil {
				t.Error(err)
			}
			got <- lease
		}()
		redistest.Sleep(100 * time.Millisecond)
		require.NoError(t, first.Release(ctx))
		lease := <-got
		redistest.Sleep(5 * time.Second)
		require.True(t, lease.Held())
		require.NoError(t, lease.Release(ctx))
	})
}

// An Extend that was sent before Leave does not lengthen what Leave has set, and one that hangs costs Leave not the lease, and
// Release nothing.
func TestAnExtendThatIsUnderWay(t *testing.T) {
	t.Parallel()
	for takes, leaves := range map[time.Duration]time.Duration{2 * time.Second: 2 * time.Second, time.Minute: 4949 * time.Millisecond} {
		redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
			ctx := context.Background()
			ended, cancel := context.WithCancel(ctx)
			cancel()
			loaded := mustLock(t, newLocker(t, s.Client(t), nil).Mutex("loaded"))
			require.NoError(t, loaded.Extend(ctx, time.Second))
			require.NoError(t, loaded.Release(ctx))
			c := &between{s.Client(t), func(_ context.Context, cmd redis.Cmder, send func() error) error {
				if scriptOf(cmd) == extends && !isLeave(cmd) {
					time.Sleep(takes)
				}
				return send()
			}}
			locks, err := lock.New(c, &lock.Options{NoRenew: true})
			require.NoError(t, err)
			defer locks.Close()
			for op, waits := range map[string]time.Duration{"leave": leaves, "release": 0} {
				lease, extended := mustLock(t, locks.Mutex(op)), make(chan error, 1)
				go func() { extended <- lease.Extend(ctx, time.Hour) }()
				redistest.Sleep(time.Millisecond)
				began := time.Now()
				if op == "leave" {
					require.NoError(t, lease.Leave(ended, 3*time.Second), "though its context has ended")
				} else {
					require.NoError(t, lease.Release(ctx))
				}
				require.InDelta(t, waits, time.Since(began), float64(2*time.Millisecond), op)
				require.ErrorIs(t, <-extended, lock.ErrLost)
				require.LessOrEqual(t, s.Mini.TTL("lock:"+op), 3*time.Second, op)
			}
		})
	}
}
