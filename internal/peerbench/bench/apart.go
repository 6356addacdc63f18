package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// apart has each waiter in a process of its own: this program once more, which IsWaiter tells from a run.
//
// The two talk by lines. The waiter gets its assignment and says ready; it gets go, says entered at each acquisition, and gets
// next when another has acquired since; it gets end, and answers what it did.
type apart struct {
	mode    handoffMode
	waiters []*process
}

const waiterVar = "PEERBENCH_WAITER"

// assignment is what a waiter's process needs to know.
type assignment struct {
	Contender string
	Config    LockConfig
	Key       string
	Waiter    int
	StepOut   bool
}

type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
}

func (r *Run) spread(mode handoffMode, c Contender[LockConfig, Locker], key string) (arena, error) {
	a := &apart{mode: mode}
	program, err := os.Executable()
	if err != nil {
		return a, err
	}
	for w := range waiters {
		p := &process{cmd: exec.Command(program)}
		p.cmd.Env = append(os.Environ(), waiterVar+"=1")
		p.cmd.Stderr = &p.stderr
		if p.in, err = p.cmd.StdinPipe(); err != nil {
			return a, err
		}
		out, err := p.cmd.StdoutPipe()
		if err != nil {
			return a, err
		}
		p.out = bufio.NewReader(out)
		if err := p.cmd.Start(); err != nil {
			return a, err
		}
		a.waiters = append(a.waiters, p)
		// By its standard input, where nobody else reads a password.
		if err := json.NewEncoder(p.in).Encode(assignment{c.Name, LockConfig{Conn: r.conn(waiters), TTL: lockTTL}, key, w, mode.stepOut}); err != nil {
			return a, err
		}
	}
	for _, p := range a.waiters {
		if line, err := p.line(); err != nil || line != "ready" {
			return a, p.failed(line, err)
		}
	}
	return a, nil
}

func (p *process) line() (string, error) {
	line, err := p.out.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

func (p *process) tell(word string) { _, _ = io.WriteString(p.in, word+"\n") } // one that has died shows when it is read

func (p *process) failed(line string, err error) error {
	_ = p.cmd.Wait() // for what it wrote
	return fmt.Errorf("a waiter's process said %q (%v): %s", line, err, strings.TrimSpace(p.stderr.String()))
}

func (a *apart) close() {
	for _, p := range a.waiters {
		p.in.Close()
		kill := time.AfterFunc(graceful, func() { _ = p.cmd.Process.Kill() })
		_ = p.cmd.Wait()
		kill.Stop()
	}
}

func (a *apart) fight(f *referee) ([]turns, error) {
	all, errs := make([]turns, len(a.waiters)), make([]error, len(a.waiters))
	var wg sync.WaitGroup
	for w, p := range a.waiters {
		p.tell("go")
		defer context.AfterFunc(f.ctx, func() { p.tell("end") })()
		wg.Go(func() {
			for {
				line, err := p.line()
				if err == nil && line == "entered" {
					next := f.enter()
					if a.mode.stepOut {
						go func() {
							select {
							case <-next:
								p.tell("next")
							case <-f.ctx.Done():
							}
						}()
					}
					continue
				}
				if err == nil {
					err = json.Unmarshal([]byte(line), &all[w])
				}
				if err != nil {
					errs[w] = p.failed(line, err)
				}
				return
			}
		})
	}
	wg.Wait()
	return all, errors.Join(errs...)
}

// IsWaiter says whether this process is one waiter of another's handoff.
func IsWaiter() bool { return os.Getenv(waiterVar) != "" }

// Wait is all that such a process does.
func Wait(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return lines.Err()
	}
	var job assignment
	if err := json.Unmarshal(lines.Bytes(), &job); err != nil {
		return err
	}
	i := slices.IndexFunc(HandoffLocks, func(c Contender[LockConfig, Locker]) bool { return c.Name == job.Contender })
	if i < 0 {
		return fmt.Errorf("no contender %q", job.Contender)
	}
	l, err := HandoffLocks[i].New(job.Config)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := warm(l, job.Key, job.Waiter); err != nil {
		return err
	}
	if job.Waiter == 0 {
		if err := prepare(l, job.Key); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "ready")
	if !lines.Scan() {
		return lines.Err()
	}

	ctx, end := context.WithCancel(context.Background())
	defer end()
	next, gone := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(gone) // so has the process that started this one
		defer end()
		for lines.Scan() {
			switch lines.Text() {
			case "next":
				next <- struct{}{}
			case "end":
				end()
			}
		}
	}()
	did := contend(ctx, l, job.Key, func() { fmt.Fprintln(out, "entered") }, func() {
		if job.StepOut {
			select {
			case <-next:
			case <-ctx.Done():
			}
		}
	})
	if err := json.NewEncoder(out).Encode(did); err != nil {
		return err
	}
	<-gone // what closing sends is no part of the round
	return nil
}
