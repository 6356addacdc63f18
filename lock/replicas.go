package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/script"
)

// A client of several nodes says which of them has a key.
type masters interface {
	MasterForKey(ctx context.Context, key string) (*redis.Client, error)
}

// canWait says whether WAIT can be sent behind a write, on its connection.
func (l *Locker) canWait() bool {
	switch l.client.(type) {
	case *redis.Client, masters:
		return true
	}
	return false
}

// acquisition is a script that takes something for a token of its own, so that it may run twice. It is sent without
// go-redis' own repetition at first: an AutoPipeliner puts only commands of one policy into a batch, and a release must not
// be repeated blindly.
type acquisition struct{ once, again *script.Script }

func newAcquisition(source string) acquisition {
	s := script.New(source)
	return acquisition{s.Once(), s}
}

// ask runs the script. Where replicas must confirm what it does, WAIT goes behind it on its connection, in the same round
// trip, and is returned where it was answered.
func (a acquisition) ask(ctx context.Context, m *Mutex, keys script.Keys, args ...any) ([]string, *redis.IntCmd, error) {
	if m.locker.opts.Replicas > 0 {
		if err := ctx.Err(); err != nil {
			return nil, nil, err // nothing was sent
		}
		reply, wait, err := a.askAndWait(ctx, m, keys, args)
		if err == nil || ctx.Err() != nil {
			return reply, wait, err
		} // else a script that is not loaded, a slot that has moved, no reply: what follows can deal with all that
	}
	reply, err := a.once.StringsOf(ctx, m.locker.client, script.AnyLength, keys, args...)
	if err != nil && script.Unknown(err) && ctx.Err() == nil {
		reply, err = a.again.StringsOf(ctx, m.locker.client, script.AnyLength, keys, args...)
	}
	return reply, nil, err
}

func (a acquisition) askAndWait(ctx context.Context, m *Mutex, keys script.Keys, args []any) ([]string, *redis.IntCmd, error) {
	node, err := m.locker.nodeOf(ctx, m.key)
	if err != nil {
		return nil, nil, err
	}
	ask := a.again.StringsCmd(ctx, keys, args...)
	var wait *redis.IntCmd
	_, _ = node.Pipelined(ctx, func(p redis.Pipeliner) error {
		_ = p.Process(ctx, ask)
		wait = m.locker.queueWait(ctx, p)
		return nil
	})
	if err := wait.Err(); err != nil && !script.Replied(err) {
		wait = nil
	}
	reply, err := ask.Result()
	return reply, wait, err
}

func (l *Locker) queueWait(ctx context.Context, p redis.Pipeliner) *redis.IntCmd {
	wait := redis.NewIntCmd(ctx, "wait", l.opts.Replicas, l.opts.ReplicaTimeout.Milliseconds())
	_ = p.Process(ctx, wait)
	return wait
}

const replicaTries = 3 // where a script is not loaded yet, or a slot has moved

// replicated sees to it that as many replicas as Options ask for know of the lease. Where that was not asked together with
// the acquisition, as of a grant, it writes the lease's time anew, which comes after the acquisition in the stream of
// replication, whoever wrote that, and waits on the same connection.
func (l *Lease) replicated(ctx context.Context) error {
	m := l.mutex
	if l.waited != nil {
		return l.locker.enough(l.waited)
	}
	for try := 1; ; try++ {
		node, err := l.locker.nodeOf(ctx, m.key)
		if err != nil {
			return err
		}
		var extend, wait *redis.IntCmd
		sent := time.Now()
		_, _ = node.Pipelined(ctx, func(p redis.Pipeliner) error {
			extend = extendScript.QueueInt(ctx, p, m.lockKey(), l.member, m.ttl.Milliseconds(), "anew") // a write, whatever is left
			wait = l.locker.queueWait(ctx, p)
			return nil
		})
		left, err := extend.Result()
		switch {
		case redis.HasErrorPrefix(err, "NOSCRIPT") || redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK"):
			if try == replicaTries {
				return err
			}
			if _, err := l.sendExtend(ctx, m.ttl, false); err != nil { // loads the script, and finds the node
				return err
			}
			continue
		case err != nil:
			return err
		}
		if err := l.extended(sent, m.ttl, left); err != nil {
			return err
		}
		return l.locker.enough(wait)
	}
}

// enough holds the answer of WAIT against Options.
func (l *Locker) enough(wait *redis.IntCmd) error {
	n, err := wait.Result()
	if err == nil && n < int64(l.opts.Replicas) {
		err = fmt.Errorf("%w: %d of %d replicas confirmed within %v", ErrNotReplicated, n, l.opts.Replicas, l.opts.ReplicaTimeout)
	}
	return err
}

func (l *Locker) nodeOf(ctx context.Context, key string) (*redis.Client, error) {
	switch c := l.client.(type) {
	case *redis.Client:
		return c, nil
	case masters:
		return c.MasterForKey(ctx, key)
	}
	return nil, errors.ErrUnsupported // New has refused it
}
