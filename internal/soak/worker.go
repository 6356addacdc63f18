package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/rpc"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns"
)

const (
	workerEnv  = "REDISPATTERNS_SOAK_WORKER" // makes a process a worker: a workerSpec in JSON
	maxWorkers = 4
	beatEvery  = 500 * time.Millisecond
	opTimeout  = 3 * time.Second
)

// workerSpec is what a worker must know.
type workerSpec struct {
	Index, Incarnation int
	Oracle, Redis      string // addresses
	Plant              string
}

// worker is one process of the load.
type worker struct {
	workerSpec
	rpc    *rpc.Client
	client redispatterns.Client
	plain  *redis.Client

	mu                  sync.Mutex
	operations, answers map[string]int64
}

// work is a worker's life, and its exit code.
func work(spec string) int {
	w := &worker{operations: map[string]int64{}, answers: map[string]int64{}}
	if err := json.Unmarshal([]byte(spec), &w.workerSpec); err != nil {
		fmt.Fprintln(os.Stderr, "soak worker:", err)
		return 2
	}
	var err error
	if w.rpc, err = rpc.Dial("unix", w.Oracle); err != nil {
		fmt.Fprintln(os.Stderr, "soak worker:", err)
		return 2
	}
	w.plain = redis.NewClient(&redis.Options{
		Addr: w.Redis, ReadTimeout: 500 * time.Millisecond, WriteTimeout: 500 * time.Millisecond, DialerRetries: 1,
	})
	w.client = w.plain
	if w.Index%2 == 1 { // the other kind of client that a busy process would have
		ap, err := w.plain.AutoPipeline()
		if err != nil {
			fmt.Fprintln(os.Stderr, "soak worker:", err)
			return 2
		}
		defer ap.Close()
		w.client = ap
	}

	ctx, end := context.WithCancel(context.Background())
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context) error{w.locks, w.limits, w.sessions, w.boards} {
		loops.Go(func() {
			if err := loop(ctx); err != nil {
				w.violate("worker", "%v", err)
			}
		})
	}
	for !w.beat(false) {
		time.Sleep(beatEvery)
		if w.planted("keys", 1) {
			w.plain.Set(ctx, "stray", 1, 0)
		}
	}
	end()
	loops.Wait()
	w.beat(true)
	return 0
}

// repeat runs each op again and again, with a short pause, until ctx ends, all of them side by side.
func (w *worker) repeat(ctx context.Context, pauseMS int, ops ...func()) {
	var all sync.WaitGroup
	for _, op := range ops {
		all.Go(func() {
			for pause(ctx, between(0, 2*pauseMS)) {
				op()
			}
		})
	}
	all.Wait()
}

// ask calls the oracle. A worker without one has no purpose.
func (w *worker) ask(method string, args, reply any) {
	if err := w.rpc.Call("Oracle."+method, args, reply); err != nil {
		os.Exit(3)
	}
}

func (w *worker) violate(kind, format string, args ...any) {
	var ok bool
	w.ask("Violate", Violation{kind, fmt.Sprintf("worker %d: ", w.Index) + fmt.Sprintf(format, args...)}, &ok)
}

// planted says, one time in so many, that now is the time for a planted violation of this kind.
func (w *worker) planted(kind string, oneIn int) bool {
	return strings.Contains(w.Plant, kind) && rand.IntN(oneIn) == 0
}

func (w *worker) beat(last bool) (stop bool) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b := Beat{Worker: w.Index, Incarnation: w.Incarnation, Sample: sample{runtime.NumGoroutine(), m.HeapAlloc}, Last: last}
	w.mu.Lock()
	b.Operations, b.Answers = w.operations, w.answers
	w.operations, w.answers = map[string]int64{}, map[string]int64{}
	w.mu.Unlock()
	w.ask("Beat", b, &stop)
	return stop
}

// did counts what went as asked.
func (w *worker) did(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.operations[what]++
}

// told counts an answer that a caller must expect.
func (w *worker) told(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[what]++
}

// failed counts an error: one of those of the package, or one of the network. Any other is a violation.
func (w *worker) failed(pattern string, err error, expected ...error) {
	for _, e := range expected {
		if errors.Is(err, e) {
			w.told(pattern + ": " + e.Error())
			return
		}
	}
	if isNetwork(err) {
		w.told(pattern + ": Redis does not answer")
		return
	}
	w.violate("error", "%s: an error that no caller would expect: %v", pattern, err)
}

// isNetwork says whether an error comes from the faults: Redis could not be reached, or did not answer, or not as a master.
func isNetwork(err error) bool {
	for _, e := range []error{
		context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, redis.ErrPoolTimeout, syscall.ECONNRESET,
		syscall.EPIPE, syscall.ECONNREFUSED, os.ErrDeadlineExceeded,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout() || redis.IsReadOnlyError(err) || redis.IsLoadingError(err) ||
		redis.IsMasterDownError(err) || redis.HasErrorPrefix(err, "UNBLOCKED")
}

// now is the machine's clock, which Redis has too.
func now() int64 { return time.Now().UnixNano() }
