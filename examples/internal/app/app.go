// Package app is what the examples have in common: a Redis to work on, a server that stops cleanly, and strict JSON.
package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Main runs an example until it ends or the process is told to stop by SIGINT or SIGTERM. With the flag -health it asks
// the one that already runs on ADDR whether it answers, which a container's healthcheck does where there is no shell.
func Main(run func(ctx context.Context, out io.Writer) error) {
	health := flag.Bool("health", false, "exit with 0 if the server on ADDR answers, else with 1")
	flag.Parse()
	if *health {
		run = healthy
	}
	if err := untilSignal(run); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func untilSignal(run func(ctx context.Context, out io.Writer) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, os.Stdout)
}

// Redis connects to REDIS_ADDR, or to a miniredis in this process where it is not set. stop ends the connection and the
// miniredis.
func Redis(ctx context.Context) (client *redis.Client, stop func(), err error) {
	addr, embedded := os.Getenv("REDIS_ADDR"), (*miniredis.Miniredis)(nil)
	if addr == "" {
		embedded = miniredis.NewMiniRedis()
		embedded.ClockTTL(true) // or nothing would ever expire
		if err := embedded.Start(); err != nil {
			return nil, nil, fmt.Errorf("start the embedded Redis: %w", err)
		}
		addr = embedded.Addr()
	}
	client = Client(addr)
	stop = func() {
		_ = client.Close()
		if embedded != nil {
			embedded.Close()
		}
	}
	if err := client.Ping(ctx).Err(); err != nil {
		stop()
		return nil, nil, fmt.Errorf("reach Redis at %s: %w", addr, err)
	}
	return client, stop, nil
}

// Client is a client with the settings that a service should use: a context's deadline bounds each call, and a server
// that refuses connections is reported at once.
func Client(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, DialerRetries: 1})
}

// Getenv is the environment's value, or the default where it is empty.
func Getenv(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// Serve answers on addr until ctx ends, and then lets the requests under way finish, for at most five seconds. It first
// writes where it listens to out, as "<name> listens on http://…". GET /health is answered here.
func Serve(ctx context.Context, out io.Writer, name, addr string, handler http.Handler) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	server := &http.Server{Handler: withHealth(handler), ReadHeaderTimeout: 5 * time.Second}
	stopped := make(chan error, 1)
	stopping := context.AfterFunc(ctx, func() {
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		stopped <- server.Shutdown(bound)
	})
	fmt.Fprintf(out, "%s listens on http://%s\n", name, listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		stopping()
		return fmt.Errorf("%s: %w", name, err)
	}
	return <-stopped
}
