package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/redispatterns/redispatterns/internal/redistest"
)

// fleet is the worker processes, each with a proxy between it and Redis.
type fleet struct {
	config  config
	oracle  *oracle
	addr    string // of the oracle
	proxies []*redistest.Proxy

	mu      sync.Mutex
	workers []*process
}

// process is one worker, from its start to its end.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how it ended, once done is closed
}

func startFleet(c config, o *oracle, addr string, s *servers) (*fleet, error) {
	f := &fleet{config: c, oracle: o, addr: addr}
	for i := range c.workers {
		p, err := redistest.StartProxy(s.addr())
		if err != nil {
			f.kill()
			return nil, err
		}
		f.proxies = append(f.proxies, p)
		w, err := f.start(i)
		if err != nil {
			f.kill()
			return nil, err
		}
		f.workers = append(f.workers, w)
	}
	return f, nil
}

func (f *fleet) start(index int) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	spec, err := json.Marshal(workerSpec{
		Index: index, Incarnation: f.oracle.incarnate(index), Oracle: f.addr, Redis: f.proxies[index].Addr(), Plant: f.config.plant,
	})
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), workerEnv+"="+string(spec))
	p.cmd.Stderr = os.Stderr
	dieWithParent(p.cmd)
	started := make(chan error)
	go func() {
		defer close(p.done)
		runtime.LockOSThread() // "with the parent" means with the thread that started it
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
	}()
	return p, <-started
}

// worker is the process that has this index now.
func (f *fleet) worker(index int) *process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.workers[index]
}

// restart kills a worker in whatever it does, and starts another in its place, which takes over what the oracle remembers.
func (f *fleet) restart(index int) error {
	old := f.worker(index)
	_ = old.cmd.Process.Kill()
	<-old.done
	f.proxies[index].Kill() // what it has sent does not arrive after what its successor sends
	f.oracle.buried(index)
	w, err := f.start(index)
	if err != nil {
		return fmt.Errorf("restart worker %d: %w", index, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.workers[index] = w
	return nil
}

// finish has the workers complete what they are at, and end.
func (f *fleet) finish() {
	f.oracle.stop()
	deadline := time.After(60 * time.Second)
	for i, w := range f.workers {
		select {
		case <-w.done:
			if w.err != nil {
				f.oracle.report.violate("worker", "worker %d ended by itself: %v", i, w.err)
			}
		case <-deadline:
			f.oracle.report.violate("stuck", "worker %d did not end within 60s of being told", i)
		}
	}
	f.kill()
}

func (f *fleet) kill() {
	for _, w := range f.workers {
		_ = w.cmd.Process.Kill()
		<-w.done
	}
	for _, p := range f.proxies {
		p.Close()
	}
}
