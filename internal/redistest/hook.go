package redistest

import (
	"context"
	"net"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Counter counts what a client sends: round trips, where a pipeline is one, and the commands in them.
type Counter struct {
	mu       sync.Mutex
	trips    int
	commands []string
}

// Count adds a Counter to a client.
func Count(client interface{ AddHook(redis.Hook) }) *Counter {
	c := &Counter{}
	client.AddHook(c)
	return c
}

// Trips is the number of round trips since the last Reset.
func (c *Counter) Trips() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trips
}

// Commands are the names of the commands since the last Reset, in order.
func (c *Counter) Commands() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.commands...)
}

// Reset starts anew.
func (c *Counter) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trips, c.commands = 0, nil
}

func (c *Counter) add(cmds ...redis.Cmder) {
	if isHandshake(strings.ToLower(cmds[0].Name())) {
		return // of a new connection, and none of the caller's
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trips++
	for _, cmd := range cmds {
		c.commands = append(c.commands, cmd.Name())
	}
}

// DialHook implements redis.Hook.
func (c *Counter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook.
func (c *Counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.add(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (c *Counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.add(cmds...)
		return next(ctx, cmds)
	}
}

// isHandshake says whether a command belongs to setting a connection up, or to keeping the map of a cluster.
func isHandshake(name string) bool {
	switch name {
	case "hello", "auth", "client", "select", "command", "readonly", "quit", "cluster":
		return true
	}
	return false
}
