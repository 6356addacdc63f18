package ranking_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ranking"
)

// Every operation works on a board of five million members (of twenty thousand, without REDISPATTERNS_LONG=1) through a client
// with the settings that go-redis has by default, so none takes longer than its timeouts allow. It has a server of its own, which
// it keeps busy for a second at a time, and is not parallel: the timeouts are for a server that has a core.
func TestLargeBoards(t *testing.T) {
	sizes := sizes()
	n := sizes[len(sizes)-1]
	s, _ := redistest.Own(t)
	c, name := s.Client(t), redistest.ID()
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
			began := time.Now()
			require.NoError(t, op.do(background, b), "%s of a board of kind %s", op.name, kind)
			t.Logf("%s of a board of kind %s: %v", op.name, kind, time.Since(began).Round(time.Millisecond))
		}
	}
}
