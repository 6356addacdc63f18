package acl_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// term is the TTL of locks here, so long that a machine busy with all these runs loses none, and short since some of those that lack a right wait for its end.
const term = 4 * time.Second

func locks(c *calls, client redispatterns.Client) {
	l, err := lock.New(client, &lock.Options{TTL: term})
	c.did("New", err)
	defer func() { _ = l.Close() }()
	for _, name := range []string{redistest.ID(), redistest.ID() + "{tag}"} {
		useMutex(c, l.Mutex(name).WithTTL(term), name)
		useShared(c, l.RWMutex(name).WithTTL(term), l.Semaphore(name+"s", 1).WithTTL(term), name)
	}
	if c.long {
		waitForTwo(c, l)
	}
	knows[lock.Mutex](c, "WithTTL")
	knows[lock.RWMutex](c, "WithTTL")
	knows[lock.Semaphore](c, "WithTTL")
	knows[lock.Lease](c, "Context", "Fence", "Held", "Name", "Token", "Until", "String", "GoString")
}

// waitForTwo waits for two locks, for the second until the subscription has been quiet for so long that it is pinged, and that
// to the first's channel has ended.
func waitForTwo(c *calls, l *lock.Locker) {
	names := [2]string{redistest.ID(), redistest.ID()}
	first, second := hold(c, l.Mutex(names[0])), hold(c, l.Mutex(names[1]))
	waiting := [2]<-chan error{wait(c.ctx, l.Mutex(names[0]).Lock), wait(c.ctx, l.Mutex(names[1]).Lock)}
	c.queued(names[0])
	c.queued(names[1])
	c.did("Lease.Release", first.Release(c.ctx))
	c.did("Mutex.Lock", <-waiting[0])
	c.until(func() bool {
		channels, err := c.as.admin.PubSubChannels(ctx, "{lock:"+names[0]+"}*").Result()
		return err == nil && len(channels) == 0
	})
	c.until(func() bool {
		list, _ := c.as.admin.Do(ctx, "client", "list", "type", "pubsub").Text()
		for client := range strings.Lines(list) {
			if strings.Contains(client, " user="+c.as.name+" ") && strings.Contains(client, " cmd=ping ") {
				return true
			}
		}
		return false
	})
	c.did("Lease.Release", second.Release(c.ctx))
	c.did("Mutex.Lock", <-waiting[1])
}

// queued waits until somebody stands in a lock's queue.
func (c *calls) queued(name string) {
	key := "{lock:" + name + "}~q"
	if strings.Contains(name, "{") {
		key = "lock:" + name + "~q"
	}
	c.until(func() bool { return c.as.admin.Exists(ctx, key).Val() == 1 })
}

func hold(c *calls, m *lock.Mutex) *lock.Lease {
	lease, err := m.Lock(c.ctx)
	c.did("Mutex.Lock", err)
	return lease
}

// wait acquires in the background, and releases at once.
func wait(ctx context.Context, acquire func(context.Context) (*lock.Lease, error)) <-chan error {
	got := make(chan error, 1)
	go func() { got <- lock.Do(ctx, acquire, func(context.Context, *lock.Lease) error { return nil }) }()
	return got
}

func useMutex(c *calls, m *lock.Mutex, name string) {
	lease := hold(c, m)
	c.did("Lease.Extend", lease.Extend(c.ctx, time.Minute))
	_, err := lease.TTL(c.ctx)
	c.did("Lease.TTL", err)
	_, err = m.Status(c.ctx)
	c.did("Mutex.Status", err)
	adopted, err := m.Adopt(c.ctx, lease.Token())
	c.did("Mutex.Adopt", err)
	c.did("Lease.Release", adopted.Release(c.ctx))
	lease, err = m.TryLock(c.ctx)
	c.did("Mutex.TryLock", err)
	waiting := wait(c.ctx, m.Lock)
	c.queued(name)
	c.did("Lease.Release", lease.Release(c.ctx))
	c.did("Mutex.Lock", <-waiting)
	lease = hold(c, m)
	given, giveUp := context.WithCancel(c.ctx)
	waiting = wait(given, m.Lock)
	c.queued(name)
	giveUp() // and leaves the queue
	<-waiting
	c.did("Lease.Leave", lease.Leave(c.ctx, time.Minute))
	c.did("Mutex.ForceUnlock", m.ForceUnlock(c.ctx))
}

