package bench

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 5}, 5}} {
		require.Equal(t, c.want, median(c.in), "%v", c.in)
	}
}

func TestPercentile(t *testing.T) {
	var v []time.Duration
	for i := range 100 {
		v = append(v, time.Duration(i))
	}
	for p, want := range map[float64]time.Duration{0: 0, 50: 50, 99: 99, 100: 99} {
		require.Equal(t, want, percentile(v, p), "%v", p)
	}
}

func TestInfo(t *testing.T) {
	text := "# CPU\r\nused_memory_peak:7\r\nused_memory:12\r\nused_cpu_user:1.500000\r\n"
	require.EqualValues(t, 12, infoInt(text, "used_memory"))
	require.Equal(t, 1500*time.Millisecond, infoSeconds(text, "used_cpu_user"))
}

func TestParseAddr(t *testing.T) {
	for in, want := range map[string]Conn{
		"localhost:6379":                     {Addr: "localhost:6379"},
		"redis://cache.internal":             {Addr: "cache.internal:6379"},
		"redis://app:secret@10.0.0.7:6400/3": {Addr: "10.0.0.7:6400", Username: "app", Password: "secret", DB: 3},
	} {
		got, err := ParseAddr(in)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, in := range []string{"localhost", "rediss://cache:6379", "redis://cache/x"} {
		_, err := ParseAddr(in)
		require.Error(t, err, in)
	}
}

func TestFairness(t *testing.T) {
	require.Equal(t, "2.00", fairness([]int64{3, 6, 4}))
	require.Equal(t, "6/0", fairness([]int64{0, 6, 4}))
}

// TestJudge makes figures of what waiters did: a hold that begins before the one before has ended is an overlap.
func TestJudge(t *testing.T) {
	h := judge([]turns{
		{Holds: []hold{{10, 20}, {50, 60}}},
		{Holds: []hold{{25, 45}, {58, 70}}, Errors: 1, FirstError: "no"},
		{},
	})
	require.Equal(t, handoff{
		latencies: []time.Duration{5, 5}, counts: []int64{2, 2, 0}, acquired: 4, overlaps: 1, errors: 1, firstError: "no",
	}, h)
}

// TestReferee says that a round without an acquisition goes on until there is one.
func TestReferee(t *testing.T) {
	f := newReferee(0)
	defer f.end()
	require.Eventually(t, func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.late }, time.Minute, time.Millisecond)
	require.NoError(t, f.ctx.Err())
	next := f.enter()
	require.ErrorIs(t, f.ctx.Err(), context.Canceled)
	f.enter()
	<-next
}

// TestPage says that the reference takes part twice, and that a contender has one line for all concurrencies.
func TestPage(t *testing.T) {
	contenders := timed(&Run{}, []Contender[LockConfig, Locker]{{Name: "hand", Ref: true}, {Name: "peer"}})
	require.Len(t, contenders, 3)
	require.True(t, contenders[1].about().again)

	line := func(name string, ratio float64) row {
		return row{about: about{name: name, again: strings.HasSuffix(name, "again")}, ratio: ratio, low: ratio, high: ratio, med: sample{reads: 1, allocs: 7}}
	}
	var out strings.Builder
	report := &Report{W: io.Discard}
	report.ClosedLoop("work", 1, []row{line("hand", 1), line("hand, again", 1.03), line("peer", 0.5)})
	report.ClosedLoop("work", 32, []row{line("hand", 1), line("hand, again", 0.96), line("peer", 0.25)})
	report.Page(&out)
	require.Contains(t, out.String(), "off 1 by 0.03 in the median and 0.03 at most with 1 goroutine, 0.04 in the median and 0.04 at most with 32 goroutines.")
	require.Contains(t, out.String(), "| peer | 0.50 (0.50–0.50) | 0.25 (0.25–0.25) | - | 0.00 / 0.00 | 1.00 | 7 |")
}

// TestRatios says that a ratio is taken within a round, and a merging contender is held against the reference that merges.
func TestRatios(t *testing.T) {
	rate := func(s sample) float64 { return s.rate }
	a := []sample{{rate: 10}, {rate: 30}, {rate: 8}}
	b := []sample{{rate: 10}, {rate: 10}, {rate: 16}}
	require.Equal(t, []float64{0.5, 1, 3}, ratios(a, b, rate))

	r := newRun(t)
	pause := func(d time.Duration) func(int, int) error {
		return func(int, int) error { time.Sleep(d); return nil }
	}
	rows, err := r.closedLoop(1, []work{
		{about: about{name: "plain", ref: true}, op: pause(20 * time.Millisecond)},
		{about: about{name: "merging", ref: true, merges: true}, op: pause(time.Millisecond)},
		{about: about{name: "plain contender"}, op: pause(20 * time.Millisecond)},
		{about: about{name: "merging contender", merges: true}, op: pause(20 * time.Millisecond)},
	})
	require.NoError(t, err)
	require.Equal(t, 1.0, rows[0].ratio)
	require.Zero(t, rows[0].merged)
	require.Greater(t, rows[1].ratio, 1.0)
	require.Equal(t, 1.0, rows[1].merged)
	require.Zero(t, rows[2].merged)
	require.Less(t, rows[3].merged, rows[3].ratio)
}

func newRun(t *testing.T) *Run {
	t.Helper()
	server, err := redistest.StartRedis()
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	conn := Conn{Addr: server.Addr}
	control, err := Dial(conn)
	require.NoError(t, err)
	t.Cleanup(func() { control.Close() })
	require.NoError(t, control.Calibrate())
	return &Run{Options: Options{Ops: 10, Rounds: 1}, Server: conn, Control: control}
}

// TestCounters holds the harness against a workload whose cost is known.
func TestCounters(t *testing.T) {
	r := newRun(t)
	client, err := Dial(r.Server)
	require.NoError(t, err)
	defer client.Close()

	call := []string{"EVAL", "redis.call('SET', KEYS[1], 1) return redis.call('INCR', KEYS[1])", "1", "k"}
	w := work{op: func(int, int) error {
		_, err := client.Do(call...)
		return err
	}}
	const ops = 50
	got, err := r.chunk(w, 1, ops)
	require.NoError(t, err)
	require.Equal(t, 1.0, got.reads)
	require.Equal(t, float64(len(request(call))), got.in)
	require.Equal(t, 4.0, got.out)
	require.Zero(t, got.errorShare)

	var nothing sample
	for range 5 { // what the runtime allocates now and then is not the harness'
		if nothing, err = r.chunk(work{op: func(int, int) error { return nil }}, 1, 1000); nothing.allocs < 0.1 {
			break
		}
	}
	require.NoError(t, err)
	require.Less(t, nothing.allocs, 0.1)

	seen, err := r.count(w, 1, ops)
	require.NoError(t, err)
	require.Equal(t, 1.0, seen.topLevel)
	require.Equal(t, 2.0, seen.lua)
}
