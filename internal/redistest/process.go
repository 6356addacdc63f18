package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Process is a redis-server that this process started, and that ends with it.
type Process struct {
	Addr string // host:port, or "" where it listens on a Unix socket alone
	args []string
	cmd  *exec.Cmd
	dir  string
	done chan struct{} // closed when the process has ended

	options redis.Options
	stop    sync.Once
}

// StartRedis starts a memory-only redis-server on a Unix socket and a free port of 127.0.0.1.
func StartRedis(args ...string) (*Process, error) {
	var last error
	for range 5 { // a free port may be taken by the time that the server asks for it
		ports, err := freePorts(1)
		if err != nil {
			return nil, err
		}
		p, err := start(ports[0], args...)
		if err == nil {
			return p, nil
		}
		last = err
	}
	return nil, last
}

func start(port int, args ...string) (*Process, error) {
	dir, err := os.MkdirTemp("", "redistest") // short: a socket's path may have about 100 bytes
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "s")
	args = append([]string{
		"--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--unixsocket", socket, "--dir", dir,
		"--save", "", "--appendonly", "no", "--databases", fmt.Sprint(databases), "--enable-debug-command", "local",
		"--loglevel", "warning", "--logfile", filepath.Join(dir, "log"),
	}, args...)
	return launch(dir, fmt.Sprintf("127.0.0.1:%d", port), redis.Options{Network: "unix", Addr: socket}, args...)
}

// launch starts redis-server with args and waits until it answers at options. dir is the process's, and ends with it.
func launch(dir, addr string, options redis.Options, args ...string) (*Process, error) {
	p := &Process{Addr: addr, args: args, dir: dir, options: options}
	if err := p.run(); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

func (p *Process) run() error {
	cmd, done, started := exec.Command("redis-server", p.args...), make(chan struct{}), make(chan error)
	cmd.SysProcAttr = dieWithParent()
	p.cmd, p.done = cmd, done
	go func() {
		defer close(done)
		runtime.LockOSThread() // "with the parent" means with the thread that started the server
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	return p.ready()
}

// ready waits until the server answers.
func (p *Process) ready() error {
	deadline := time.After(10 * time.Second)
	for {
		if p.admin(func(c *redis.Client) error { return c.Ping(context.Background()).Err() }) == nil {
			return nil
		}
		select {
		case <-p.done:
			text, _ := os.ReadFile(filepath.Join(p.dir, "log"))
			return fmt.Errorf("redis-server ended at once: %s", text)
		case <-deadline:
			return errors.New("redis-server did not answer within 10s")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Signal sends the server a signal: SIGSTOP and SIGCONT pause it, SIGKILL crashes it.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Kill crashes the server by SIGKILL and returns when it has ended.
func (p *Process) Kill() {
	if p.cmd.Process != nil {
		_ = p.cmd.Process.Kill()
	}
	<-p.done
}

// Restart crashes the server and starts it again where it was, with no memory of before.
func (p *Process) Restart() error {
	p.Kill()
	return within(context.Background(), p.run) // its port may be another's for a moment
}

// Stop ends the server and returns when it has ended. It may be called again.
func (p *Process) Stop() {
	p.stop.Do(func() {
		p.Kill()
		_ = os.RemoveAll(p.dir)
	})
}

// admin runs fn with a client of the server that waits for nothing.
func (p *Process) admin(fn func(c *redis.Client) error) error {
	o := p.options
	o.MaxRetries, o.DialerRetries = -1, 1
	c := redis.NewClient(&o)
	defer c.Close()
	return fn(c)
}

// freePorts are n ports of 127.0.0.1 on which nobody listens now.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all at the end, so that they differ
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}