func useShared(c *calls, rw *lock.RWMutex, s *lock.Semaphore, name string) {
	reader, err := rw.RLock(c.ctx)
	c.did("RWMutex.RLock", err)
	second, err := rw.TryRLock(c.ctx)
	c.did("RWMutex.TryRLock", err)
	c.did("Lease.Extend", reader.Extend(c.ctx, time.Minute))
	c.did("Lease.Release", second.Release(c.ctx))
	writer := wait(c.ctx, rw.Lock)
	c.queued(name)
	if overtaking, err := rw.TryRLock(c.ctx); err == nil { // refused, unless the writer has to poll
		c.did("Lease.Release", overtaking.Release(c.ctx))
	}
	c.did("Lease.Release", reader.Release(c.ctx))
	c.did("RWMutex.Lock", <-writer)
	lease, err := rw.TryLock(c.ctx)
	c.did("RWMutex.TryLock", err)
	c.did("Lease.Release", lease.Release(c.ctx))

	permit, err := s.Acquire(c.ctx)
	c.did("Semaphore.Acquire", err)
	_, _ = s.TryAcquire(c.ctx) // refused
	c.called["Semaphore.TryAcquire"] = true
	_, err = s.InUse(c.ctx)
	c.did("Semaphore.InUse", err)
	c.did("Lease.Release", permit.Release(c.ctx))
}

// A quorum needs the same line on each of its nodes.
func TestQuorum(t *testing.T) {
	t.Parallel()
	rules := granted(t)["locks"]
	var nodes []redispatterns.Client
	var users []login
	for range 3 {
		s, _ := redistest.Own(t)
		u := user(t, s.Client(t), rules)
		users = append(users, u)
		nodes = append(nodes, s.Client(t, func(o *redis.Options) { o.Username, o.Password = u.name, u.name }))
	}
	l, err := lock.NewQuorum(nil, nodes...)
	require.NoError(t, err)
	defer l.Close()
	m := l.Mutex("order:12345")
	lease, err := m.Lock(ctx)
	require.NoError(t, err)
	_, err = m.TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, lease.Extend(ctx, time.Minute))
	_, err = lease.TTL(ctx)
	require.NoError(t, err)
	require.NoError(t, lease.Release(ctx))
	for _, u := range users {
		require.Empty(t, u.refused())
	}
}

// Where PUBLISH or SUBSCRIBE is refused a lock goes on: its waiters find it by looking.
func TestLocksWithoutMessages(t *testing.T) {
	t.Parallel()
	s, _ := redistest.Own(t)
	admin, rules := s.Client(t), granted(t)["locks"]
	for _, rule := range []string{"+publish", "+subscribe", "&"} {
		t.Run("without "+rule, func(t *testing.T) {
			reduced := slices.DeleteFunc(slices.Clone(rules), func(r string) bool { return strings.HasPrefix(r, rule) })
			require.Less(t, len(reduced), len(rules))
			u := user(t, admin, reduced)
			l, err := lock.New(s.Client(t, func(o *redis.Options) { o.Username, o.Password = u.name, u.name }), nil)
			require.NoError(t, err)
			defer l.Close()
			m := l.Mutex(redistest.ID())
			lease, err := m.Lock(ctx)
			require.NoError(t, err)
			waiting := wait(ctx, m.Lock)
			redistest.Eventually(t, func() bool { return len(u.refused()) > 0 || rule == "+publish" }, "refused")
			require.NoError(t, lease.Release(ctx))
			select {
			case err := <-waiting:
				require.NoError(t, err)
			case <-time.After(5 * time.Second): // it looks once a second at the least
				t.Fatal("the waiter does not look")
			}
		})
	}
}

// A database other than 0 needs SELECT, and Replicas needs WAIT.
func TestWhatOptionsNeedBesides(t *testing.T) {
	t.Parallel()
	s, _ := redistest.Own(t)
	admin, rules := s.Client(t), granted(t)["locks"]
	acquire := func(rule string, db int, opts *lock.Options) (refused []string, err error) {
		u := user(t, admin, append(slices.Clone(rules), rule))
		l, err := lock.New(s.Client(t, func(o *redis.Options) { o.Username, o.Password, o.DB = u.name, u.name, db }), opts)
		require.NoError(t, err)
		defer l.Close()
		lease, err := l.Mutex(redistest.ID()).TryLock(ctx)
		if err == nil {
			err = lease.Release(ctx)
		}
		return u.refused(), err
	}
	refused, err := acquire("+ping", 1, nil)
	require.NotEmpty(t, refused)
	require.ErrorContains(t, err, "NOPERM")
	refused, err = acquire("+select", 1, nil)
	require.Empty(t, refused)
	require.NoError(t, err)

	replicas := &lock.Options{Replicas: 1, ReplicaTimeout: 5 * time.Millisecond}
	refused, err = acquire("+ping", 0, replicas)
	require.NotEmpty(t, refused)
	require.ErrorContains(t, err, "NOPERM")
	refused, err = acquire("+wait", 0, replicas)
	require.Empty(t, refused)
	require.ErrorIs(t, err, lock.ErrNotReplicated, "since there is no replica")
}
