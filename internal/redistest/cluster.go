package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/rediskey"
)

// Cluster is a Redis Cluster: of this process' own servers, or the one that REDIS_CLUSTER_ADDRS names.
type Cluster struct {
	Nodes []*Process // masters, then replicas, as they were at the start; none of a foreign cluster
	Addrs []string
}

// clusterEnv names a cluster of others, by the addresses of some of its nodes with commas between them. Tests that share a
// cluster then use it: by keys of random names, and without disturbing it but for its cache of scripts.
const clusterEnv = "REDIS_CLUSTER_ADDRS"

// OneNode is a cluster of one master with all slots, shared by the tests of this binary: enough to refuse what crosses slots.
// Where REDIS_CLUSTER_ADDRS is set it is that cluster, and so is ThreeMasters.
func OneNode(t testing.TB) *Cluster {
	t.Helper()
	return sharedCluster(t, 1)
}

// ThreeMasters is a cluster of three masters, shared by the tests of this binary.
func ThreeMasters(t testing.TB) *Cluster {
	t.Helper()
	return sharedCluster(t, 3)
}

// OwnCluster starts a cluster of masters for this test alone, to be disturbed. A node that is silent for nodeTimeout is taken
// for dead, and all of them refuse what they are asked then.
func OwnCluster(t testing.TB, masters int, nodeTimeout time.Duration) *Cluster {
	t.Helper()
	needBinary(t)
	c, err := startCluster(layout{masters: masters, nodeTimeout: nodeTimeout})
	if err != nil {
		t.Fatalf("start a cluster: %v", err)
	}
	t.Cleanup(c.Stop)
	return c
}

func sharedCluster(t testing.TB, masters int) *Cluster {
	t.Helper()
	if addrs := os.Getenv(clusterEnv); addrs != "" {
		return &Cluster{Addrs: strings.Split(addrs, ",")}
	}
	needBinary(t)
	c, err := shared.cluster(masters)
	if err != nil {
		t.Fatalf("start a cluster: %v", err)
	}
	return c
}

// Client connects to the cluster until the test ends.
func (c *Cluster) Client(t testing.TB, set ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	t.Helper()
	o := &redis.ClusterOptions{Addrs: c.Addrs, ClusterStateReloadInterval: time.Second}
	for _, f := range set {
		f(o)
	}
	client := redis.NewClusterClient(o)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Replicated starts a cluster of three masters with a replica each, for this test alone. A node that is silent for
// nodeTimeout is taken for dead, and its replica promoted soon after.
func Replicated(t testing.TB, nodeTimeout time.Duration) *Cluster {
	t.Helper()
	needBinary(t)
	c, err := startCluster(layout{masters: 3, replicas: 3, nodeTimeout: nodeTimeout})
	if err != nil {
		t.Fatalf("start a cluster: %v", err)
	}
	t.Cleanup(c.Stop)
	return c
}

// StartCluster starts a cluster of masters, ready to be written to.
func StartCluster(masters int) (*Cluster, error) {
	return startCluster(layout{masters: masters, nodeTimeout: time.Second})
}

// layout is what a cluster is made of: as many replicas as masters, or none.
type layout struct {
	masters, replicas int
	nodeTimeout       time.Duration
}

func startCluster(l layout) (*Cluster, error) {
	var last error
	for range 3 { // a free port may be taken by the time that a node asks for it
		c := &Cluster{}
		if last = c.start(l); last == nil {
			return c, nil
		}
		c.Stop()
	}
	return nil, last
}

func (c *Cluster) start(l layout) error {
	nodes := l.masters + l.replicas
	ports, err := freePorts(2 * nodes)
	if err != nil {
		return err
	}
	clients := make([]*redis.Client, nodes)
	for i := range nodes {
		p, err := start(ports[2*i], "--databases", "1", "--cluster-enabled", "yes", "--cluster-port", fmt.Sprint(ports[2*i+1]),
			"--cluster-node-timeout", fmt.Sprint(l.nodeTimeout.Milliseconds()), "--cluster-replica-validity-factor", "0",
			"--cluster-allow-replica-migration", "no", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
		if err != nil {
			return err
		}
		c.Nodes, c.Addrs = append(c.Nodes, p), append(c.Addrs, p.Addr)
		clients[i] = redis.NewClient(&redis.Options{Addr: p.Addr})
		defer clients[i].Close()
	}
	ctx := context.Background()
	for i, client := range clients { // all before any meets another, which a node refuses after that
		if err := client.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
			return err
		}
	}
	for i, client := range clients[:l.masters] {
		from, to := i*rediskey.Slots/l.masters, (i+1)*rediskey.Slots/l.masters-1
		if err := client.ClusterAddSlotsRange(ctx, from, to).Err(); err != nil {
			return err
		}
	}
	for i, client := range clients {
		for j := range nodes { // everyone meets everyone, which spares waiting for gossip
			if j != i {
				if err := client.Do(ctx, "cluster", "meet", "127.0.0.1", ports[2*j], ports[2*j+1]).Err(); err != nil {
					return err
				}
			}
		}
	}
	for i, client := range clients[l.masters:] {
		id, err := clients[i].Do(ctx, "cluster", "myid").Text()
		if err != nil {
			return err
		}
		// Refused until it has heard of its master.
		if err := within(ctx, func() error { return client.ClusterReplicate(ctx, id).Err() }); err != nil {
			return err
		}
	}
	return within(ctx, func() error { return formed(ctx, clients, l) })
}

// formed is nil when every node takes writes, knows every other's slots, and has its replica's data up to date.
func formed(ctx context.Context, clients []*redis.Client, l layout) error {
	for i, client := range clients {
		info, err := client.ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}
		shards, err := client.ClusterShards(ctx).Result()
		if err != nil {
			return err
		}
		if !strings.Contains(info, "cluster_state:ok") || len(shards) != l.masters {
			return errors.New("the cluster has not formed")
		}
		for _, s := range shards {
			if len(s.Slots) == 0 || len(s.Nodes) != 1+l.replicas/l.masters {
				return errors.New("a shard has not formed")
			}
		}
		if i >= l.masters {
			info, err := client.Info(ctx, "replication").Result()
			if err != nil || !strings.Contains(info, "master_link_status:up") {
				return errors.Join(errors.New("a replica has not caught up"), err)
			}
		}
	}
	return nil
}

// Stop ends all nodes.
func (c *Cluster) Stop() {
	for _, p := range c.Nodes {
		p.Stop()
	}
}
