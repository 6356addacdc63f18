// Command growth measures what this library's operations cost as the work grows: more waiters, leases, members, keys, entries,
// sessions, goroutines. It prints tables and draws plots. A cost is stated in PINGs, the round trips of the same client in the
// same round, since a time says more of the machine than of the library.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
	"github.com/redispatterns/redispatterns/internal/redistest"
)

// growths are what can be measured, by the name that selects them.
var growths = []struct {
	name string
	run  func(*meter) ([]chart, error)
}{
	{"waiters", waiters},
	{"leases", leases},
	{"members", members},
	{"goroutines", goroutines},
	{"keys", keys},
	{"entries", entries},
	{"sessions", sessions},
}

func main() {
	logging.Disable()
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	names := make([]string, len(growths))
	for i, g := range growths {
		names[i] = g.name
	}
	flags := flag.NewFlagSet("growth", flag.ContinueOnError)
	flags.SetOutput(progress)
	var (
		which  = flags.String("run", strings.Join(names, ","), "what grows, comma-separated")
		most   = flags.Int("most", 5_000_000, "leave out the sizes above this")
		rounds = flags.Int("rounds", 9, "interleaved rounds")
		chunk  = flags.Duration("chunk", 60*time.Millisecond, "length of one operation's part of a round")
		plots  = flags.String("plots", "", "draw the plots into this directory")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if min(*rounds, *most) < 1 || *chunk <= 0 {
		return errors.New("-rounds, -most and -chunk must be positive")
	}
	wanted := strings.Split(*which, ",")
	for _, name := range wanted {
		if !slices.Contains(names, name) {
			return fmt.Errorf("-run: no %q", name)
		}
	}

	server, err := redistest.StartRedis()
	if err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	defer server.Stop()
	control, err := bench.Dial(bench.Conn{Addr: server.Addr})
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
	fmt.Fprintf(out, "growth %s: %s, %s on loopback TCP, %d CPUs, %d interleaved rounds\n", strings.Join(args, " "),
		runtime.Version(), version, runtime.NumCPU(), *rounds)
	m := &meter{ctx: ctx, addr: server.Addr, control: control, rounds: *rounds, chunk: *chunk, most: *most}
	report := bench.Report{W: out}
	for _, g := range growths {
		if !slices.Contains(wanted, g.name) {
			continue
		}
		fmt.Fprintln(progress, g.name)
		if err := control.Flush(); err != nil {
			return err
		}
		charts, err := g.run(m)
		if err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		for _, c := range charts {
			report.Title(c.title)
			c.table(&report)
			if *plots == "" || c.file == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(*plots, c.file), c.svg(), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
