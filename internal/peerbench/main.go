// Command peerbench measures this library beside other Go libraries that do the same work with Redis, and beside go-redis
// by hand: on a redis-server that it starts for the run, or on yours.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
	_ "github.com/redispatterns/redispatterns/internal/peerbench/contenders"
	"github.com/redispatterns/redispatterns/internal/redistest"
)

func main() {
	logging.Disable()
	if bench.IsWaiter() {
		waiter()
		return
	}
	// SIGPIPE too: a reader such as head must not leave keys in a server.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "peerbench:", err)
		os.Exit(1)
	}
}

// waiter is what one of the processes does that wait for a lock.
func waiter() {
	if err := bench.Wait(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// short is what -short sets, of the flags that were not given.
var short = map[string]string{
	"rounds": "12", "handoff": "300ms", "keys": "1000", "memreqs": "20", "boards": "100000",
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("peerbench", flag.ContinueOnError)
	flags.SetOutput(progress)
	var (
		which   = flags.String("run", "all", "scenarios: lock, ratelimit, session, ranking or all, comma-separated")
		isShort = flags.Bool("short", false, "a run of under three minutes: fewer operations, one board, one table less")
		addr    = flags.String("addr", "", "measure this server, host:port or redis://user:password@host:port/db; its database must be empty, and is emptied")
		ops     = flags.Int("n", 100, "operations per contender and round, at least ten for each of several goroutines")
		workers = flags.String("c", "1,32", "goroutines; a comma-separated list gives a table each")
		rounds  = flags.Int("rounds", 120, "interleaved rounds (lock/handoff: at most 5, they are long)")
		handoff = flags.Duration("handoff", 1500*time.Millisecond, "length of a lock/handoff round of one contender")
		keys    = flags.Int("keys", 10_000, "clients in the ratelimit tables, sessions and a tenth of the members in those of memory")
		memReqs = flags.Int("memreqs", 100, "requests per client in ratelimit/memory")
		boards  = flags.String("boards", "1000,100000,1000000", "ranking board sizes")
		only    = flags.String("only", "", "run only the contenders whose name contains this (references always run)")
		procs   = flags.Bool("processes", true, "lock/handoff also with a process for each waiter")
		page    = flags.Bool("markdown", false, "print the tables of docs/performance.md instead of a report")
		quiet   = flags.Bool("q", false, "no progress on standard error")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *isShort {
		given := map[string]bool{}
		flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
		for name, value := range short {
			if !given[name] {
				if err := flags.Set(name, value); err != nil {
					return err
				}
			}
		}
	}
	levels, err := ints(*workers)
	if err != nil {
		return fmt.Errorf("-c: %w", err)
	}
	sizes, err := ints(*boards)
	if err != nil {
		return fmt.Errorf("-boards: %w", err)
	}
	if min(*ops, *rounds, *keys, *memReqs) < 1 || *handoff <= 0 {
		return errors.New("-n, -rounds, -keys, -memreqs and -handoff must be positive")
	}

	server, stop, err := open(*addr)
	if err != nil {
		return err
	}
	// The contenders' goroutines know nothing of ctx: an interrupt tidies up and ends the process.
	defer context.AfterFunc(ctx, func() {
		stop()
		os.Exit(130)
	})()
	defer stop()

	control, err := bench.Dial(server)
	if err != nil {
		return err
	}
	defer control.Close()
	if err := control.Calibrate(); err != nil {
		return err
	}
	version, err := control.Version()
	if err != nil {
		return err
	}
	where := "on loopback TCP"
	if *addr != "" {
		where = "at " + server.Addr
	}
	report, heading := &bench.Report{W: out}, "peerbench %s: "
	if *page {
		report.W, heading = io.Discard, "\n`peerbench %s`: "
	}
	fmt.Fprintf(out, heading+"%s, %s %s, %d CPUs, %d operations x %d interleaved rounds, %s\n", strings.Join(args, " "),
		runtime.Version(), version, where, runtime.NumCPU(), *ops, *rounds, time.Now().UTC().Format("2006-01-02 15:04 UTC"))
	began := time.Now()
	r := &bench.Run{
		Options: bench.Options{
			Ops: *ops, Workers: levels, Rounds: *rounds, Handoff: *handoff, Processes: *procs, Keys: *keys,
			MemReqs: *memReqs, Boards: sizes, Only: *only, Short: *isShort,
			Progress: func(format string, args ...any) {
				if !*quiet {
					fmt.Fprintf(progress, "%6.1fs  "+format+"\n", append([]any{time.Since(began).Seconds()}, args...)...)
				}
			},
		},
		Server: server, Control: control, Out: report,
	}
	if err := r.Do(strings.Split(*which, ",")...); err != nil {
		return err
	}
	if *page {
		report.Page(out)
	}
	r.Progress("done")
	return nil
}

// open starts a server, or looks whether the one at addr can be used. stop leaves nothing behind.
func open(addr string) (conn bench.Conn, stop func(), err error) {
	if addr == "" {
		p, err := redistest.StartRedis()
		if err != nil {
			return conn, nil, fmt.Errorf("start redis-server (or give -addr): %w", err)
		}
		return bench.Conn{Addr: p.Addr}, p.Stop, nil
	}
	if conn, err = bench.ParseAddr(addr); err != nil {
		return conn, nil, fmt.Errorf("-addr: %w", err)
	}
	c, err := bench.Dial(conn)
	if err != nil {
		return conn, nil, fmt.Errorf("-addr: %w", err)
	}
	defer c.Close()
	switch n, err := c.Keys(); {
	case err != nil:
		return conn, nil, fmt.Errorf("-addr: %w", err)
	case n > 0: // it will be emptied
		return conn, nil, fmt.Errorf("-addr: database %d of %s holds %d keys; give an empty one, as in redis://%s/15", conn.DB, conn.Addr, n, conn.Addr)
	}
	return conn, func() {
		if c, err := bench.Dial(conn); err == nil {
			_ = c.Flush()
			_ = c.Close()
		}
	}, nil
}

func ints(list string) ([]int, error) {
	var out []int
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil {
			return nil, err
		}
		if n < 1 {
			return nil, fmt.Errorf("%d is not positive", n)
		}
		out = append(out, n)
	}
	return out, nil
}
