package main

import (
	"fmt"
	"net"
	"net/rpc"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// oracle knows the truth, from what the workers tell it before and after each Operation, without asking the Redis under
// test. Its exported methods, in this file and in sessionoracle.go, are what workers call, by net/rpc.
type oracle struct {
	report *report

	mu           sync.Mutex
	stopping     bool
	locks        map[string]*timeline
	tallies      map[[2]string]*tally // by limiter and id
	ledger       *ledger
	slots        [sessionSlots]slot
	incarnations [maxWorkers]int
	samples      map[[2]int][]sample  // by worker and incarnation
	progress     map[string]time.Time // when a pattern's operations were last seen to go on
}

// stuckAfter is how long a pattern may stand still, far longer than any fault lasts.
const stuckAfter = 30 * time.Second

func newOracle(r *report) *oracle {
	o := &oracle{
		report: r, locks: map[string]*timeline{}, tallies: map[[2]string]*tally{}, ledger: newLedger(),
		samples: map[[2]int][]sample{}, progress: map[string]time.Time{},
	}
	for _, pattern := range []string{"lock", "limit", "session", "board"} {
		o.progress[pattern] = time.Now()
	}
	return o
}

// serve answers workers until it is stopped.
func (o *oracle) serve() (addr string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "soak")
	if err != nil {
		return "", nil, err
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		return "", nil, err
	}
	server := rpc.NewServer()
	if err := server.RegisterName("Oracle", &Calls{o}); err != nil {
		return "", nil, err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go server.ServeConn(conn)
		}
	}()
	return l.Addr().String(), func() {
		_ = l.Close()
		_ = os.RemoveAll(dir)
	}, nil
}

// Calls are what workers call.
type Calls struct{ o *oracle }

// Beat is what a worker tells twice a second.
type Beat struct {
	Worker, Incarnation int
	Sample              sample
	Operations, Answers map[string]int64 // since the last one
	Last                bool             // everything is closed
}

// Beat takes a worker's figures, and tells it whether to end.
func (c *Calls) Beat(b Beat, stop *bool) error {
	o := c.o
	o.report.add(b.Operations, b.Answers)
	o.mu.Lock()
	defer o.mu.Unlock()
	*stop = o.stopping
	who, now := [2]int{b.Worker, b.Incarnation}, time.Now()
	if b.Last {
		if err := flat(o.samples[who]); err != nil {
			o.report.violate("flat", "worker %d: %v", b.Worker, err)
		}
		return nil
	}
	o.samples[who] = append(o.samples[who], b.Sample)
	for name, n := range b.Operations {
		for pattern := range o.progress {
			if n > 0 && len(name) > len(pattern) && name[:len(pattern)] == pattern {
				o.progress[pattern] = now
			}
		}
	}
	for pattern, last := range o.progress {
		if now.Sub(last) > stuckAfter && !o.stopping {
			o.report.violate("stuck", "no operation of pattern %s succeeded in %v", pattern, stuckAfter)
			o.progress[pattern] = now
		}
	}
	for _, t := range o.tallies {
		if err := t.check(now); err != nil {
			o.report.violate("limit", "%v", err)
			t.events = nil
		}
	}
	return nil
}

// Violation is something that a worker saw itself.
type Violation struct{ Kind, What string }

// Violate takes in what a worker saw.
func (c *Calls) Violate(v Violation, _ *bool) error {
	c.o.report.violate(v.Kind, "%s", v.What)
	return nil
}

// Hold takes in for how long a lease was certainly held.
func (c *Calls) Hold(h Hold, _ *bool) error {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	if err := c.o.timeline(h.Name).add(h); err != nil {
		c.o.report.violate("lock", "%v", err)
	}
	return nil
}

// Write writes to the resource that a lock protects. It answers whether the resource took it.
func (c *Calls) Write(h Hold, accepted *bool) (err error) {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	*accepted, err = c.o.timeline(h.Name).write(h.Fence, h.Token)
	if err != nil {
		c.o.report.violate("lock", "%s: %v", h.Name, err)
	}
	return nil
}

func (o *oracle) timeline(name string) *timeline {
	if o.locks[name] == nil {
		o.locks[name] = &timeline{capacity: capacity(name)}
	}
	return o.locks[name]
}

// Admit takes in what limiters let through.
func (c *Calls) Admit(events []admitted, _ *bool) error {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	for _, e := range events {
		key := [2]string{e.Limiter, e.ID}
		if c.o.tallies[key] == nil {
			c.o.tallies[key] = &tally{bounds: bounds[e.Limiter]}
		}
		c.o.tallies[key].events = append(c.o.tallies[key].events, e)
	}
	return nil
}

// Begin names an operation on a board that is about to be sent.
func (c *Calls) Begin(op Operation, named *Operation) error {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	*named = c.o.ledger.begin(op)
	return nil
}

// Done takes in that an operation was acknowledged.
func (c *Calls) Done(id string, _ *bool) error {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	c.o.ledger.done(id)
	return nil
}

// Orphans are the operations that a worker's predecessor did not bring to an end.
func (c *Calls) Orphans(worker int, ops *[]Operation) error {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	for _, op := range c.o.ledger.pending {
		if op.Worker == worker {
			*ops = append(*ops, op)
		}
	}
	return nil
}

// Lows answers what each member of a board has at least.
func (c *Calls) Lows(board string, lows *map[string]int64) error {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	*lows = c.o.ledger.lows(board)
	return nil
}

// Scores is what a board showed.
type Scores struct {
	Board  string
	Lows   map[string]int64 // from before it was read
	Scores map[string]float64
}

// Scored compares what a board showed with the model.
func (c *Calls) Scored(s Scores, _ *bool) error {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	for member, score := range s.Scores {
		now := span{low: s.Lows[member], high: c.o.ledger.span(s.Board, member).high}
		if err := now.check(score); err != nil {
			c.o.report.violate("board", "score of %s on %s: %v", member, s.Board, err)
		}
	}
	return nil
}

// stop has the workers end at their next beat.
func (o *oracle) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopping = true
}

// incarnate counts the processes that a worker has been.
func (o *oracle) incarnate(worker int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.incarnations[worker]++
	return o.incarnations[worker]
}

func (h Hold) owner(worker, incarnation int) Hold {
	h.Who = fmt.Sprintf("worker %d/%d", worker, incarnation)
	return h
}
