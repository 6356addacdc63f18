package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/rediskey"
)

// Cluster is a Redis Cluster of masters that this process started.
type Cluster struct {
	Nodes []*Process
	Addrs []string
}

// OneNode is a cluster of one master with all slots, shared by the tests of this binary: enough to refuse what crosses slots.
func OneNode(t testing.TB) *Cluster {
	t.Helper()
	return sharedCluster(t, 1)
}

// ThreeMasters is a cluster of three masters, shared by the tests of this binary.
func ThreeMasters(t testing.TB) *Cluster {
	t.Helper()
	return sharedCluster(t, 3)
}

func sharedCluster(t testing.TB, masters int) *Cluster {
	t.Helper()
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

// StartCluster starts a cluster of masters, ready to be written to.
func StartCluster(masters int) (*Cluster, error) {
	c := &Cluster{}
	err := c.start(masters)
	if err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start(masters int) error {
	ports, err := freePorts(2 * masters)
	if err != nil {
		return err
	}
	clients := make([]*redis.Client, masters)
	for i := range masters {
		p, err := start(ports[2*i], "--databases", "1", "--cluster-enabled", "yes", "--cluster-port", fmt.Sprint(ports[2*i+1]),
			"--cluster-node-timeout", "1000", "--cluster-replica-validity-factor", "0")
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
	for i, client := range clients {
		from, to := i*rediskey.Slots/masters, (i+1)*rediskey.Slots/masters-1
		if err := client.ClusterAddSlotsRange(ctx, from, to).Err(); err != nil {
			return err
		}
	}
	for i, client := range clients {
		for j := range masters { // everyone meets everyone, which spares waiting for gossip
			if j != i {
				if err := client.Do(ctx, "cluster", "meet", "127.0.0.1", ports[2*j], ports[2*j+1]).Err(); err != nil {
					return err
				}
			}
		}
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if formed(ctx, clients) {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("the cluster did not form within 30s")
		}
	}
}

// formed says whether every node takes writes and knows every other's slots.
func formed(ctx context.Context, clients []*redis.Client) bool {
	for _, client := range clients {
		info, err := client.ClusterInfo(ctx).Result()
		if err != nil || !strings.Contains(info, "cluster_state:ok") {
			return false
		}
		shards, err := client.ClusterShards(ctx).Result()
		if err != nil || len(shards) != len(clients) || slices.ContainsFunc(shards, withoutSlots) {
			return false
		}
	}
	return true
}

func withoutSlots(s redis.ClusterShard) bool { return len(s.Slots) == 0 }

// Stop ends all nodes.
func (c *Cluster) Stop() {
	for _, p := range c.Nodes {
		p.Stop()
	}
}
