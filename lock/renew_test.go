package lock

import (
	"container/heap"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A lease that has little left is due again before what is sent with it is full. It is in a batch once all the same, beside
// the others, and still lapses in time.
func TestALeaseIsInABatchOnce(t *testing.T) {
	t.Parallel()
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer c.Close()
	l, err := New(c, &Options{TTL: time.Hour})
	require.NoError(t, err)
	now := time.Now()
	leases := map[string]*Lease{}
	for name, left := range map[string]time.Duration{"little": l.opts.TTL / 20, "more": l.opts.TTL / 2} {
		lease := l.Mutex(name).newLease(name, name, 1)
		lease.began, lease.until, lease.renewal.due = now, now.Add(left), now
		heap.Push(&l.renewer.leases, lease)
		leases[name] = lease
	}
	l.renewer.running = true
	lapsed, due, more := l.renewer.take()
	require.Empty(t, lapsed)
	require.True(t, more)
	require.ElementsMatch(t, []*Lease{leases["little"], leases["more"]}, due)
	require.Equal(t, 1, leases["little"].renewals.n)
	require.False(t, l.renewer.next.After(leases["little"].until), "it is looked at when it lapses")
}
