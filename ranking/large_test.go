package ranking_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ranking"
)

// Every operation works on a board of a million members (of twenty thousand, without REDISPATTERNS_LONG=1) for a client with
// the settings that go-redis has by default: none of its commands keeps a server busy for anything near the default ReadTimeout.
// It is the server's own CPU time that says so, as a machine with other work makes the replies later. The server is its own, since
// it keeps it busy for a long time. The benchmarks go on to five million.
func TestLargeBoards(t *testing.T) {
	t.Parallel()
	sizes := sizes()
	n := min(sizes[len(sizes)-1], 1_000_000)
	s, _ := redistest.Own(t)
	c, name := s.Client(t, func(o *redis.Options) { o.ReadTimeout = time.Minute }), redistest.ID()
	sent := redistest.Count(c)
	const readTimeout = time.Second // a fifth of go-redis' default, as a board may be five times as large
	for kind, b := range map[string]*ranking.Leaderboard{
		"competition": newBoardNamed(t, c, name, &ranking.Options{Ties: ranking.Competition}),
		"sharded":     newSharded(t, c, name+"s", 6, nil),
	} {
		fillMany(t, b, n)
		total := int64(n)
		fill(t, b, scored{"alice", 10_000_001}, scored{"bob", 5_000_000.5})
		got, err := b.Get(background, "alice")
		require.NoError(t, err)
		require.Equal(t, standing(1, "alice", 10_000_001, total+2), got)
		better, err := b.CountBetween(background, 5_000_001, 10_000_001)
		require.NoError(t, err)
		got, err = b.Get(background, "bob")
		require.NoError(t, err)
		require.Equal(t, standing(better+1, "bob", 5_000_000.5, total+2), got)
		for _, op := range operations {
			if _, ok := shardedTrips[op.name]; !ok && kind == "sharded" || op.name == "Merge" { // which says that it takes longer
				continue
			}
			sent.Reset()
			before := cpu(t, s)
			require.NoError(t, op.do(background, b), "%s of a board of kind %s", op.name, kind)
			used := cpu(t, s) - before
			t.Logf("%s of a board of kind %s: %v in %d round trips", op.name, kind, used.Round(time.Millisecond), sent.Trips())
			if op.name == "All" || op.name == "Trim" { // which go in equal portions
				used /= time.Duration(sent.Trips())
			}
			require.Less(t, used, readTimeout, "%s of a board of kind %s", op.name, kind)
		}
	}
}

// cpu is how long a real server has worked so far.
func cpu(t *testing.T, s *redistest.Server) time.Duration {
	t.Helper()
	c := redis.NewClient(s.Options())
	defer c.Close()
	info, err := c.Info(background, "cpu").Result()
	require.NoError(t, err)
	var seconds float64
	for _, field := range []string{"\nused_cpu_user:", "\nused_cpu_sys:"} {
		_, rest, found := strings.Cut(info, field)
		require.True(t, found, info)
		text, _, _ := strings.Cut(rest, "\r")
		value, err := strconv.ParseFloat(text, 64)
		require.NoError(t, err)
		seconds += value
	}
	return time.Duration(seconds * float64(time.Second))
}
