//go:build unix

package lock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

// Eight processes ask for one lock again and again: each has its turn before any has it for the second time, but for those
// whose request was on its way when they were passed.
func TestEightProcessesTakeTurns(t *testing.T) {
	t.Parallel()
	s, _ := redistest.Own(t)
	c := s.Client(t)
	const processes, turns = 8, 5
	children := make([]*lines, processes)
	for i := range children {
		_, children[i] = start(t, s.Options(), "work", "x", 3*time.Second)
	}
	spans := func(i int) []span { return spansOf(t, children[i].get())["x"] }
	redistest.Eventually(t, func() bool {
		for i := range children {
			if len(spans(i)) < turns+1 { // the first may be from before the others were there
				return false
			}
		}
		return true
	}, "each had its turns")

	type turn struct {
		span
		process int
	}
	var all []turn
	begun := int64(0) // the latest first turn: from then on all eight are there
	for i := range children {
		own := spans(i)
		begun = max(begun, own[0].fence)
		for _, s := range own {
			all = append(all, turn{s, i})
		}
	}
	slices.SortFunc(all, func(a, b turn) int { return int(a.fence - b.fence) })
	last, most, over := map[int]int{}, 0, 0
	for n, turn := range all {
		if n > 0 {
			require.Less(t, all[n-1].fence, turn.fence, "a fence twice")
			require.LessOrEqual(t, all[n-1].last, turn.first, "two holders at a time")
		}
		if before, ok := last[turn.process]; ok && all[before].fence >= begun {
			most = max(most, n-before)
			if n-before >= 2*processes { // one whose look came late, as the machine was busy
				over++
			}
		}
		last[turn.process] = n
	}
	t.Logf("%d turns of %d processes; at most %d from one turn of a process to its next", len(all), processes, most)
	require.LessOrEqual(t, over*10, len(all))
	require.LessOrEqual(t, queued(c, "x"), processes)
}

// The process that is next in the queue is killed in the instant of the release. Where the server saw that in time, the one
// behind it has the lock at once; where it did not, the lock was granted to the dead, and lapses with the grant.
func TestTheProcessThatIsNextIsKilled(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	c, ctx, name := s.Client(t), context.Background(), redistest.ID()
	const ttl, poll = 400 * time.Millisecond, 500 * time.Millisecond // of the dead, so that its grant is as long
	lease := mustLock(t, newLocker(t, c, nil).Mutex(name))
	behind := newLocker(t, c, &lock.Options{PollInterval: poll})
	late := redistest.Lateness(t, c)
	worst := time.Duration(0)
	for range 5 {
		cmd, _ := start(t, s.Options(), "hold", name, ttl)
		redistest.Eventually(t, func() bool { return queued(c, name) == 1 }, "it is next")
		got := waiting(t, c, behind.Mutex(name), name, 2)
		require.NoError(t, cmd.Process.Kill())
		released := time.Now()
		require.NoError(t, lease.Release(ctx))
		next := <-got
		worst = max(worst, time.UnixMicro(next.Fence()).Sub(released))
		require.Greater(t, next.Fence(), lease.Fence())
		require.Equal(t, next.Token(), owner(t, c, name))
		lease = next
	}
	require.NoError(t, lease.Release(ctx))
	slack := late()
	t.Logf("the next had it after %v at worst; this machine was late by up to %v", worst, slack)
	require.Less(t, worst, poll+20*time.Millisecond+3*slack)
}
