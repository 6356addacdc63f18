package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
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

const replicaTries = 3 // where a script is not loaded yet, or a slot has moved

// replicated sees to it that as many replicas as Options ask for know of the lease: it writes the lease's time anew, which comes
// after the acquisition in the stream of replication, whoever wrote that, and waits on the same connection.
func (l *Lease) replicated(ctx context.Context) error {
	o, m := &l.locker.opts, l.mutex
	for try := 1; ; try++ {
		node, err := l.locker.nodeOf(ctx, m.key)
		if err != nil {
			return err
		}
		var extend, wait *redis.IntCmd
		sent := time.Now()
		_, _ = node.Pipelined(ctx, func(p redis.Pipeliner) error {
			extend = extendScript.QueueInt(ctx, p, m.lockKey(), l.member, m.ttl.Milliseconds(), "exactly") // a write, whatever is left
			wait = redis.NewIntCmd(ctx, "wait", o.Replicas, o.ReplicaTimeout.Milliseconds())
			return p.Process(ctx, wait)
		})
		left, err := extend.Result()
		switch {
		case redis.HasErrorPrefix(err, "NOSCRIPT") || redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK"):
			if try == replicaTries {
				return err
			}
			if _, err := l.sendExtend(ctx, m.ttl, true); err != nil { // loads the script, and finds the node
				return err
			}
			continue
		case err != nil:
			return err
		}
		if err := l.extended(sent, m.ttl, left); err != nil {
			return err
		}
		n, err := wait.Result()
		if err == nil && n < int64(o.Replicas) {
			err = fmt.Errorf("%w: %d of %d replicas confirmed within %v", ErrNotReplicated, n, o.Replicas, o.ReplicaTimeout)
		}
		return err
	}
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
