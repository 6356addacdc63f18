package lock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/rediskey"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// mover moves a slot of a cluster from master to master, as redis-cli does.
type mover struct {
	nodes []*redis.Client
	ids   []string
	slot  int
	at    int // which node has it
}

func newMover(t *testing.T, cluster *redistest.Cluster, slot int) *mover {
	t.Helper()
	m := &mover{slot: slot, at: -1}
	for i, addr := range cluster.Addrs {
		c := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = c.Close() })
		id, err := c.Do(context.Background(), "cluster", "myid").Text()
		require.NoError(t, err)
		m.nodes, m.ids = append(m.nodes, c), append(m.ids, id)
		if c.ClusterCountKeysInSlot(context.Background(), slot).Err() == nil && slot*len(cluster.Addrs)/rediskey.Slots == i {
			m.at = i
		}
	}
	require.NotEqual(t, -1, m.at)
	return m
}

// move moves the slot, with everything in it, to another node; stage is called between its steps.
func (m *mover) move(to int, stage func()) error {
	ctx, from := context.Background(), m.at
	if err := m.nodes[to].Do(ctx, "cluster", "setslot", m.slot, "importing", m.ids[from]).Err(); err != nil {
		return fmt.Errorf("importing: %w", err)
	}
	stage()
	if err := m.nodes[from].Do(ctx, "cluster", "setslot", m.slot, "migrating", m.ids[to]).Err(); err != nil {
		return fmt.Errorf("migrating: %w", err)
	}
	stage()
	host, port, err := net.SplitHostPort(m.nodes[to].Options().Addr)
	if err != nil {
		return err
	}
	for {
		keys, err := m.nodes[from].ClusterGetKeysInSlot(ctx, m.slot, 1).Result()
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		if err := m.nodes[from].Migrate(ctx, host, port, keys[0], 0, 5*time.Second).Err(); err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
		stage()
	}
	for _, i := range []int{to, from, 3 - to - from} { // who imports first, or the slot could be without a master
		if err := m.nodes[i].Do(ctx, "cluster", "setslot", m.slot, "node", m.ids[to]).Err(); err != nil {
			return fmt.Errorf("node: %w", err)
		}
		stage()
	}
	m.at = to
	return nil
}

// The slot of the locks moves from master to master all the time, key by key. Every operation works, nobody has a lock
// beside another, and nothing is left.
func TestASlotMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.OwnCluster(t, 3)
	const tag = "{moving}"
	plain := cluster.Client(t)
	ap, err := cluster.Client(t).AutoPipeline()
	require.NoError(t, err)
	t.Cleanup(func() { _ = ap.Close() })
	m := newMover(t, cluster, rediskey.Slot(key(tag)))

	done := make(chan struct{})
	var moving, contending sync.WaitGroup
	moves := 0
	moving.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			time.Sleep(rand.N(50 * time.Millisecond))
			if err := m.move((m.at+1+rand.N(2))%3, func() { time.Sleep(rand.N(2 * time.Millisecond)) }); err != nil {
				t.Error(err)
				return
			}
			moves++
		}
	})
	d := redistest.Long()
	var counts []int
	contending.Go(func() {
		var lockers []*lock.Locker
		for _, c := range []redispatterns.Client{plain, cluster.Client(t), ap} {
			lockers = append(lockers, newLocker(t, c, &lock.Options{PollInterval: 300 * time.Millisecond}))
		}
		counts = contend(t, lockers, "contended"+tag, d, time.Millisecond)
	})
	rounds := 0
	for _, c := range []redispatterns.Client{plain, ap} {
		locks := newLocker(t, c, nil)
		for end := time.Now().Add(d / 2); time.Now().Before(end); rounds++ {
			everything(t, locks, redistest.ID()+tag)
		}
	}
	contending.Wait()
	close(done)
	moving.Wait()
	t.Logf("%d moves; %d rounds of every operation; hand-overs by client %v", moves, rounds, counts)
	require.Greater(t, moves, 3)
	for _, n := range counts {
		require.Positive(t, n)
	}
	ctx := context.Background()
	redistest.Eventually(t, func() bool {
		return plain.Exists(ctx, key("contended"+tag), key("contended"+tag)+"~q").Val() == 0
	}, "nobody holds it or waits")
	for _, node := range m.nodes {
		onlyFences(t, node)
	}
}

// A waiter stands in the queue with a note that it listens at the server where it looked. Its slot moves, and where it is
// now nobody listens, though a message still reaches the waiter through the cluster. It must not be taken for dead and hear
// of a grant as well: that would be two holders.
func TestAWaiterWhoseSlotMovedIsNoSecondHolder(t *testing.T) {
	t.Parallel()
	cluster := redistest.OwnCluster(t, 3)
	ctx, c := context.Background(), cluster.Client(t)
	for round := range 5 {
		name := fmt.Sprint("order", round)
		queue := queueKey(name)
		m := newMover(t, cluster, rediskey.Slot(key(name)))
		holder, waiter := newLocker(t, c, nil).Mutex(name), newLocker(t, cluster.Client(t), nil).Mutex(name)
		lease := mustLock(t, holder)
		got := make(chan *lock.Lease, 1)
		go func() { got <- must(t)(waiter.Lock(ctx)) }()
		listens := func() bool { // its time of life is odd
			for _, z := range c.ZRangeWithScores(ctx, queue, 0, -1).Val() {
				if z.Score < 1e14 && int64(z.Score)%2 == 1 {
					return true
				}
			}
			return false
		}
		redistest.Eventually(t, listens, "it waits, and listens")
		require.NoError(t, m.move((m.at+1)%3, func() {}))
		require.NoError(t, lease.Release(ctx))
		next, err := holder.TryLock(ctx) // barges, if nobody has it
		if err == nil {
			select {
			case late := <-got:
				require.Failf(t, "two holders", "fences %d and %d, the second held: %v", next.Fence(), late.Fence(), late.Held())
			case <-time.After(100 * time.Millisecond): // more than a message takes, and less than the waiter's next look
			}
			require.NoError(t, next.Release(ctx))
		}
		late := <-got
		require.Equal(t, late.Token(), c.Get(ctx, key(name)).Val(), "it has what it believes to have")
		require.NoError(t, late.Release(ctx))
	}
}
