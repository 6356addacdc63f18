package main

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// chaos injects faults until ctx ends, and has undone all of them when it returns. Two kinds of them run side by side, each
// one after the other: what happens to Redis, and what happens to a worker and its network.
func chaos(ctx context.Context, f *fleet, s *servers, r *report) {
	var both sync.WaitGroup
	both.Go(func() {
		for pause(ctx, between(100, 800)) {
			if err := redisFault(f, s, r); err != nil {
				r.violate("chaos", "a fault of Redis: %v", err)
			}
		}
	})
	both.Go(func() {
		for pause(ctx, between(50, 500)) {
			if err := workerFault(ctx, f, r); err != nil {
				r.violate("chaos", "a fault of a worker: %v", err)
			}
		}
	})
	both.Wait()
}

// redisFault does something to Redis that every worker feels.
func redisFault(f *fleet, s *servers, r *report) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c := s.client()
	switch rand.IntN(8) {
	case 0:
		r.fault("every client's connection killed (CLIENT KILL)", 1)
		return c.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes").Err()
	case 1:
		r.fault("every subscription's connection killed", 1)
		return c.ClientKillByFilter(ctx, "TYPE", "pubsub").Err()
	case 2, 3:
		return killOne(ctx, c, r)
	case 4:
		r.fault("Redis paused (CLIENT PAUSE)", 1)
		return c.ClientPause(ctx, between(50, 900)).Err()
	case 5, 6:
		r.fault("script cache flushed (SCRIPT FLUSH)", 1)
		return c.ScriptFlush(ctx).Err()
	default:
		r.fault("failover without loss (FAILOVER)", 1)
		return s.failover(ctx, f.proxies)
	}
}

// killOne closes one client's connection, whatever it is at.
func killOne(ctx context.Context, c *redis.Client, r *report) error {
	list, err := c.ClientList(ctx).Result()
	if err != nil {
		return err
	}
	var ids []string
	for line := range strings.Lines(list) {
		id, rest, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
		if !strings.Contains(rest, "cmd=client") && !strings.Contains(rest, "flags=S") { // this one's, and the replica's
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	r.fault("a client's connection killed", 1)
	return c.ClientKillByFilter(ctx, "ID", ids[rand.IntN(len(ids))]).Err()
}

// workerFault does something to one worker, and has undone it when it returns. Worker 0 is not restarted, so that there is
// one whose memory can be watched for the whole time.
func workerFault(ctx context.Context, f *fleet, r *report) error {
	i := rand.IntN(len(f.proxies))
	p := f.proxies[i]
	lose := func(what string, arm func(int, ...string)) {
		names := [][]string{nil, {"evalsha"}, {"publish", "subscribe", "ping"}, {"hgetall", "pttl"}}[rand.IntN(4)]
		arm(1+rand.IntN(4), names...)
		pause(ctx, between(50, 500))
		r.fault(what, p.Hits())
		p.DropReplies(0)
	}
	switch rand.IntN(8) {
	case 0, 1:
		lose("reply lost, connection silent", p.DropReplies)
	case 2:
		lose("reply lost, connection closed", p.CloseAfter)
	case 3:
		lose("request lost, connection closed", p.CloseBefore)
	case 4:
		r.fault("worker cut off from Redis", 1)
		p.BlackHole(true)
		pause(ctx, between(100, 3000))
		p.BlackHole(false)
	case 5:
		r.fault("connections of a worker closed", 1)
		p.Kill()
	case 6:
		w := f.worker(i)
		if freeze(w.cmd) != nil {
			return nil // not on this system
		}
		r.fault("worker stopped for a while (SIGSTOP)", 1)
		pause(ctx, between(100, 4000)) // up to twice a lease
		return thaw(w.cmd)
	default:
		if len(f.proxies) == 1 {
			return nil
		}
		r.fault("worker killed and restarted (SIGKILL)", 1)
		return f.restart(1 + rand.IntN(len(f.proxies)-1))
	}
	return nil
}

// between is a random time of from to to milliseconds.
func between(from, to int) time.Duration {
	return time.Duration(from+rand.IntN(to-from)) * time.Millisecond
}
