package redistest

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

const databases = 1024

// shared is what all tests of a binary use together, started when the first asks for it.
var shared = &sharedServers{clusters: map[int]*Cluster{}}

type sharedServers struct {
	mu       sync.Mutex
	redis    *Process
	clusters map[int]*Cluster
	nextDB   int
	freeDBs  []int
}

// Main runs a package's tests from TestMain, stops the servers that they shared, and fails when a goroutine is left.
func Main(m *testing.M) {
	logging.Disable() // go-redis logs each failed dial, and faults are what these tests are about
	before := goleak.IgnoreCurrent()
	code := m.Run()
	shared.stop()
	err := goleak.Find(before)
	for range 30 { // go-redis looks only once a second whether it shall still dial
		if err != nil {
			err = goleak.Find(before)
		}
	}
	if err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "goroutines are left:", err)
		code = 1
	}
	os.Exit(code)
}

func (s *sharedServers) server() (*Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.redis == nil {
		s.redis, err = StartRedis()
	}
	return s.redis, err
}

func (s *sharedServers) cluster(masters int) (*Cluster, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clusters[masters]
	var err error
	if c == nil {
		// Nothing is elected here, and a node that a busy machine holds up would fail every test under way.
		if c, err = startCluster(layout{masters: masters, nodeTimeout: time.Minute}); err == nil {
			s.clusters[masters] = c
		}
	}
	return c, err
}

func (s *sharedServers) takeDB() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.freeDBs); n > 0 {
		db := s.freeDBs[n-1]
		s.freeDBs = s.freeDBs[:n-1]
		return db
	}
	s.nextDB++
	return (s.nextDB - 1) % databases
}

func (s *sharedServers) giveDB(db int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freeDBs = append(s.freeDBs, db)
}

func (s *sharedServers) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.redis != nil {
		s.redis.Stop()
	}
	for _, c := range s.clusters {
		c.Stop()
	}
}
