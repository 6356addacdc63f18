package faults_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4") // most of the time a fault waits for a server; the command line may say otherwise
	redistest.Main(m)
}

// TestGuarantees runs the table: TestGuarantees/<fault>/<pattern>. All patterns of a fault share its servers.
func TestGuarantees(t *testing.T) {
	t.Parallel()
	for _, f := range table {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.run(t)
		})
	}
}

// client is what every check gets: any of go-redis' clients.
type client interface {
	redis.UniversalClient
	redispatterns.Client
}

// world is the servers of a fault.
type world struct {
	connect func() client
	strike  func(ctx context.Context) error
	heal    func(ctx context.Context) error
	settle  func(ctx context.Context) error // returns when the replicas have what was written

	tag     string   // for every name, so that all are in one slot of a cluster
	clients []client // of the checks
}

// run lets a fault strike all checks at once: each gets ready, sees the fault, and looks at what is left when it is over.
func (f *fault) run(t *testing.T) {
	w := f.start(t)
	w.tag = "{" + redistest.ID() + "}"
	ctx, cancel := context.WithTimeout(context.Background(), 3*redistest.Patience)
	defer cancel()
	var ready, seen, done sync.WaitGroup
	struck, healed := make(chan struct{}), make(chan struct{})
	checks := map[string]*check{}
	for _, pattern := range patterns {
		c := &check{Context: ctx, world: w, client: w.connect(), cell: f.cells[pattern]}
		t.Cleanup(func() { _ = c.client.Close() })
		w.clients = append(w.clients, c.client)
		checks[pattern] = c
		ready.Add(1)
		seen.Add(1)
		isReady, hasSeen := sync.OnceFunc(ready.Done), sync.OnceFunc(seen.Done)
		c.strike = func() { isReady(); <-struck }
		c.heal = func() { isReady(); hasSeen(); <-healed }
		done.Go(func() {
			defer hasSeen()
			defer isReady()
			defer c.finish()
			c.cell.check(c)
		})
	}
	ready.Wait()
	strikeErr := w.strike(ctx)
	if strikeErr != nil {
		cancel() // no check need wait for what does not happen
	}
	close(struck)
	seen.Wait()
	healErr := w.heal(ctx)
	close(healed)
	done.Wait()
	require.NoError(t, strikeErr)
	require.NoError(t, healErr)
	for _, pattern := range patterns {
		t.Run(pattern, checks[pattern].report)
	}
}

// check is one cell while it is tested. It is what require's functions fail, since they run beside the test.
type check struct {
	context.Context
	world  *world
	client client
	cell   cell
	strike func() // returns when the fault has struck
	heal   func() // returns when it is over

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

func (c *check) Errorf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = append(c.failures, fmt.Sprintf(format, args...))
}

func (c *check) FailNow() { runtime.Goexit() }

func (c *check) cleanup(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cleanups = append(c.cleanups, f)
}

func (c *check) finish() {
	for _, f := range c.cleanups {
		f()
	}
}

func (c *check) report(t *testing.T) {
	for _, text := range c.failures {
		t.Error(strings.TrimSpace(text))
	}
}

// eventually waits for a condition.
func (c *check) eventually(condition func() bool, what string) {
	for deadline := time.Now().Add(redistest.Patience); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) || c.Err() != nil {
			c.Errorf("still not: %s", what)
			c.FailNow()
		}
	}
}

// ops are operations of a pattern, each of which succeeds on a Redis that works.
type ops map[string]func(ctx context.Context) error

// and is ops and more.
func (o ops) and(more ops) ops {
	all := ops{}
	for _, some := range []ops{o, more} {
		for name, op := range some {
			all[name] = op
		}
	}
	return all
}

// each runs all operations at the same time.
func (c *check) each(o ops, look func(name string, err error)) {
	var all sync.WaitGroup
	for name, op := range o {
		all.Go(func() {
			err := op(c)
			look(name, err)
		})
	}
	all.Wait()
}

// work requires that each operation succeeds.
func (c *check) work(o ops) {
	c.each(o, func(name string, err error) {
		if err != nil {
			c.Errorf("%s: %v", name, err)
		}
	})
}

// refused requires that each operation is an error that is this one, and that is not mistaken for an answer.
func (c *check) refused(o ops, is func(error) bool, answers ...error) {
	c.each(o, func(name string, err error) {
		switch {
		case err == nil:
			c.Errorf("%s: no error", name)
		case !is(err):
			c.Errorf("%s: another error: %v", name, err)
		default:
			c.broken(name, err, answers...)
		}
	})
}

// broken requires that err is none of the pattern's answers.
func (c *check) broken(name string, err error, answers ...error) {
	for _, answer := range slices.Concat(answers, []error{redis.Nil}) {
		if errors.Is(err, answer) {
			c.Errorf("%s: Redis is broken, and the error says %q: %v", name, answer, err)
		}
	}
}

// recovers waits until each operation succeeds again.
func (c *check) recovers(o ops) {
	c.each(o, func(name string, err error) {
		for deadline := time.Now().Add(redistest.Patience); err != nil && c.Err() == nil && time.Now().Before(deadline); err = o[name](c) {
			time.Sleep(2 * time.Millisecond)
		}
		if err != nil {
			c.Errorf("%s still fails after the fault: %v", name, err)
		}
	})
}

// What a load does at each stage, at the least.
const (
	before = iota // operations that succeed
	during        // operations that are tried
	after         // operations that succeed
)

var least = [...]int{before: 5, during: 5, after: 5}

// scale is how much longer and wider than usual it is with REDISPATTERNS_LONG.
func scale() int { return int(redistest.Long() / (3 * time.Second)) }

// underLoad runs work in two goroutines (more with REDISPATTERNS_LONG) again and again, before the fault, through it and
// after it, until each goroutine's work succeeds once more. No error may be one of the answers.
func (c *check) underLoad(work func(worker int) error, answers ...error) {
	workers := min(1+scale(), 8)
	var stage atomic.Int32
	var reached [len(least)]sync.WaitGroup
	for i := range reached {
		reached[i].Add(workers)
	}
	for worker := range workers {
		go func() {
			var arrive [len(least)]func()
			for i := range arrive {
				arrive[i] = sync.OnceFunc(reached[i].Done)
				defer arrive[i]() // also where it gives up
			}
			now, n, last := before, 0, error(nil)
			for begun := time.Now(); time.Since(begun) < 2*redistest.Patience && c.Err() == nil; time.Sleep(time.Millisecond) {
				if s := int(stage.Load()); s != now {
					now, n = s, 0
				}
				err := work(worker)
				if err != nil {
					last = err
					c.broken("under load", err, answers...)
				}
				if err == nil || now == during {
					n++
				}
				if n < least[now]*scale() {
					continue
				}
				arrive[now]()
				if now == after {
					return
				}
			}
			c.Errorf("the work of a goroutine does not succeed any more: %v", last)
		}()
	}
	reached[before].Wait()
	c.strike()
	stage.Store(during)
	reached[during].Wait()
	c.heal()
	stage.Store(after)
	reached[after].Wait()
}
