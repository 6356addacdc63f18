package ratelimit_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

// stepped starts a redis-server whose time of day can be set, by a library that is compiled and preloaded into it. Not for
// parallel tests: it sets this process's environment for a moment.
func stepped(t *testing.T) (s *redistest.Server, step func(time.Duration)) {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil || runtime.GOOS != "linux" {
		if os.Getenv("CI") == "true" {
			t.Fatal("no C compiler, or not Linux, and CI=true does not let the test with a clock that steps be skipped")
		}
		fmt.Println("SKIPPED: no C compiler, or not Linux, so no real redis-server has its clock set")
		t.Skip("no C compiler, or not Linux")
	}
	dir := t.TempDir()
	library, shift := filepath.Join(dir, "clockshift.so"), filepath.Join(dir, "shift")
	out, err := exec.Command(compiler, "-shared", "-fPIC", "-O1", "-o", library, "testdata/clockshift.c").CombinedOutput()
	require.NoError(t, err, "%s", out)
	var by time.Duration
	set := func() {
		// One write of one length, since the server may read at any time.
		f, err := os.OpenFile(shift, os.O_WRONLY|os.O_CREATE, 0o600)
		require.NoError(t, err)
		_, err = fmt.Fprintf(f, "%+020d", by.Microseconds())
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	set()
	func() {
		for name, value := range map[string]string{"LD_PRELOAD": library, "CLOCK_SHIFT": shift} {
			before, was := os.LookupEnv(name)
			require.NoError(t, os.Setenv(name, value))
			defer func() {
				if os.Unsetenv(name); was {
					os.Setenv(name, before)
				}
			}()
		}
		s, _ = redistest.Own(t)
	}()
	return s, func(d time.Duration) {
		began, before := time.Now(), s.Now(t)
		by += d
		set()
		stepped := s.Now(t).Sub(before)
		require.GreaterOrEqual(t, stepped, d-time.Millisecond, "the server's clock steps")
		require.LessOrEqual(t, stepped, d+time.Since(began)+time.Millisecond)
	}
}

// The clock of a real server is set back by five windows, and forward: no more is let through than the documentation says,
// and service is back within a window.
func TestRealClockSteps(t *testing.T) {
	const per, limit = time.Second, 4
	s, step := stepped(t)
	c := s.Client(t)
	limiters := map[string]*ratelimit.Limiter{}
	for name, build := range algorithms {
		limiters[name] = must(t)(build(c, ratelimit.Limit{Events: limit, Per: per}, nil))
	}
	// flood asks until it is denied, and says how much passed.
	flood := func(name, id string) (passed int64, denied ratelimit.Result) {
		for denied = take(t, limiters[name], name+id, 1); denied.Allowed; denied = take(t, limiters[name], name+id, 1) {
			passed++
			require.LessOrEqual(t, passed, int64(10*limit), "%s lets all through", name)
		}
		return passed, denied
	}
	for _, by := range []time.Duration{-5 * per, 5 * per} {
		passed, denied := map[string]int64{}, map[string]ratelimit.Result{}
		var id string
		var lasted time.Duration
		redistest.Eventually(t, func() bool { // all in one window, or again
			now := s.Now(t)
			time.Sleep(now.Truncate(per).Add(per + time.Millisecond).Sub(now))
			id = redistest.ID()
			began, begun := time.Now(), s.Now(t).Truncate(per)
			for name := range limiters {
				flood(name, id)
			}
			step(by)
			for name := range limiters {
				passed[name], denied[name] = flood(name, id)
			}
			lasted = time.Since(began)
			return s.Now(t).Add(-by).Truncate(per).Equal(begun)
		}, "quick enough for a window of %v", per)
		for name, n := range passed {
			var most int64
			switch {
			case by > 0: // what was taken is long ago
				most = limit
			case name == "fixed window": // time is repeated, and with it the quotas of its windows
				most = limit
			}
			if name == "token bucket" || name == "multi of bucket" {
				most += int64(lasted * limit / per)
			}
			require.LessOrEqual(t, n, most, "%s, clock set by %v", name, by)
			if by > 0 {
				require.GreaterOrEqual(t, n, int64(limit), "%s, clock set by %v", name, by)
			}
			require.LessOrEqual(t, denied[name].RetryAfter, per+time.Millisecond, "%s, clock set by %v: when service is back", name, by)
		}
		time.Sleep(per + time.Millisecond)
		for name, l := range limiters {
			require.True(t, take(t, l, name+id, 1).Allowed, "%s, clock set by %v: a window later", name, by)
		}
	}
}
