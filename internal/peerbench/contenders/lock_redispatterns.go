package contenders

import (
	"context"

	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
	"github.com/redispatterns/redispatterns/lock"
)

func init() {
	const note = "each lock has a fencing token and is renewed in the background"
	all := []bench.Contender[bench.LockConfig, bench.Locker]{
		{Name: bench.Ours, Note: note, Apart: true, New: newLock(plain)},
		{Name: bench.Ours + ", AutoPipeliner", Note: note, Merges: true, New: newLock(merging)},
	}
	bench.Register(&bench.UncontendedLocks, all...)
	bench.Register(&bench.HandoffLocks, all...)
}

func newLock(open connect) func(bench.LockConfig) (bench.Locker, error) {
	return func(c bench.LockConfig) (bench.Locker, error) {
		db, close, err := open(c.Conn)
		if err != nil {
			return nil, err
		}
		locks, err := lock.New(db, &lock.Options{TTL: c.TTL})
		return &ourLocker{locks, close}, err
	}
}

type ourLocker struct {
	locks *lock.Locker
	close func() error
}

func (l *ourLocker) Close() error { return firstError(l.locks.Close(), l.close()) }

func (l *ourLocker) Lock(ctx context.Context, key string) (bench.Held, error) {
	lease, err := l.locks.Mutex(key).Lock(ctx)
	if err != nil {
		return nil, err
	}
	return (*ourHeld)(lease), nil
}

type ourHeld lock.Lease

func (h *ourHeld) Unlock(ctx context.Context) error { return (*lock.Lease)(h).Release(ctx) }
