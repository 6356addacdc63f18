package lock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/rediskey"
	"github.com/redispatterns/redispatterns/internal/script"
)

// Locker makes locks on one Redis; a process needs one. Nothing runs before the first lease. Safe for concurrent use.
type Locker struct {
	client    redispatterns.Client
	nodes     []redispatterns.Client // of a quorum, else nil
	opts      Options
	ttl       any // in ms, boxed once
	retention any // of a fence, likewise

	process string // tells this Locker's waiters from others'

	renewer renewer
	hub     hub

	background sync.WaitGroup
	cleanups   chan struct{}   // a place for each cleanup that may run at a time
	closing    context.Context // ends with Close
	close      context.CancelFunc

	mu     sync.Mutex
	lines  map[string]*line // by key
	closed bool
}

// parkedCleanups bounds how many calls to a Redis that does not answer can be under way for acquisitions that failed.
// One that finds no place is left to lapse at its TTL.
const parkedCleanups = 64

// New makes a Locker. It sends nothing. The caller keeps the client, and closes it after the Locker.
func New(client redispatterns.Client, opts *Options) (*Locker, error) {
	if client == nil {
		return nil, errors.New("lock: new: the client is nil")
	}
	o, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("lock: new: %w", err)
	}
	l := &Locker{
		client: client, opts: o, ttl: o.TTL.Milliseconds(), retention: o.FenceRetention.Milliseconds(),
		process: rand.Text()[:16], cleanups: make(chan struct{}, parkedCleanups), lines: map[string]*line{},
	}
	l.closing, l.close = context.WithCancel(context.Background())
	l.hub = newHub(l)
	if o.Replicas > 0 && !l.canWait() {
		return nil, fmt.Errorf("lock: new: Options.Replicas needs a *redis.Client or a client with MasterForKey, not %T: %w", client, ErrUnsupported)
	}
	l.renewer.init(l)
	return l, nil
}

// Mutex is the lock of a name. An unusable name is refused by the first operation, with ErrInvalidName: an empty one; one
// that ends like the keys that a lock keeps beside it, in ~ and lower-case letters or digits; and one that has a } but no
// {tag}, to which no such key could be kept close in a cluster.
func (l *Locker) Mutex(name string) *Mutex {
	m := &Mutex{locker: l, name: name, key: l.opts.Prefix + name, ttl: l.opts.TTL, millis: l.ttl}
	if name == "" {
		m.err = fmt.Errorf("%w: the name is empty", ErrInvalidName)
		return m
	}
	if err := rediskey.Check(m.key); err != nil {
		m.err = fmt.Errorf("%w: %w", ErrInvalidName, err)
		return m
	}
	m.queue = rediskey.Companion(m.key, "~q")
	m.boxed = [...]any{m.key, rediskey.Companion(m.key, "~f"), m.queue}
	return m
}

// Close ends the background work, every wait and the context of every lease, with ErrClosed. It releases nothing: what is held
// lapses at its TTL, and Release still works. Close returns when nothing of this Locker runs any more, which can take some
// seconds while an acquisition that failed is cleaned up after.
func (l *Locker) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.close()
	l.renewer.close()
	l.background.Wait()
	return nil
}

// open returns ErrClosed after Close.
func (l *Locker) open() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	return nil
}

// run runs f in the background, unless the Locker is closed.
func (l *Locker) run(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.background.Go(f)
	return true
}

// cleanup gives up what an acquisition that failed may have taken: its context ended, or no reply came.
func (m *Mutex) cleanup(ctx context.Context, member any, waiter string) {
	m.undo(ctx, func(ctx context.Context) (bool, error) {
		n, err := releaseScript.IntOf(ctx, m.locker.client, m.keys(), member, m.locker.retention, waiter)
		return n != 0, err
	})
}

// giveUp gives up what an acquisition took whose lease could not begin. Where that is because the Locker has been closed,
// nothing runs in the background any more, so it is done here: Redis has just answered.
func (m *Mutex) giveUp(ctx context.Context, member any, why error) {
	if !errors.Is(why, ErrClosed) {
		m.cleanup(ctx, member, "")
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseBound)
	defer cancel()
	_, _ = releaseScript.IntOf(ctx, m.locker.client, m.keys(), member, m.locker.retention, "")
}

// undo takes an operation back in the background. It is sent again where there is nothing to take back yet, since the
// operation may still be on its way.
func (m *Mutex) undo(ctx context.Context, send func(context.Context) (done bool, err error)) {
	l := m.locker
	if l.nodes != nil {
		return // a quorum's nodes are each cleaned up after
	}
	select {
	case l.cleanups <- struct{}{}:
	default:
		return
	}
	ran := l.run(func() {
		defer func() { <-l.cleanups }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(m.ttl, time.Second)) // then it has lapsed
		defer cancel()
		_ = script.Cleanup(ctx, func(ctx context.Context) error {
			done, err := send(ctx)
			if err == nil && !done {
				err = errNothingYet
			}
			return err
		})
	})
	if !ran {
		<-l.cleanups
	}
}

var errNothingYet = errors.New("nothing to take back yet")
