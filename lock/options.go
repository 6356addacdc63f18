package lock

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redispatterns/redispatterns/internal/rediskey"
)

// Options of a Locker. Nil and zero fields mean the defaults.
type Options struct {
	// Prefix stands before every name in Redis. A { in it must be followed by its }. Defaults to "lock:".
	Prefix string
	// TTL is the length of a lease: how long a holder that crashed blocks the others. While a holder lives its lease is
	// renewed. At least 1ms, and whole milliseconds count. Defaults to 10s.
	TTL time.Duration
	// NoRenew lets each lease lapse at its TTL. Without it leases are renewed in the background until they are released.
	NoRenew bool
	// MaxHold ends the renewal of a lease this long after it was acquired, so that a holder that is stuck lets go: at most a
	// TTL later the lease lapses. 0 sets no bound, which is the default.
	MaxHold time.Duration
	// PollInterval is the longest pause between two looks of a waiter. Defaults to 1s.
	PollInterval time.Duration
	// Replicas is how many replicas must confirm an acquisition, by WAIT in the same round trip; that of a waiter whom a release
	// granted the lock, in one more before Lock returns. Where fewer do, it is released again and the error is ErrNotReplicated. It
	// makes it unlikely that a failover loses the lock, and no more: another replica may be promoted. It needs a *redis.Client,
	// or a client with MasterForKey as *redis.ClusterClient. Defaults to 0.
	Replicas int
	// ReplicaTimeout is how long to wait for them. It must be shorter than the client's ReadTimeout. Defaults to 100ms.
	ReplicaTimeout time.Duration
	// FenceRetention is how long a name's fencing counter outlives its last use. It should exceed the longest pause of a
	// holder that is to be recognised as late. Defaults to 24h.
	FenceRetention time.Duration
	// Observe sees every event of this Locker's leases. It is called where the event happens, so it must not block, and not call
	// Close, nor Release or Leave of the lease that the event is about: they wait for it. Defaults to none.
	Observe func(ctx context.Context, e Event)
}

func (o *Options) withDefaults() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Prefix == "" {
		c.Prefix = "lock:"
	}
	if err := rediskey.Check(c.Prefix + "name"); err != nil {
		return c, fmt.Errorf("Options.Prefix is %q: %w", c.Prefix, err)
	}
	if _, tag, open := strings.Cut(c.Prefix, "{"); open && !strings.Contains(tag, "}") { // names could close it, or not
		return c, fmt.Errorf("Options.Prefix is %q: the { in it has no }, so keys beside different locks could be the same", c.Prefix)
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		zero  time.Duration
	}{
		{"TTL", &c.TTL, 10 * time.Second},
		{"PollInterval", &c.PollInterval, time.Second},
		{"ReplicaTimeout", &c.ReplicaTimeout, 100 * time.Millisecond},
		{"FenceRetention", &c.FenceRetention, 24 * time.Hour},
	} {
		if *d.value == 0 {
			*d.value = d.zero
		}
		if err := checkLength("Options."+d.name, *d.value); err != nil {
			return c, err
		}
		*d.value = d.value.Truncate(time.Millisecond)
	}
	if c.MaxHold < 0 {
		return c, negative("Options.MaxHold", c.MaxHold)
	}
	if c.Replicas < 0 {
		return c, negative("Options.Replicas", c.Replicas)
	}
	return c, nil
}

// longest keeps times within what Redis and time.Time can say.
const longest = 100 * 365 * 24 * time.Hour

func checkLength(name string, d time.Duration) error {
	if d < time.Millisecond || d > longest {
		return fmt.Errorf("%s is %v, must be at least 1ms and at most %v", name, d, longest)
	}
	return nil
}

func negative(name string, value any) error {
	return fmt.Errorf("%s is %v, must not be negative", name, value)
}
