package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/script"
)

// NewQuorum makes a Locker on a majority of independent nodes, so that a lock survives the loss of a minority of them. It is
// the Redlock algorithm of redis.io/docs (Distributed Locks with Redis): a lease counts from before the first node was asked,
// less an allowance for clocks, and a call returns as soon as a majority has answered. It depends on that the nodes do not
// share a fate and that none restarts empty within a TTL, and gives no fence: where two holders at a time do harm, a majority
// alone does not exclude them. It has Mutex with Lock, TryLock and what a Lease has; the rest is ErrUnsupported. Waiters poll.
func NewQuorum(opts *Options, nodes ...redispatterns.Client) (*Locker, error) {
	if len(nodes) < 3 {
		return nil, fmt.Errorf("lock: new quorum: there are %d nodes, must be at least 3", len(nodes))
	}
	if slices.Contains(nodes, nil) {
		return nil, errors.New("lock: new quorum: a client is nil")
	}
	if opts != nil && opts.Replicas != 0 {
		return nil, fmt.Errorf("lock: new quorum: Options.Replicas: %w", ErrUnsupported)
	}
	l, err := New(nodes[0], opts)
	if err != nil {
		return nil, err
	}
	for i, node := range nodes {
		if reflect.ValueOf(node).Comparable() && slices.Contains(nodes[:i], node) {
			return nil, fmt.Errorf("lock: new quorum: node %d is a client that came before, must be independent of the others", i)
		}
	}
	l.hub, l.nodes = nil, slices.Clone(nodes)
	return l, nil
}

// majority is how many nodes make a quorum: of those configured, whether they answer or not.
func (l *Locker) majority() int { return len(l.nodes)/2 + 1 }

// NodeError is one node's part in a quorum's failure; errors.As finds the first, and Unwrap of ErrNoQuorum's error each.
type NodeError struct {
	Node int // as in the arguments of NewQuorum, from 0
	Err  error
}

func (e *NodeError) Error() string { return fmt.Sprintf("node %d: %v", e.Node, e.Err) }

// Unwrap returns Err.
func (e *NodeError) Unwrap() error { return e.Err }

// vote is what a node answered.
type vote[T any] struct {
	node  int
	value T
	err   error
}

// ask puts a question to every node at once, and returns its votes as they come. A node has a part of the TTL to answer. What
// is asked after Close, as by Release, runs all the same: Close waits for what came before it alone.
func ask[T any](ctx context.Context, m *Mutex, question func(ctx context.Context, i int) (T, error)) <-chan vote[T] {
	l := m.locker
	votes := make(chan vote[T], len(l.nodes))
	bound := min(max(m.ttl/20, minNodeBound), maxNodeBound)
	for i := range l.nodes {
		voting := func() {
			ctx, cancel := context.WithTimeout(ctx, bound)
			defer cancel()
			value, err := question(ctx, i)
			votes <- vote[T]{i, value, ownBound(ctx, err)}
		}
		if !l.run(voting) {
			go voting()
		}
	}
	return votes
}

const (
	minNodeBound = 50 * time.Millisecond
	maxNodeBound = 500 * time.Millisecond
)

// tally counts votes until enough of them are for it or none can make that many.
type tally struct {
	nodes, majority int
	yes, no         int
	failures        []error // *NodeError
}

func (l *Locker) tally() *tally { return &tally{nodes: len(l.nodes), majority: l.majority()} }

func (t *tally) open() bool {
	return t.yes < t.majority && t.nodes-t.no-len(t.failures) >= t.majority
}

// refused says, when no majority is for it any more, whether that is because another has the lock: on so many nodes that none
// can be had, or on some of a majority that answers.
func (t *tally) refused() bool { return t.no > t.nodes-t.majority || t.yes+t.no >= t.majority }

// unclear says whether none is for it any more, and it takes more votes to tell why.
func (t *tally) unclear() bool {
	return t.yes < t.majority && !t.refused() && len(t.failures) <= t.nodes-t.majority
}

// err says that too few nodes answered, and what each reported.
func (t *tally) err() error {
	all := []any{ErrNoQuorum}
	format := "%w: %d of %d nodes agreed"
	all = append(all, t.yes, t.nodes)
	for _, failure := range t.failures {
		format += "; %w"
		all = append(all, failure)
	}
	return fmt.Errorf(format, all...)
}

