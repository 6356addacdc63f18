package lock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
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

// notUnderRace skips a test in which a cluster changes: go-redis 9.23 races with itself then, over its list of nodes, and
// over the error of a command that it sends to two nodes at a time.
func notUnderRace(t *testing.T) {
	t.Helper()
	if redistest.Race {
		t.Skip("go-redis races with itself while a cluster changes")
	}
}

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
		keys, err := m.nodes[from].ClusterGetKeysInSlot(ctx, m.slot, 10).Result()
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		args := []any{"migrate", host, port, "", 0, 5000, "keys"}
		for _, key := range keys {
			args = append(args, key)
		}
		if err := m.nodes[from].Do(ctx, args...).Err(); err != nil {
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

// agreed says whether all nodes know who has the slot, and since when: to move it on before that may leave them at odds.
func (m *mover) agreed() bool {
	ctx, epochs := context.Background(), map[string]bool{}
	for _, node := range m.nodes {
		shards, err := node.ClusterShards(ctx).Result()
		if err != nil || !slices.ContainsFunc(shards, func(s redis.ClusterShard) bool {
			return s.Nodes[0].ID == m.ids[m.at] && slices.ContainsFunc(s.Slots, func(r redis.SlotRange) bool {
				return int(r.Start) <= m.slot && m.slot <= int(r.End)
			})
		}) {
			return false
		}
		for line := range strings.Lines(node.ClusterNodes(ctx).Val()) {
			if words := strings.Fields(line); words[0] == m.ids[m.at] {
				epochs[words[6]] = true
			}
		}
	}
	return len(epochs) == 1
}

// The slot of the locks moves from master to master again and again. Every operation works, nobody has a lock
// beside another, and nothing is left.
func TestASlotMoves(t *testing.T) {
	t.Parallel()
	notUnderRace(t)
	cluster := redistest.OwnCluster(t, 3, 10*time.Second)
	const tag = "{moving}"
	plain := cluster.Client(t)
	ap, err := cluster.Client(t).AutoPipeline()
	require.NoError(t, err)
	t.Cleanup(func() { _ = ap.Close() })
	async, err := cluster.Client(t).AsyncAutoPipeline()
	require.NoError(t, err)
	t.Cleanup(func() { _ = async.Close() })
	clients := []redispatterns.Client{plain, ap, async}
	m := newMover(t, cluster, rediskey.Slot(key(tag)))

	var lockers []*lock.Locker
	for _, c := range append(clients, cluster.Client(t)) {
		lockers = append(lockers, newLocker(t, c, &lock.Options{PollInterval: 300 * time.Millisecond}))
	}
	done := make(chan struct{})
	var moving, contending sync.WaitGroup
	moves := 0
	moving.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(rand.N(100 * time.Millisecond)):
			}
			if err := m.move((m.at+1+rand.N(2))%3, func() { time.Sleep(rand.N(2 * time.Millisecond)) }); err != nil {
				t.Error(err)
				return
			}
			moves++
			for began := time.Now(); !m.agreed(); time.Sleep(10 * time.Millisecond) {
				if time.Since(began) > 20*time.Second {
					t.Error("the nodes do not agree on who has the slot")
					return
				}
			}
		}
	})
	d := redistest.Long()
	var counts []int
	contending.Go(func() { counts = contend(t, lockers, "contended"+tag, d, time.Millisecond) })
	stop := sync.OnceFunc(func() {
		contending.Wait()
		close(done)
		moving.Wait()
	})
	t.Cleanup(stop)
	rounds := 0
	for _, c := range clients {
		locks := newLocker(t, c, nil)
		for end := time.Now().Add(d / time.Duration(len(clients))); time.Now().Before(end); rounds++ {
			everything(t, locks, redistest.ID()+tag)
		}
	}
	stop()
	t.Logf("%d moves; %d rounds of every operation; hand-overs by client %v", moves, rounds, counts)
	require.Positive(t, moves)
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
	notUnderRace(t)
	cluster := redistest.OwnCluster(t, 3, 10*time.Second)
	for round := range 5 {
		name := fmt.Sprint("order", round)
		m := newMover(t, cluster, rediskey.Slot(key(name)))
		noSecondHolder(t, cluster, name, func() { require.NoError(t, m.move((m.at+1)%3, func() {})) })
	}
}

