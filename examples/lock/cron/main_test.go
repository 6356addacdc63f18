package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
)

func TestMain(m *testing.M) {
	if os.Getenv("REPLICA") != "" { // this process is one that a test started
		main()
		return
	}
	redistest.Main(m)
}

// log is what all replicas have written.
type log struct {
	mu      sync.Mutex
	fences  []int64        // of the runs
	entries map[string]int // by replica
}

func (l *log) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	replica, rest, _ := strings.Cut(line, " ")
	l.entries[replica]++
	var fence int64
	if _, err := fmt.Sscanf(rest, "runs the job, fence %d", &fence); err == nil {
		l.fences = append(l.fences, fence)
	}
}

func (l *log) runs() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.fences)
}

func (l *log) replicas() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// Five processes, whose clocks differ by up to 600 ms, each try once a second. The job runs once a second.
func TestFiveReplicasRunTheJobOnce(t *testing.T) {
	_, server := redistest.Own(t)
	const every, spread, runs = time.Second, 600 * time.Millisecond, 4
	l := &log{entries: map[string]int{}}
	var readers sync.WaitGroup
	t.Cleanup(readers.Wait) // after all are killed
	for i := range 5 {
		cmd := exec.Command(os.Args[0])
		offset := time.Duration(i)*spread/4 - spread/2
		cmd.Env = append(os.Environ(), fmt.Sprintf("REPLICA=replica-%d", i), "CLOCK_OFFSET="+offset.String(), "EVERY="+every.String(), "REDIS_ADDR="+server.Addr)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		readers.Go(func() {
			for in := bufio.NewScanner(out); in.Scan(); {
				l.add(in.Text())
			}
			_ = cmd.Wait()
		})
		t.Cleanup(func() { _ = cmd.Process.Kill() })
	}
	redistest.Eventually(t, func() bool { return l.runs() >= runs && l.replicas() == 5 }, "the job has run %d times, and all took part", runs)

	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.fences)
	for i, fence := range l.fences[1:] { // a fence is the time at which the lock was taken, by the server's clock
		apart := time.Duration(fence-l.fences[i]) * time.Microsecond
		require.GreaterOrEqual(t, apart, every*5/6-50*time.Millisecond, "once a second")
		require.Less(t, apart, every+spread+10*time.Second, "each second, on a machine that may be busy")
	}
}

func TestBadSettings(t *testing.T) {
	for _, name := range []string{"EVERY", "CLOCK_OFFSET"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "soon")
			require.Error(t, run(context.Background(), io.Discard))
		})
	}
}
