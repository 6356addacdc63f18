package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Shard is who has the slot of a key.
type Shard struct {
	Slot    int
	Master  *Process
	Replica *Process // nil where none lives
}

// ShardOf asks the nodes that live who has a key's slot, and waits until they agree.
func (c *Cluster) ShardOf(ctx context.Context, key string) (Shard, error) {
	var found Shard
	return found, within(ctx, func() error {
		views := map[Shard]bool{}
		for _, node := range c.Nodes {
			if !node.running() {
				continue
			}
			if err := node.admin(func(client *redis.Client) (err error) {
				found, err = c.view(ctx, client, key)
				return err
			}); err != nil {
				return err
			}
			views[found] = true
		}
		if len(views) != 1 {
			return fmt.Errorf("%d views of the slot of %q", len(views), key)
		}
		return nil
	})
}

// view is what one node says.
func (c *Cluster) view(ctx context.Context, client *redis.Client, key string) (Shard, error) {
	slot, err := client.ClusterKeySlot(ctx, key).Result()
	if err != nil {
		return Shard{}, err
	}
	shards, err := client.ClusterShards(ctx).Result()
	if err != nil {
		return Shard{}, err
	}
	found := Shard{Slot: int(slot)}
	for _, s := range shards {
		if !slices.ContainsFunc(s.Slots, func(r redis.SlotRange) bool { return r.Start <= slot && slot <= r.End }) {
			continue
		}
		for _, n := range s.Nodes {
			if n.Health != "online" {
				continue
			}
			p := c.node(n.Port)
			if n.Role == "master" {
				found.Master = p
			} else {
				found.Replica = p
			}
		}
	}
	if found.Master == nil {
		return found, fmt.Errorf("slot %d has no master", slot)
	}
	return found, nil
}

func (c *Cluster) node(port int64) *Process {
	for _, p := range c.Nodes {
		if strings.HasSuffix(p.Addr, fmt.Sprint(":", port)) {
			return p
		}
	}
	return nil
}

// Failover has the replica of a key's slot take over from its master while both are alive (CLUSTER FAILOVER), and returns
// when all nodes know.
func (c *Cluster) Failover(ctx context.Context, key string) error {
	before, err := c.ShardOf(ctx, key)
	if err != nil {
		return err
	}
	if err := before.Replica.admin(func(r *redis.Client) error {
		return within(ctx, func() error { return r.ClusterFailover(ctx).Err() })
	}); err != nil {
		return err
	}
	return c.Promoted(ctx, key, before.Master)
}

// Promoted waits until another than old is the master of a key's slot, all nodes that live know it, and it takes writes.
func (c *Cluster) Promoted(ctx context.Context, key string, old *Process) error {
	return within(ctx, func() error {
		now, err := c.ShardOf(ctx, key)
		switch {
		case err != nil:
			return err
		case now.Master == old:
			return errors.New("the master is still " + old.Addr)
		}
		return now.Master.admin(func(m *redis.Client) error {
			info, err := m.ClusterInfo(ctx).Result()
			if err == nil && !strings.Contains(info, "cluster_state:ok") {
				err = errors.New("the cluster is not ok")
			}
			return err
		})
	})
}

// Migration is a slot on its way from one master to another.
type Migration struct {
	cluster  *Cluster
	slot     int
	from, to *Process
	toID     string
}

// Migrate begins to move the slot of a key to another master (MIGRATING, IMPORTING). Its keys stay until they are moved.
func (c *Cluster) Migrate(ctx context.Context, key string) (*Migration, error) {
	shard, err := c.ShardOf(ctx, key)
	if err != nil {
		return nil, err
	}
	m := &Migration{cluster: c, slot: shard.Slot, from: shard.Master}
	for _, p := range c.Nodes[:3] {
		if p != m.from {
			m.to = p
		}
	}
	fromID, err := m.from.id(ctx)
	if err != nil {
		return nil, err
	}
	if m.toID, err = m.to.id(ctx); err != nil {
		return nil, err
	}
	if err := m.to.setSlot(ctx, m.slot, "importing", fromID); err != nil {
		return nil, err
	}
	return m, m.from.setSlot(ctx, m.slot, "migrating", m.toID)
}

