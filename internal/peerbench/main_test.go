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

// A whole report, with hardly any operations, on a server of the user's.
func TestReport(t *testing.T) {
	t.Parallel()
	server, err := redistest.StartRedis()
	require.NoError(t, err)
	defer server.Stop()
	url := "redis://" + server.Addr + "/15"

	var out strings.Builder
	require.NoError(t, run(context.Background(), []string{
		"-short", "-q", "-addr", url, "-n", "8", "-c", "1,2", "-rounds", "1", "-handoff", "60ms", "-keys", "20", "-memreqs", "3",
		"-boards", "100", "-only", bench.Ours,
	}, &out, io.Discard))
	report := out.String()
	require.NotContains(t, report, "first error", report)
	require.NotContains(t, report, "NaN")
	for _, title := range []string{
		"### lock/uncontended c=1 ", "### lock/uncontended c=2 ", "### lock/handoff", "### lock/barging",
		"### ratelimit/allow c=1, 20 keys", "### ratelimit/allow c=2, one hot key", "### ratelimit/denied c=2",
		"### session/request c=1", "### session/read-only request c=2",
		"### ranking/set a score, answer rank and total, 100 members, c=1", "### ranking/top 10, 100 members, c=2",
		"### ratelimit/memory", "### session/memory", "### ranking/memory", "## summary",
	} {
		require.Contains(t, report, "\n"+title)
	}
	for line := range strings.Lines(report) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if strings.HasPrefix(line, "| ") && cells[0] != "contender" && len(cells) == 18 {
			require.Equal(t, "0.0%", cells[17], line)
		}
	}

	control, err := bench.Dial(bench.Conn{Addr: server.Addr, DB: 15})
	require.NoError(t, err)
	defer control.Close()
	n, err := control.Keys()
	require.NoError(t, err)
	require.Zero(t, n, "keys are left")
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