// attemptQuorum asks every node once for the lock. Where it fails, each node that was asked is cleaned up after, once its own
// answer is there.
func (m *Mutex) attemptQuorum(ctx context.Context) (*Lease, *HeldError, error) {
	const op = "acquire"
	if err := m.ready(ctx); err != nil {
		return nil, nil, failed(ctx, op, m.name, err)
	}
	l, token, sent := m.locker, uuid.NewString(), time.Now()
	decided := make(chan struct{})
	won := false
	answered := make([]chan struct{}, len(l.nodes))
	for i := range answered {
		answered[i] = make(chan struct{})
	}
	votes := ask(context.WithoutCancel(ctx), m, func(ctx context.Context, i int) ([]string, error) {
		defer close(answered[i])
		if err := l.open(); err != nil {
			return nil, err // nothing could clean up after it
		}
		node := l.nodes[i]
		reply, err := acquireScript.again.StringsOf(ctx, node, script.AnyLength, m.fenceKeys(), token, m.millis, l.retention)
		if len(reply) != 2 {
			l.background.Go(func() { // after Close too, which waits for this very call
				<-decided
				if !won {
					_ = script.Cleanup(ctx, func(ctx context.Context) error {
						had, failure := releaseScript.IntOf(ctx, node, m.keys(), token, l.retention, "")
						if failure == nil && had == 0 && err != nil { // what was sent may still be on its way
							failure = errNothingYet
						}
						return failure
					})
				}
			})
		}
		return reply, err
	})
	defer close(decided)
	t, held := l.tally(), (*HeldError)(nil)
	for t.open() || t.unclear() {
		select {
		case v := <-votes:
			switch {
			case v.err != nil:
				t.failures = append(t.failures, &NodeError{v.node, v.err})
			case len(v.value) == 2:
				t.no++
				refusal, err := m.held(v.value)
				if err != nil {
					return nil, nil, failed(ctx, op, m.name, err)
				}
				held = refusal
			default:
				t.yes++
			}
		case <-ctx.Done():
			return nil, nil, failed(ctx, op, m.name, ctx.Err())
		}
	}
	switch {
	case t.yes >= t.majority:
	case t.refused():
		return nil, held, nil
	default:
		return nil, nil, failed(ctx, op, m.name, cmp.Or(l.open(), t.err()))
	}
	lease := m.newLease(token, token, 0)
	lease.answered = answered
	if err := lease.begin(sent, m.ttl); err != nil {
		return nil, nil, failed(ctx, op, m.name, err)
	}
	won = true
	return lease, nil, nil
}

// extendQuorum extends a lease on every node. On those that have lost it, it takes the lock again if a majority has confirmed
// it in this same round, and only if nobody else has it there.
func (l *Lease) extendQuorum(ctx context.Context, ttl time.Duration, exactly bool) (int64, error) {
	m, t := l.mutex, l.locker.tally()
	decided := make(chan struct{})
	confirmed := false
	votes := ask(context.WithoutCancel(ctx), m, func(ctx context.Context, i int) (int64, error) {
		node, err := l.acquiredOn(ctx, i)
		if err != nil {
			return 0, err
		}
		if exactly {
			return l.leaveOn(ctx, node, ttl)
		}
		left, err := extendScript.IntOf(ctx, node, m.lockKey(), l.member, ttl.Milliseconds())
		if err == nil && left == notHeld && ttl > 0 {
			l.heal(ctx, node, ttl, decided, &confirmed)
		}
		return left, err
	})
	defer close(decided)
	var left []int64
	for t.open() {
		select {
		case v := <-votes:
			switch {
			case v.err != nil:
				t.failures = append(t.failures, &NodeError{v.node, v.err})
			case v.value == notHeld:
				t.no++
			default:
				t.yes++
				left = append(left, v.value)
			}
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	switch {
	case t.yes >= t.majority:
		confirmed = true
		return slices.Min(left), nil
	case t.no > t.nodes-t.majority:
		return notHeld, nil
	}
	return 0, t.err()
}

// heal takes the lock on a node that lost it, when the others have confirmed the lease and while it is held: for what is left
// of it there, or ttl.
func (l *Lease) heal(ctx context.Context, node redispatterns.Client, ttl time.Duration, decided <-chan struct{}, confirmed *bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.renewals.n++
	ran := l.locker.run(func() {
		defer l.landed(&l.renewals)
		<-decided
		if *confirmed && l.Held() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxNodeBound)
			defer cancel()
			millis := max(ttl, time.Until(l.Until())).Milliseconds()
			_, _ = acquireScript.again.StringsOf(ctx, node, script.AnyLength, l.mutex.fenceKeys(), l.member, millis, l.locker.retention)
		}
	})
	if !ran {
		l.renewals.n--
	}
}

// acquiredOn is a node once it has answered the acquisition, which nothing that follows may overtake.
func (l *Lease) acquiredOn(ctx context.Context, i int) (redispatterns.Client, error) {
	select {
	case <-l.answered[i]:
		return l.locker.nodes[i], nil
	case <-ctx.Done():
		return l.locker.nodes[i], ctx.Err()
	}
}

// releaseQuorum gives the lock up on every node, and returns when a majority has answered; a node that did not is tried again
// in the background.
func (l *Lease) releaseQuorum(ctx context.Context) error {
	m, t := l.mutex, l.locker.tally()
	release := func(ctx context.Context, node redispatterns.Client) (int64, error) {
		return releaseScript.IntOf(ctx, node, m.keys(), l.member, l.locker.retention, "")
	}
	votes := ask(context.WithoutCancel(ctx), m, func(ctx context.Context, i int) (had int64, err error) {
		node, err := l.acquiredOn(ctx, i)
		if err == nil {
			had, err = releaseOnceScript.IntOf(ctx, node, m.keys(), l.member, l.locker.retention, "")
			if err != nil && script.Unknown(err) {
				_, err = release(ctx, node)
				had = 1 // whatever it answers: when the first run was executed, it finds nothing
			}
		}
		if err != nil {
			l.locker.run(func() {
				<-l.answered[i]
				_ = script.Cleanup(ctx, func(ctx context.Context) error { _, err := release(ctx, node); return err })
			})
		}
		return had, err
	})
	for t.open() {
		select {
		case v := <-votes:
			switch {
			case v.err != nil:
				t.failures = append(t.failures, &NodeError{v.node, v.err})
			case v.value == 0 && !l.unknown:
				t.no++
			default:
				t.yes++
			}
		case <-ctx.Done():
			l.unknown = true
			return ctx.Err()
		}
	}
	switch {
	case t.yes >= t.majority:
		return nil
	case t.no > t.nodes-t.majority:
		return ErrLost
	}
	l.unknown = true // some may have released it: a repetition finds nothing there
	return t.err()
}