// The same where a replica is promoted; and every operation works there.
func TestAReplicaIsPromoted(t *testing.T) {
	t.Parallel()
	notUnderRace(t)
	cluster, ctx := redistest.OwnCluster(t, 3, time.Second), context.Background()
	master := redis.NewClient(&redis.Options{Addr: cluster.Addrs[0]})
	defer master.Close()
	replica := newReplica(t, master)
	const tag = "{b}" // of a slot of the first master
	require.Zero(t, rediskey.Slot(key(tag))*3/rediskey.Slots)
	locks := newLocker(t, cluster.Client(t), nil)
	for _, next := range []*redis.Client{replica, master} {
		noSecondHolder(t, cluster, redistest.ID()+tag, func() {
			promoted := func() bool {
				role, err := next.Do(ctx, "role").Slice()
				return err == nil && role[0] == "master"
			}
			var asked time.Time // a master that has voted a short time ago does not, and the attempt ends after five seconds
			redistest.Eventually(t, func() bool {
				if !promoted() && time.Since(asked) > 6*time.Second && next.Do(ctx, "cluster", "failover").Err() == nil {
					asked = time.Now()
				}
				return promoted()
			}, "promoted")
		})
		for range 3 {
			everything(t, locks, redistest.ID()+tag)
		}
	}
}

// newReplica starts a replica of a cluster's master.
func newReplica(t *testing.T, master *redis.Client) *redis.Client {
	t.Helper()
	ctx := context.Background()
	bus, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, busPort, err := net.SplitHostPort(bus.Addr().String())
	require.NoError(t, err)
	require.NoError(t, bus.Close())
	p, err := redistest.StartRedis("--databases", "1", "--cluster-enabled", "yes", "--cluster-port", busPort,
		"--cluster-node-timeout", "1000", "--cluster-replica-validity-factor", "0")
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	replica := redis.NewClient(&redis.Options{Addr: p.Addr})
	t.Cleanup(func() { _ = replica.Close() })
	id, err := master.Do(ctx, "cluster", "myid").Text()
	require.NoError(t, err)
	host, port, err := net.SplitHostPort(p.Addr)
	require.NoError(t, err)
	require.NoError(t, master.Do(ctx, "cluster", "meet", host, port, busPort).Err())
	redistest.Eventually(t, func() bool { return replica.Do(ctx, "cluster", "replicate", id).Err() == nil }, "they have met")
	redistest.Eventually(t, func() bool {
		return strings.Contains(replica.Info(ctx, "replication").Val(), "master_link_status:up") &&
			strings.Contains(master.Info(ctx, "replication").Val(), "state=online")
	}, "it has all data")
	return replica
}

// noSecondHolder has a waiter wait for a lock, its slot taken to another server, and the lock released there.
func noSecondHolder(t *testing.T, cluster *redistest.Cluster, name string, move func()) {
	t.Helper()
	ctx, c := context.Background(), cluster.Client(t)
	holder, waiter := newLocker(t, c, nil).Mutex(name), newLocker(t, cluster.Client(t), nil).Mutex(name)
	lease := mustLock(t, holder)
	got := make(chan *lock.Lease, 1)
	go func() {
		lease, err := waiter.Lock(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}()
	listens := func() bool { // its time of life is odd
		for _, z := range c.ZRangeWithScores(ctx, rediskey.Companion(key(name), "~q"), 0, -1).Val() {
			if z.Score < 1e14 && int64(z.Score)%2 == 1 {
				return true
			}
		}
		return false
	}
	redistest.Eventually(t, listens, "it waits, and listens")
	move()
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
