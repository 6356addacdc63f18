// Package redistest gives tests their Redis servers: miniredis and a redis-server that it starts itself, alone or as a
// cluster, with a proxy that loses replies and a hook that counts round trips.
package redistest

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Server is one Redis that a test works on: a miniredis, or a database of a real server.
type Server struct {
	Mini *miniredis.Miniredis // nil on a real server

	options redis.Options
	foreign bool // REDIS_ADDR: not ours to flush or to disturb

	mu  sync.Mutex
	now time.Time // of Mini, which has no way to ask
}

// addrEnv names a server that is somebody else's: the tests that share one then use it. It is never flushed or disturbed; what
// needs a server of its own starts it, or skips where redis-server is not installed.
const addrEnv = "REDIS_ADDR"

// Run runs fn on miniredis and on a real redis-server, as subtests of these names. The real one is a database of a
// server that all tests of this binary share, or of REDIS_ADDR.
func Run(t *testing.T, fn func(t *testing.T, s *Server)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) { fn(t, Mini(t)) })
	t.Run("redis", func(t *testing.T) { fn(t, Real(t)) })
}

// Mini starts a miniredis whose keys expire as its clock moves, which Advance alone does.
func Mini(t testing.TB) *Server {
	t.Helper()
	m, now := miniredis.NewMiniRedis(), time.Now()
	m.ClockTTL(true)
	m.SetTime(now)
	if err := m.Start(); err != nil {
		t.Fatalf("start miniredis: %v", err)
	}
	t.Cleanup(m.Close)
	return &Server{Mini: m, now: now, options: redis.Options{Addr: m.Addr()}}
}

// Real gives the test a database of the shared redis-server, empty at first. It skips the test where redis-server is
// not installed, and fails it there when CI is set.
func Real(t testing.TB) *Server {
	t.Helper()
	if addr := os.Getenv(addrEnv); addr != "" {
		return &Server{options: redis.Options{Addr: addr}, foreign: true}
	}
	needBinary(t)
	p, err := shared.server()
	if err != nil {
		t.Fatalf("start redis-server: %v", err)
	}
	db := shared.takeDB()
	s := &Server{options: p.options}
	s.options.DB = db
	t.Cleanup(func() {
		c := redis.NewClient(&s.options)
		defer c.Close()
		if err := c.FlushDB(context.Background()).Err(); err == nil {
			shared.giveDB(db) // only an empty one may be used again
		}
	})
	return s
}

// Own starts a redis-server for this test alone, to be stopped, paused or reconfigured; args are further settings.
func Own(t testing.TB, args ...string) (*Server, *Process) {
	t.Helper()
	needBinary(t)
	p, err := StartRedis(args...)
	if err != nil {
		t.Fatalf("start redis-server: %v", err)
	}
	t.Cleanup(p.Stop)
	return &Server{options: p.options}, p
}

// IsReal says whether a redis-server is behind s, rather than miniredis.
func (s *Server) IsReal() bool { return s.Mini == nil }

// OnlyOurs skips the test on a server that REDIS_ADDR names: it disturbs the server, or needs keys of exact names.
func (s *Server) OnlyOurs(t testing.TB) {
	t.Helper()
	if s.foreign {
		t.Skipf("%s does not run on REDIS_ADDR: it disturbs the server or needs exact keys", t.Name())
	}
}

// Options are what a client of s needs to connect.
func (s *Server) Options() *redis.Options {
	o := s.options
	return &o
}

// Client connects to s, with the settings that set changes, until the test ends.
func (s *Server) Client(t testing.TB, set ...func(*redis.Options)) *redis.Client {
	t.Helper()
	o := s.Options()
	for _, f := range set {
		f(o)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Advance lets d pass: at once on miniredis, TIME and TTLs together, and by waiting on a real server, which tests
// therefore ask for little: more than two seconds is refused.
func (s *Server) Advance(t testing.TB, d time.Duration) {
	t.Helper()
	if s.Mini != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.now = s.now.Add(d)
		s.Mini.SetTime(s.now)
		return
	}
	if d > 2*time.Second {
		t.Fatalf("Advance(%v) on a real server: scale the test's durations down to 2s or less", d)
	}
	time.Sleep(d)
}

// Now is the server's own time.
func (s *Server) Now(t testing.TB) time.Time {
	t.Helper()
	c := redis.NewClient(s.Options())
	defer c.Close()
	now, err := c.Time(context.Background()).Result()
	if err != nil {
		t.Fatalf("TIME: %v", err)
	}
	return now
}

// Long is how long a test that gets better with time should run: 3 s, or 30 s with REDISPATTERNS_LONG=1.
func Long() time.Duration {
	if os.Getenv("REDISPATTERNS_LONG") == "1" {
		return 30 * time.Second
	}
	return 3 * time.Second
}

// ID is a random name, for tests that share a server.
func ID() string { return rand.Text() }

// Patience is how long a condition may take that a busy machine makes late.
const Patience = time.Minute

// Eventually waits until condition holds, looking every few milliseconds, and fails the test when Patience is over.
func Eventually(t testing.TB, condition func() bool, what string, args ...any) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not: "+what, args...)
		}
	}
}

var missing sync.Once

func needBinary(t testing.TB) {
	t.Helper()
	_, err := exec.LookPath("redis-server")
	switch {
	case err == nil:
	case os.Getenv("CI") == "true" && os.Getenv(addrEnv) == "":
		t.Fatal("redis-server is not on PATH, and CI=true does not let the tests on real Redis be skipped")
	default:
		missing.Do(func() { fmt.Println("SKIPPED: redis-server is not on PATH, so no test that needs one of its own runs") })
		t.Skip("redis-server is not on PATH")
	}
}
