package contenders

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
)

const (
	bareName = "by hand: this library's scripts, bare"
	bareNote = "the very scripts by bare go-redis, nothing around them: the floor of this library, no lock to use"
)

// lockScript loads a script from where the lock package has it, so that what is measured is what the package runs.
func lockScript(ctx context.Context, db redis.UniversalClient, name string) (sha string, err error) {
	_, here, _, _ := runtime.Caller(0)
	source, err := os.ReadFile(filepath.Join(filepath.Dir(here), "..", "..", "..", "lock", name))
	if err != nil {
		return "", fmt.Errorf("the lock package's scripts are read from its source: %w", err)
	}
	return db.ScriptLoad(ctx, string(source)).Result()
}

// bareLock sends the lock package's scripts with nothing around them: no lease, no renewal, no line, no rule by which a grant
// that comes late is told from one that counts. What a Locker costs more than this is its own.
type bareLock struct {
	db                     redis.UniversalClient
	close                  func() error
	ttl                    int64  // milliseconds
	acquire, wait, release string // SHA-1
	process                string

	mu      sync.Mutex
	pubsub  *redis.PubSub
	ready   map[string]chan struct{} // by channel: closed when it is subscribed to
	granted map[string]chan struct{} // by token
	hearing sync.WaitGroup
}

const (
	bareRetention = 24 * 60 * 60 * 1000 // of a fence, milliseconds
	bareGrant     = 2000                // length of a grant, likewise
	bareLook      = time.Second         // between two looks of a waiter
)

func newBareLock(open connect) func(bench.LockConfig) (bench.Locker, error) {
	return func(c bench.LockConfig) (bench.Locker, error) {
		db, close, err := open(c.Conn)
		if err != nil {
			return nil, err
		}
		l := &bareLock{
			db: db, close: close, ttl: c.TTL.Milliseconds(), process: rand.Text()[:16],
			ready: map[string]chan struct{}{}, granted: map[string]chan struct{}{},
		}
		ctx := context.Background()
		for name, s := range map[string]*string{"acquire.lua": &l.acquire, "wait.lua": &l.wait, "release.lua": &l.release} {
			if *s, err = lockScript(ctx, db, name); err != nil {
				return nil, firstError(err, close())
			}
		}
		return l, nil
	}
}

func (l *bareLock) Close() error {
	l.mu.Lock()
	if l.pubsub != nil {
		l.pubsub.Close()
	}
	l.mu.Unlock()
	l.hearing.Wait()
	return l.close()
}

// Lock takes a free lock by one script.
func (l *bareLock) Lock(ctx context.Context, key string) (bench.Held, error) {
	h := &bareHeld{lock: l, key: "lock:" + key, token: uuid.NewString()}
	cmd := redis.NewStringSliceCmd(ctx, "evalsha", l.acquire, 2, h.key, h.fence(), h.token, l.ttl, bareRetention)
	_ = l.db.Process(ctx, cmd)
	switch reply, err := cmd.Result(); {
	case err != nil:
		return nil, err
	case len(reply) != 1:
		return nil, errors.New("another has it")
	}
	return h, nil
}

type bareHeld struct {
	lock       *bareLock
	key, token string
}

func (h *bareHeld) fence() string { return "{" + h.key + "}~f" }
func (h *bareHeld) queue() string { return "{" + h.key + "}~q" }

func (h *bareHeld) Unlock(ctx context.Context) error {
	n, err := h.leave(ctx, "")
	if err == nil && n == 0 {
		err = errNotHeld
	}
	return err
}

// leave releases what the token has, and takes a waiter out of the queue.
func (h *bareHeld) leave(ctx context.Context, waiter string) (int64, error) {
	cmd := redis.NewIntCmd(ctx, "evalsha", h.lock.release, 3, h.key, h.fence(), h.queue(), h.token, bareRetention, waiter)
	_ = h.lock.db.Process(ctx, cmd)
	return cmd.Result()
}

// bareQueue is a bareLock that waits for the grant of a release.
type bareQueue struct{ *bareLock }

func newBareQueue(c bench.LockConfig) (bench.Locker, error) {
	l, err := newBareLock(plain)(c)
	if err != nil {
		return nil, err
	}
	return bareQueue{l.(*bareLock)}, nil
}

func (l bareQueue) Lock(ctx context.Context, key string) (bench.Held, error) {
	h := &bareHeld{lock: l.bareLock, key: "lock:" + key, token: uuid.NewString()}
	channel := h.queue() + ":" + l.process
	grant := make(chan struct{})
	if err := l.listen(ctx, channel, h.token, grant); err != nil {
		return nil, err
	}
	defer l.deafen(h.token)
	waiter := h.token + fmt.Sprintf("%05d", bareGrant) + l.process
	for {
		cmd := redis.NewStringSliceCmd(ctx, "evalsha", l.wait, 3, h.key, h.fence(), h.queue(),
			h.token, l.ttl, bareRetention, waiter, 3*bareLook.Milliseconds(), channel)
		_ = l.db.Process(ctx, cmd)
		reply, err := cmd.Result()
		switch {
		case err == nil && len(reply) == 1:
			return h, nil
		case err != nil && ctx.Err() == nil:
			return nil, err
		}
		pause := bareLook
		if len(reply) == 3 {
			if left, err := strconv.Atoi(reply[1]); err == nil && left > 0 {
				pause = min(pause, time.Duration(left+1)*time.Millisecond)
			}
		}
		look := time.NewTimer(pause)
		select {
		case <-grant:
			look.Stop()
			return h, nil
		case <-look.C:
		case <-ctx.Done():
			look.Stop()
			_, err := h.leave(context.WithoutCancel(ctx), waiter)
			return nil, firstError(err, ctx.Err())
		}
	}
}

// listen subscribes to a channel, once, and has the token's grant told.
func (l bareQueue) listen(ctx context.Context, channel, token string, grant chan struct{}) error {
	l.mu.Lock()
	l.granted[token] = grant
	ready, known := l.ready[channel]
	if !known {
		ready = make(chan struct{})
		l.ready[channel] = ready
		if l.pubsub == nil {
			l.pubsub = l.db.Subscribe(context.Background(), channel)
			l.hearing.Go(func() { l.hear(l.pubsub) })
		} else if err := l.pubsub.Subscribe(context.Background(), channel); err != nil {
			l.mu.Unlock()
			return err
		}
	}
	l.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l bareQueue) deafen(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.granted, token)
}

func (l bareQueue) hear(pubsub *redis.PubSub) {
	for {
		received, err := pubsub.Receive(context.Background())
		if err != nil {
			return // it was closed; a connection that fails is not what is measured
		}
		l.mu.Lock()
		switch m := received.(type) {
		case *redis.Subscription:
			close(l.ready[m.Channel])
		case *redis.Message:
			for token, grant := range l.granted {
				if strings.HasPrefix(m.Payload, token) {
					close(grant)
					delete(l.granted, token)
				}
			}
		}
		l.mu.Unlock()
	}
}
