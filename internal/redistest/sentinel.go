package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// sentinelMaster is what the sentinels call their master.
const sentinelMaster = "mymaster"

// Sentinel is a master with replicas, watched by three sentinels, all started by this process.
type Sentinel struct {
	Master    *Process // of the start; after a failover another is
	Replicas  []*Process
	Sentinels []*Process
	Addrs     []string // of the sentinels
}

// StartSentinel starts a master with this many replicas and three sentinels, and returns when they all know each other.
// A master that dies is replaced within about five seconds; one that a busy machine holds up for three is not.
func StartSentinel(replicas int) (*Sentinel, error) {
	var last error
	for range 3 { // a free port may be taken by the time that a sentinel asks for it
		s := &Sentinel{}
		if last = s.start(replicas); last == nil {
			return s, nil
		}
		s.Stop()
	}
	return nil, last
}

// Sentinels starts a master with this many replicas and three sentinels for this test alone.
func Sentinels(t testing.TB, replicas int) *Sentinel {
	t.Helper()
	needBinary(t)
	s, err := StartSentinel(replicas)
	if err != nil {
		t.Fatalf("start sentinels: %v", err)
	}
	t.Cleanup(s.Stop)
	return s
}

// Client connects to whichever server the sentinels call the master, until the test ends.
func (s *Sentinel) Client(t testing.TB, set ...func(*redis.FailoverOptions)) *redis.Client {
	t.Helper()
	o := &redis.FailoverOptions{MasterName: sentinelMaster, SentinelAddrs: s.Addrs, ContextTimeoutEnabled: true, DialerRetries: 1}
	for _, f := range set {
		f(o)
	}
	c := redis.NewFailoverClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// MasterAddr is whom the sentinels call the master.
func (s *Sentinel) MasterAddr(ctx context.Context) (string, error) {
	var errs []error
	for _, p := range s.Sentinels {
		c := redis.NewSentinelClient(&redis.Options{Addr: p.Addr})
		addr, err := c.GetMasterAddrByName(ctx, sentinelMaster).Result()
		_ = c.Close()
		if err == nil && len(addr) == 2 {
			return net.JoinHostPort(addr[0], addr[1]), nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

// Failover has the sentinels make a replica the master while the old one is alive, and returns when they have.
func (s *Sentinel) Failover(ctx context.Context) error {
	old, err := s.MasterAddr(ctx)
	if err != nil {
		return err
	}
	c := redis.NewSentinelClient(&redis.Options{Addr: s.Addrs[0]})
	defer c.Close()
	if err := within(ctx, func() error { return c.Failover(ctx, sentinelMaster).Err() }); err != nil {
		return err
	}
	return within(ctx, func() error {
		now, err := s.MasterAddr(ctx)
		if err == nil && now == old {
			err = errors.New("the master is still " + old)
		}
		return err
	})
}

func (s *Sentinel) start(replicas int) error {
	ctx := context.Background()
	var err error
	if s.Master, err = StartRedis("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(s.Master.Addr)
	if err != nil {
		return err
	}
	for range replicas {
		p, err := StartRedis("--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
		if err != nil {
			return err
		}
		s.Replicas = append(s.Replicas, p)
	}
	master := redis.NewClient(&redis.Options{Addr: s.Master.Addr})
	defer master.Close()
	err = within(ctx, func() error {
		info, err := master.Info(ctx, "replication").Result()
		if err == nil && strings.Count(info, "state=online") != replicas {
			err = errors.New("not all replicas are online")
		}
		return err
	})
	if err != nil {
		return err
	}
	for range 3 {
		p, err := startSentinel(host, port)
		if err != nil {
			return err
		}
		s.Sentinels, s.Addrs = append(s.Sentinels, p), append(s.Addrs, p.Addr)
	}
	for _, p := range s.Sentinels {
		c := redis.NewSentinelClient(&redis.Options{Addr: p.Addr})
		err := within(ctx, func() error {
			m, err := c.Master(ctx, sentinelMaster).Result()
			if err == nil && (m["num-slaves"] != fmt.Sprint(replicas) || m["num-other-sentinels"] != "2" || m["flags"] != "master") {
				err = fmt.Errorf("not all known yet: %s replicas, %s sentinels, %s", m["num-slaves"], m["num-other-sentinels"], m["flags"])
			}
			return err
		})
		_ = c.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// startSentinel starts a sentinel whose periods are short: by its own it looks once in ten seconds.
func startSentinel(host, port string) (*Process, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nlogfile %s\n", ports[0], dir, filepath.Join(dir, "log")) +
		fmt.Sprintf("sentinel monitor %s %s %s 2\n", sentinelMaster, host, port) +
		fmt.Sprintf("sentinel down-after-milliseconds %s 3000\n", sentinelMaster) +
		fmt.Sprintf("sentinel failover-timeout %s 2000\nsentinel parallel-syncs %s 2\n", sentinelMaster, sentinelMaster)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	p, err := launch(dir, fmt.Sprintf("127.0.0.1:%d", ports[0]), redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", ports[0])},
		config, "--sentinel")
	if err != nil {
		return nil, err
	}
	c := redis.NewClient(&redis.Options{Addr: p.Addr})
	defer c.Close()
	// A sentinel demotes a replica that calls itself a master four publish periods after the promotion, if it has not heard
	// of the failover by then; the leader may take one second to notice. So that period is not as short as the others.
	err = c.Do(context.Background(), "sentinel", "debug", "info-period", 200, "ping-period", 100, "ask-period", 100,
		"publish-period", 500, "min-link-reconnect-period", 100, "election-timeout", 1000, "slave-reconf-timeout", 1000).Err()
	if err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// Stop ends all of it.
func (s *Sentinel) Stop() {
	for _, p := range append(append(s.Sentinels, s.Replicas...), s.Master) {
		if p != nil {
			p.Stop()
		}
	}
}

// within repeats fn until it returns nil, for as long as Patience lasts.
func within(ctx context.Context, fn func() error) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for {
		err := fn()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %v: %w", Patience, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
