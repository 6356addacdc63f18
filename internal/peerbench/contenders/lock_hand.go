package contenders

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
)

func init() {
	bench.Register(&bench.UncontendedLocks, bench.Contender[bench.LockConfig, bench.Locker]{
		Name: "by hand: SET NX PX + EVALSHA", Ref: true,
		New: newHandLock(plain),
	}, bench.Contender[bench.LockConfig, bench.Locker]{
		Name: "by hand, auto-pipelined", Ref: true, Merges: true,
		Note: "the same on go-redis' AutoPipeliner",
		New:  newHandLock(merging),
	}, bench.Contender[bench.LockConfig, bench.Locker]{
		Name: bareName, Ref: true, Note: bareNote,
		New: newBareLock(plain),
	}, bench.Contender[bench.LockConfig, bench.Locker]{
		Name: bareName + ", auto-pipelined", Ref: true, Merges: true,
		New: newBareLock(merging),
	})
	bench.Register(&bench.HandoffLocks, bench.Contender[bench.LockConfig, bench.Locker]{
		Name: "by hand: SET NX PX every 10 ms", Ref: true,
		New: newHandLock(plain),
	}, bench.Contender[bench.LockConfig, bench.Locker]{
		Name: "by hand: BLPOP a token", Ref: true, Floor: true, Apart: true,
		Note: "the floor of a handoff, not a lock: the token is lost when its holder dies",
		New: func(c bench.LockConfig) (bench.Locker, error) {
			return tokenLock{client(c.Conn)}, nil
		},
	}, bench.Contender[bench.LockConfig, bench.Locker]{
		Name: bareName, Ref: true, Apart: true, Note: bareNote + "; a grant is waited for by hand",
		New: newBareQueue,
	})
}

var compareAndDelete = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then
	return redis.call('DEL', KEYS[1])
end
return 0`)

var errNotHeld = errors.New("lock is not held any more")

// handLock is a lock as one writes it by hand.
type handLock struct {
	db    redis.UniversalClient
	close func() error
	ttl   time.Duration
}

func newHandLock(open connect) func(bench.LockConfig) (bench.Locker, error) {
	return func(c bench.LockConfig) (bench.Locker, error) {
		db, close, err := open(c.Conn)
		return &handLock{db, close, c.TTL}, err
	}
}

func (l *handLock) Close() error { return l.close() }

func (l *handLock) Lock(ctx context.Context, key string) (bench.Held, error) {
	value := token()
	for {
		ok, err := l.db.SetNX(ctx, key, value, l.ttl).Result()
		if err != nil {
			return nil, err
		}
		if ok {
			return &handHeld{l.db, key, value}, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

type handHeld struct {
	db         redis.UniversalClient
	key, value string
}

func (h *handHeld) Unlock(ctx context.Context) error {
	n, err := compareAndDelete.Run(ctx, h.db, []string{h.key}, h.value).Int()
	if err == nil && n == 0 {
		err = errNotHeld
	}
	return err
}

// tokenLock passes one list element around.
type tokenLock struct{ db *redis.Client }

func (l tokenLock) Close() error { return l.db.Close() }

func (l tokenLock) PrepareKey(ctx context.Context, key string) error {
	return l.db.LPush(ctx, key, 1).Err()
}

func (l tokenLock) Lock(ctx context.Context, key string) (bench.Held, error) {
	for ctx.Err() == nil {
		err := l.db.BLPop(ctx, time.Second, key).Err()
		if err == nil {
			return tokenHeld{l.db, key}, nil
		}
		if err != redis.Nil {
			return nil, err
		}
	}
	return nil, ctx.Err()
}

type tokenHeld struct {
	db  *redis.Client
	key string
}

func (h tokenHeld) Unlock(ctx context.Context) error { return h.db.LPush(ctx, h.key, 1).Err() }
