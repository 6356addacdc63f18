package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
	"github.com/redispatterns/redispatterns/internal/redistest"
)

// TestMain is also the beginning of the processes that wait for a lock.
func TestMain(m *testing.M) {
	if bench.IsWaiter() {
		waiter()
		return
	}
	m.Run()
}

// A whole report, with hardly any operations, on a server of the user's.
func TestReport(t *testing.T) {
	t.Parallel()
	server, err := redistest.StartRedis()
	require.NoError(t, err)
	defer server.Stop()
	url := "redis://" + server.Addr + "/15"

	var out strings.Builder
	require.NoError(t, run(context.Background(), []string{
		"-short", "-q", "-addr", url, "-n", "8", "-c", "1,2", "-rounds", "1", "-handoff", "500ms", "-keys", "20", "-memreqs", "3",
		"-boards", "100", "-only", bench.Ours,
	}, &out, io.Discard))
	report := out.String()
	require.NotContains(t, report, "NaN")
	for _, title := range []string{
		"### lock/uncontended: acquire and release a fresh key, c=1", "### lock/uncontended: acquire and release a fresh key, c=2",
		"### lock/handoff", "### lock/barging",
		"### ratelimit/allow, 20 keys, c=1", "### ratelimit/allow, one hot key, c=2",
		"### ratelimit/denied, one hot key over its limit, c=2",
		"### session/request: load 3 fields, change 1, save, renew TTL, c=1", "### session/read-only request: load 3 fields, c=2",
		"### ranking/set a score, answer rank and total, 100 members, c=1", "### ranking/top 10, 100 members, c=2",
		"### ratelimit/memory", "### session/memory", "### ranking/memory", "## summary",
	} {
		require.Contains(t, report, "\n"+title)
	}
	for line := range strings.Lines(report) {
		if _, failure, found := strings.Cut(line, "first error: "); found {
			// A limiter with a Timeout gives up where the machine stalls. Nothing else may go wrong.
			require.Contains(t, failure, "deadline exceeded", line)
		}
		if cells := strings.Split(strings.Trim(line, "| \n"), " | "); len(cells) == 15 && cells[0] != "contender" {
			require.Equal(t, "0", cells[12], "overlaps: %s", line)
		}
	}
	for _, waiters := range []string{"**redispatterns, 8 processes**", "_by hand: BLPOP a token, 8 processes_"} {
		require.Equal(t, 2, strings.Count(report, "\n| "+waiters+" | "), "%s: when the releaser steps out, and when he asks again", waiters)
	}

	control, err := bench.Dial(bench.Conn{Addr: server.Addr, DB: 15})
	require.NoError(t, err)
	defer control.Close()
	n, err := control.Keys()
	require.NoError(t, err)
	require.Zero(t, n, "keys are left")
}

// The tables of a page, in place of a report.
func TestMarkdown(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, run(context.Background(), []string{
		"-markdown", "-q", "-run", "session", "-n", "5", "-c", "1,2", "-rounds", "1", "-keys", "20", "-only", bench.Ours,
	}, &out, io.Discard))
	page := out.String()
	require.NotContains(t, page, "#")
	require.True(t, strings.HasPrefix(page, "\n`peerbench -markdown -q -run session "), page)
	require.Contains(t, page, "\nThe reference once more lies off 1 by ")
	require.Contains(t, page, "\nsession/read-only request: load 3 fields:\n\n| contender | 1 goroutine | 2 goroutines | against the merging reference |")
	require.Contains(t, page, "\n| _by hand: hash per session, again_ | ")
	require.Contains(t, page, "\n| **redispatterns, AutoPipeliner** | ")
	require.Contains(t, page, "\nsession/memory, 20 sessions of user_id, username, role:\n\n| contender |")
}

// What the user has in a database is never emptied.
func TestDatabaseInUse(t *testing.T) {
	t.Parallel()
	server, err := redistest.StartRedis()
	require.NoError(t, err)
	defer server.Stop()
	control, err := bench.Dial(bench.Conn{Addr: server.Addr})
	require.NoError(t, err)
	defer control.Close()
	_, err = control.Do("SET", "precious", "1")
	require.NoError(t, err)

	err = run(context.Background(), []string{"-addr", server.Addr}, io.Discard, io.Discard)
	require.ErrorContains(t, err, "holds 1 keys")
	n, err := control.Keys()
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
}

func TestBadFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-c", "0"}, {"-boards", "x"}, {"-n", "0"}, {"-addr", "localhost"}, {"-run", "nothing"}, {"-nothing"},
	} {
		require.Error(t, run(context.Background(), args, io.Discard, io.Discard), "%v", args)
	}
}
