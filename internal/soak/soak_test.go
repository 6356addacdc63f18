package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(workerEnv); spec != "" {
		os.Exit(work(spec)) // the test's binary is its workers too
	}
	redistest.Main(m)
}

// soak runs until it has been enough.
func soak(t *testing.T, plant string, enough func(r *report) bool) *report {
	t.Helper()
	redistest.Real(t).OnlyOurs(t) // it needs a redis-server to start
	r := newReport()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for !enough(r) && pause(ctx, 50*time.Millisecond) {
		}
		cancel()
	}()
	require.NoError(t, run(ctx, config{length: time.Minute, workers: 3, plant: plant}, r))
	return r
}

func TestSoak(t *testing.T) {
	t.Parallel()
	patterns := []string{"board", "limit", "lock", "session"}
	r := soak(t, "", func(r *report) bool {
		return time.Since(r.began) > redistest.Long() && slices.Equal(r.operated(), patterns)
	})
	var text strings.Builder
	r.print(&text)
	require.Empty(t, r.violations, text.String())
	require.Equal(t, patterns, r.operated(), text.String())
	require.NotEmpty(t, r.faults)
}

func TestSoakReportsWhatWorkersDoWrong(t *testing.T) {
	t.Parallel()
	planted := []string{"board", "limit", "lock", "session"}
	r := soak(t, strings.Join(planted, " ")+" keys", func(r *report) bool {
		kinds := r.kinds()
		return !slices.ContainsFunc(planted, func(kind string) bool { return !slices.Contains(kinds, kind) })
	})
	require.Subset(t, r.kinds(), append(planted, "keys"))
}

func TestTimeline(t *testing.T) {
	t.Parallel()
	a := Hold{Token: "a", Weight: 1, From: 100, To: 200, Fence: 10}
	for _, test := range []struct {
		name     string
		capacity int
		holds    []Hold
		want     string // in the error; "": there is none
	}{
		{"one after the other", 1, []Hold{a, {Token: "b", Weight: 1, From: 201, To: 300, Fence: 11}}, ""},
		{"told in another order", 1, []Hold{{Token: "b", Weight: 1, From: 201, To: 300, Fence: 11}, a}, ""},
		{"one that goes on", 1, []Hold{a, {Token: "a", Weight: 1, From: 100, To: 300, Fence: 10}}, ""},
		{"two at once", 1, []Hold{a, {Token: "b", Weight: 1, From: 150, To: 300, Fence: 11}}, "2 held at once where 1 may be"},
		{"one goes on into another", 1, []Hold{a, {Token: "b", Weight: 1, From: 201, To: 300, Fence: 11},
			{Token: "a", Weight: 1, From: 100, To: 250, Fence: 10}}, "2 held at once"},
		{"within another", 1, []Hold{a, {Token: "b", Weight: 1, From: 120, To: 130, Fence: 11}}, "2 held at once"},
		{"as many as there are permits", 2, []Hold{a, {Token: "b", Weight: 1, From: 150, To: 300}}, ""},
		{"two in turn beside a third", 2, []Hold{{Token: "b", Weight: 1, From: 100, To: 140}, {Token: "c", Weight: 1, From: 150, To: 190}, a}, ""},
		{"more than there are permits", 2, []Hold{a, {Token: "b", Weight: 1, From: 120, To: 300}, {Token: "c", Weight: 1, From: 150, To: 160}}, "3 held"},
		{"a writer beside a reader", writer, []Hold{{Token: "b", Weight: writer, From: 120, To: 300}, a}, "held at once"},
		{"readers", writer, []Hold{a, {Token: "b", Weight: 1, From: 120, To: 300}}, ""},
		{"the same fence", 1, []Hold{a, {Token: "b", Weight: 1, From: 201, To: 300, Fence: 10}}, "one fence"},
		{"a lower fence", 1, []Hold{a, {Token: "b", Weight: 1, From: 201, To: 300, Fence: 9}}, "does not grow"},
		{"a higher fence before", 1, []Hold{a, {Token: "b", Weight: 1, From: 20, To: 30, Fence: 12}}, "does not grow"},
	} {
		line := &timeline{capacity: test.capacity}
		var err error
		for _, h := range test.holds {
			if e := line.add(h); e != nil {
				err = e
			}
		}
		requireError(t, test.want, err, test.name)
	}
}

