package main

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"
)

var errDead = errors.New("the process is dead")

// gate stands between a worker and the world. A paused process gets nothing through until it goes on; a dead one never.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed while it is open
	dead bool
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

// pass waits until the gate is open.
func (g *gate) pass(ctx context.Context) error {
	for {
		g.mu.Lock()
		open, dead := g.open, g.dead
		g.mu.Unlock()
		if dead {
			return errDead
		}
		select {
		case <-open:
			return nil
		default:
		}
		select {
		case <-open:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pause shuts the gate; false if it is shut already.
func (g *gate) pause() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead || !isClosed(g.open) {
		return false
	}
	g.open = make(chan struct{})
	return true
}

// resume opens it; false if it is open already.
func (g *gate) resume() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if isClosed(g.open) {
		return false
	}
	close(g.open)
	return true
}

func (g *gate) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dead = true
	if !isClosed(g.open) {
		close(g.open) // whoever waits finds it dead
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// As a hook of a client the gate holds back what the client sends.

func (g *gate) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if err := g.pass(ctx); err != nil {
			return nil, err
		}
		return next(ctx, network, addr)
	}
}

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := g.pass(ctx); err != nil {
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := g.pass(ctx); err != nil {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
		return next(ctx, cmds)
	}
}
