package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/redistest"
)

// servers are a master and its replica, which change places.
type servers struct {
	processes [2]*redistest.Process
	clients   [2]*redis.Client // of this process, past the proxies
	master    int
}

func startServers() (*servers, error) {
	s := &servers{}
	args := []string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}
	for i := range s.processes {
		if i > 0 {
			host, port, err := net.SplitHostPort(s.processes[0].Addr)
			if err != nil {
				s.stop()
				return nil, err
			}
			args = append(args, "--replicaof", host+" "+port)
		}
		p, err := redistest.StartRedis(args...)
		if err != nil {
			s.stop()
			return nil, err
		}
		s.processes[i] = p
		s.clients[i] = redis.NewClient(&redis.Options{Addr: p.Addr, ContextTimeoutEnabled: true})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.replicates(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *servers) stop() {
	for i, p := range s.processes {
		if p != nil {
			_ = s.clients[i].Close()
			p.Stop()
		}
	}
}

func (s *servers) addr() string          { return s.processes[s.master].Addr }
func (s *servers) client() *redis.Client { return s.clients[s.master] }

// replicates waits until the replica follows the master.
func (s *servers) replicates(ctx context.Context) error {
	return until(ctx, "the replica follows", func() error {
		info, err := s.client().Info(ctx, "replication").Result()
		if err == nil && (!strings.Contains(info, "role:master") || !strings.Contains(info, "state=online")) {
			err = errors.New(info)
		}
		return err
	})
}

// failover makes the replica the master and the master its replica. The server holds writes back meanwhile, so none is lost.
func (s *servers) failover(ctx context.Context, proxies []*redistest.Proxy) error {
	next := 1 - s.master
	host, port, err := net.SplitHostPort(s.processes[next].Addr)
	if err != nil {
		return err
	}
	if err := s.client().Do(ctx, "failover", "to", host, port).Err(); err != nil {
		return err
	}
	err = until(ctx, "the replica is the master", func() error {
		role, err := s.clients[next].Do(ctx, "role").Slice()
		if err == nil && role[0] != "master" {
			err = fmt.Errorf("%v", role)
		}
		return err
	})
	if err != nil {
		return err
	}
	// First all leave the old master, so that none reads from it what another has changed at the new one.
	for _, p := range proxies {
		p.To("")
	}
	s.master = next
	for _, p := range proxies {
		p.To(s.addr())
	}
	return s.replicates(ctx)
}

// until repeats fn until it returns nil.
func until(ctx context.Context, what string, fn func() error) error {
	for {
		err := fn()
		if err == nil {
			return nil
		}
		if !pause(ctx, 5*time.Millisecond) {
			return fmt.Errorf("not within the time: %s: %w", what, err)
		}
	}
}

// pause waits for d, and says whether ctx has not ended meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
