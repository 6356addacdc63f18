package ranking_test

import (
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ranking"
)

// load runs a file of plain Redis commands, one a line.
func load(t *testing.T, c *redis.Client, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var args []any
		for _, field := range strings.Fields(line) {
			args = append(args, field)
		}
		require.NoError(t, c.Do(background, args...).Err(), line)
	}
}

// What a version wrote, every later one reads.
func TestFixtureIsRead(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c := s.Client(t)
		load(t, c, "testdata/board.redis")
		b, err := ranking.New(c, "fixture", nil)
		require.NoError(t, err)
		top, err := b.Top(background, 10)
		require.NoError(t, err)
		require.Equal(t, []ranking.Entry{
			entry(1, "player:dave", 1<<53-1), entry(2, "player:bob", 1700.25), entry(3, "player:alice", 1500), entry(4, "player:carol", -3),
		}, top)
		got, err := b.Get(background, "player:alice")
		require.NoError(t, err)
		require.Equal(t, standing(3, "player:alice", 1500, 4), got)
		u, err := b.Increment(background, "player:alice", 1000)
		require.NoError(t, err)
		require.Equal(t, standing(2, "player:alice", 2500, 4), u.Standing)
	})
}

// The keys are those that the documentation names, and what lies in them is what redis-cli would show.
func TestFixtureIsWritten(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c := s.Client(t)
		b, err := ranking.New(c, "fixture", nil)
		require.NoError(t, err)
		fill(t, b, scored{"player:alice", 1500}, scored{"player:dave", 1<<53 - 1})
		_, err = b.Best(background, "player:bob", 1700.25)
		require.NoError(t, err)
		_, err = b.Increment(background, "player:carol", -3)
		require.NoError(t, err)
		written := contents(t, c)
		require.NoError(t, c.FlushDB(background).Err())
		load(t, c, "testdata/board.redis")
		require.Equal(t, contents(t, c), written)
	})
}

// contents are all sorted sets of a database.
func contents(t *testing.T, c *redis.Client) map[string][]redis.Z {
	t.Helper()
	all := map[string][]redis.Z{}
	for _, key := range c.Keys(background, "*").Val() {
		zs, err := c.ZRangeWithScores(background, key, 0, -1).Result()
		require.NoError(t, err)
		all[key] = zs
	}
	return all
}
