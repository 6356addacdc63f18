// Command soak runs all four patterns at once from several processes against a redis-server of its own, while it kills,
// pauses, cuts off and fails over whatever it can, and checks all the time what the packages promise. Its report ends with
// the violations; if there is one, it exits with 1.
//
//	go run ./internal/soak -for 10m
//
// It runs itself again as its workers. What they do, see, and are told goes over a socket to the oracle in the first
// process, which knows the truth without asking the Redis under test.
//
// Failovers are graceful ones (FAILOVER), which lose nothing. What a crash of the master can lose is not its subject.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

// config is what a run can be told.
type config struct {
	length  time.Duration
	workers int
	plant   string // violations that the workers are to commit, for the test that they are seen: a list of their kinds
}

func main() {
	logging.Disable() // go-redis logs each failed dial
	if spec := os.Getenv(workerEnv); spec != "" {
		os.Exit(work(spec))
	}
	var c config
	flag.DurationVar(&c.length, "for", time.Minute, "how long the load and the faults last")
	flag.IntVar(&c.workers, "workers", 3, "how many processes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := newReport()
	if err := run(ctx, c, r); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	}
	r.print(os.Stdout)
	if len(r.violations) > 0 {
		os.Exit(1)
	}
}

// run is one soak: load and faults for c.length, or until ctx ends; then quiet, and a look at what is left.
func run(ctx context.Context, c config, r *report) error {
	if c.workers < 1 || c.workers > maxWorkers {
		return fmt.Errorf("-workers must be from 1 to %d", maxWorkers)
	}
	o := newOracle(r)
	addr, stopOracle, err := o.serve()
	if err != nil {
		return err
	}
	defer stopOracle()
	servers, err := startServers()
	if err != nil {
		return err
	}
	defer servers.stop()
	f, err := startFleet(c, o, addr, servers)
	if err != nil {
		return err
	}
	defer f.kill()

	load, end := context.WithTimeout(ctx, c.length)
	defer end()
	chaos(load, f, servers, r)
	r.length = time.Since(r.began)

	f.finish()
	o.final(servers.client())
	return nil
}