// MoveKeys moves the keys that the slot has, one by one, and says how many there were.
func (m *Migration) MoveKeys(ctx context.Context) (int, error) {
	moved := 0
	_, port, err := net.SplitHostPort(m.to.Addr)
	if err != nil {
		return 0, err
	}
	return moved, m.from.admin(func(c *redis.Client) error {
		for {
			keys, err := c.ClusterGetKeysInSlot(ctx, m.slot, 1).Result()
			if err != nil || len(keys) == 0 {
				return err
			}
			if err := c.Migrate(ctx, "127.0.0.1", port, keys[0], 0, 5*time.Second).Err(); err != nil {
				return err
			}
			moved++
		}
	})
}

// Finish gives the slot to its new master, and returns when all nodes know. All keys must have been moved.
func (m *Migration) Finish(ctx context.Context) error {
	for _, p := range []*Process{m.to, m.from} { // in this order, so that the slot always has a master
		if err := p.setSlot(ctx, m.slot, "node", m.toID); err != nil {
			return err
		}
	}
	return within(ctx, func() error {
		for _, p := range m.cluster.Nodes {
			if err := p.admin(func(c *redis.Client) error {
				shards, err := c.ClusterShards(ctx).Result()
				if err != nil {
					return err
				}
				for _, s := range shards {
					if slices.ContainsFunc(s.Nodes, func(n redis.Node) bool { return m.cluster.node(n.Port) == m.to }) &&
						slices.ContainsFunc(s.Slots, func(r redis.SlotRange) bool { return int(r.Start) <= m.slot && m.slot <= int(r.End) }) {
						return nil
					}
				}
				return errors.New(p.Addr + " does not know yet")
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *Process) id(ctx context.Context) (id string, err error) {
	return id, p.admin(func(c *redis.Client) error {
		id, err = c.Do(ctx, "cluster", "myid").Text()
		return err
	})
}

func (p *Process) setSlot(ctx context.Context, slot int, state, node string) error {
	return p.admin(func(c *redis.Client) error { return c.Do(ctx, "cluster", "setslot", slot, state, node).Err() })
}

// CutOff stops replicas and breaks their links to the master: what is written from now on they do not have, whatever they
// are made later. Rejoin lets them go on.
func CutOff(ctx context.Context, master *Process, replicas ...*Process) error {
	for _, r := range replicas {
		if err := r.pause(); err != nil {
			return err
		}
	}
	return master.admin(func(c *redis.Client) error {
		// What was sent before lies with the stopped replicas, and nothing is sent after: they cannot connect again.
		return within(ctx, func() error {
			if err := c.ClientKillByFilter(ctx, "TYPE", "replica").Err(); err != nil {
				return err
			}
			info, err := c.Info(ctx, "replication").Result()
			if err == nil && !strings.Contains(info, "connected_slaves:0") {
				err = errors.New("a replica is still connected")
			}
			return err
		})
	})
}

// Rejoin ends CutOff for a replica.
func Rejoin(replicas ...*Process) error {
	var errs []error
	for _, r := range replicas {
		errs = append(errs, r.resume())
	}
	return errors.Join(errs...)
}

// Replicated waits until this many replicas have all that was written to p so far.
func (p *Process) Replicated(ctx context.Context, replicas int) error {
	return p.admin(func(c *redis.Client) error {
		conn := c.Conn()
		defer conn.Close()
		return within(ctx, func() error {
			if err := conn.Ping(ctx).Err(); err != nil { // WAIT is about what was written before its connection's last command
				return err
			}
			n, err := conn.Do(ctx, "wait", replicas, 100).Int()
			if err == nil && n < replicas {
				err = fmt.Errorf("%d of %d replicas have confirmed", n, replicas)
			}
			return err
		})
	})
}

func (p *Process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}