func TestTimelineWrite(t *testing.T) {
	t.Parallel()
	line := &timeline{}
	for _, test := range []struct {
		fence    int64
		token    string
		accepted bool
		want     string
	}{{10, "a", true, ""}, {10, "a", true, ""}, {12, "b", true, ""}, {10, "a", false, ""}, {12, "c", true, "two leases"}} {
		accepted, err := line.write(test.fence, test.token)
		require.Equal(t, test.accepted, accepted)
		requireError(t, test.want, err, test.token)
	}
}

func TestTally(t *testing.T) {
	t.Parallel()
	const ms = int64(time.Millisecond)
	at := func(from, to, n int64) admitted { return admitted{From: from * ms, To: to * ms, N: n} }
	sliding, aligned := bound{time.Second, 3, false}, bound{time.Second, 3, true}
	for _, test := range []struct {
		name   string
		bound  bound
		events []admitted
		want   string
	}{
		{"as many as may be", sliding, []admitted{at(1, 2, 2), at(3, 4, 1)}, ""},
		{"one more", sliding, []admitted{at(1, 2, 2), at(900, 904, 2)}, "let 4 through"},
		{"one more, told before", sliding, []admitted{at(900, 904, 2), at(1, 2, 2)}, "let 4 through"},
		{"one that may lie beyond", sliding, []admitted{at(1, 2, 3), at(900, 1002, 2)}, ""},
		{"on both sides of a second", sliding, []admitted{at(900, 910, 3), at(1100, 1200, 1)}, "let 4 through"},
		{"on both sides of an aligned second", aligned, []admitted{at(900, 910, 3), at(1100, 1200, 3)}, ""},
		{"over an edge", aligned, []admitted{at(900, 910, 3), at(950, 1001, 3)}, ""},
		{"within an aligned second", aligned, []admitted{at(1900, 1910, 3), at(1100, 1200, 3)}, "let 6 through"},
	} {
		tally := tally{bounds: []bound{test.bound}, events: test.events}
		requireError(t, test.want, tally.check(time.Unix(0, 0)), test.name)
	}
	tally := tally{events: []admitted{at(1, 2, 1), at(5000, 5001, 1)}}
	require.NoError(t, tally.check(time.Unix(33, 0)))
	require.Len(t, tally.events, 1, "what is old is forgotten")
}

func TestLedger(t *testing.T) {
	t.Parallel()
	l := newLedger()
	a := l.begin(Operation{Board: "sum", Member: "m", Amount: 3})
	b := l.begin(Operation{Board: "sum", Member: "m", Amount: 4})
	require.NotEqual(t, a.ID, b.ID)
	l.done(a.ID)
	l.done(a.ID) // a worker told twice
	requireError(t, "", l.span("sum", "m").check(3), "acknowledged")
	requireError(t, "", l.span("sum", "m").check(7), "sent")
	requireError(t, "a write is lost", l.span("sum", "m").check(2), "")
	requireError(t, "counted twice", l.span("sum", "m").check(10), "")
	require.Equal(t, map[string]int64{"m": 3}, l.lows("sum"))
	l.done(l.begin(Operation{Board: bestBoard, Member: "m", Amount: 9}).ID)
	l.done(l.begin(Operation{Board: bestBoard, Member: "m", Amount: 5}).ID)
	require.Equal(t, span{9, 9}, *l.span(bestBoard, "m"))
}

func TestFlat(t *testing.T) {
	t.Parallel()
	samples := func(goroutines func(int) int, heap func(int) int) (s []sample) {
		for i := range 120 {
			s = append(s, sample{goroutines(i), uint64(heap(i))})
		}
		return s
	}
	even := func(i int) int { return 50 + 20*(i%2) }
	mega := func(i int) int { return 3<<20 + i%2<<20 }
	requireError(t, "", flat(samples(even, mega)), "even")
	requireError(t, "goroutines", flat(samples(func(i int) int { return even(i) + 2*i }, mega)), "two goroutines each time")
	requireError(t, "bytes of heap", flat(samples(even, func(i int) int { return mega(i) + i<<19 })), "512 KiB each time")
	requireError(t, "", flat(samples(even, func(i int) int { return mega(i) + i<<11 })), "2 KiB each time")
}

func requireError(t *testing.T, want string, err error, name string) {
	t.Helper()
	if want == "" {
		require.NoError(t, err, name)
		return
	}
	require.ErrorContains(t, err, want, name)
}
