package ranking_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ranking"
)

// What a version wrote, every later one reads.
func TestFixtureIsRead(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c := s.Client(t)
		redistest.Load(t, c, "testdata/v0.redis")
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

func TestFixtureOfOtherKindsIsRead(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c := s.Client(t)
		redistest.Load(t, c, "testdata/v0.redis")
		require.Equal(t, map[string]int64{"a": 1, "b": 1, "c": 2}, ranks(t, newBoardNamed(t, c, "dense", &ranking.Options{Ties: ranking.Dense})))

		early := newBoardNamed(t, c, "early", &ranking.Options{Ties: ranking.EarliestFirst, Earliest: &ranking.Earliest{
			Since: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC),
		}})
		top, err := early.Top(background, 3)
		require.NoError(t, err)
		require.Equal(t, []ranking.Entry{entry(1, "b", 100), entry(2, "a", 100), entry(3, "c", -3)}, top)

		w := newWindows(t, c, "windows", everyWindow, nil)
		for i, win := range everyWindow {
			b, err := w.Board(win.Period, time.Date(2026, 8, 9, 11, 30, 0, 0, time.UTC))
			require.NoError(t, err)
			got, err := b.Get(background, "a")
			require.NoError(t, err)
			require.Equal(t, standing(1, "a", float64(i+1), 1), got)
		}

		sharded := newSharded(t, c, "sharded", 3, nil)
		for i, member := range []string{"a", "b", "c", "d"} {
			got, err := sharded.Get(background, member)
			require.NoError(t, err)
			require.Equal(t, standing(int64(4-i), member, float64(10*i), 4), got)
		}

		once := newBoardNamed(t, c, "once", nil)
		for _, op := range []string{"op-1", "op-2"} {
			u, err := once.IncrementOnce(background, "a", 1, op)
			require.NoError(t, err)
			require.Equal(t, ranking.Update{Standing: standing(1, "a", 7, 1)}, u)
		}
	})
}

// The keys are those that the documentation names, and what lies in them is what redis-cli would show.
func TestFixtureIsWritten(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c := s.Client(t)
		now := steady(t, s)
		b := newBoardNamed(t, c, "fixture", nil)
		fill(t, b, scored{"player:alice", 1500}, scored{"player:dave", 1<<53 - 1})
		_, err := b.Best(background, "player:bob", 1700.25)
		require.NoError(t, err)
		_, err = b.Increment(background, "player:carol", -3)
		require.NoError(t, err)
		fill(t, newBoardNamed(t, c, "dense", &ranking.Options{Ties: ranking.Dense}), scored{"a", 10}, scored{"b", 10}, scored{"c", 5})
		fill(t, newSharded(t, c, "sharded", 3, nil), scored{"a", 0}, scored{"b", 10}, scored{"c", 20}, scored{"d", 30})
		for i, win := range everyWindow {
			_, err = newWindows(t, c, "windows", []ranking.Window{win}, nil).Set(background, now, "a", float64(i+1))
			require.NoError(t, err)
		}
		once := newBoardNamed(t, c, "once", nil)
		fill(t, once, scored{"a", 6})
		_, err = once.IncrementOnce(background, "a", 1, "op")
		require.NoError(t, err)
		early := newBoardNamed(t, c, "early", &ranking.Options{Ties: ranking.EarliestFirst, Earliest: &ranking.Earliest{
			Since: time.UnixMilli(1767225600000), Until: time.UnixMilli(1798761600000),
		}})
		_, err = early.Set(background, "a", 100)
		if errors.Is(err, ranking.ErrWindowClosed) { // in another year
			require.NoError(t, c.Set(background, "{ranking:early}~e", "1767225600000:1798761600000:1000:25", 0).Err())
		} else {
			require.NoError(t, err)
		}
		written := contents(t, c)
		require.NoError(t, c.FlushDB(background).Err())
		redistest.Load(t, c, "testdata/v0.redis")
		want := contents(t, c)

		// What has the time in its value, or in its key.
		utc := now.UTC()
		year, week := utc.ISOWeek()
		for key, label := range map[string]string{
			"h:2026-08-09-11:00": utc.Format("h:2006-01-02-15:00"), "d:2026-08-09": utc.Format("d:2006-01-02"),
			"w:2026-32": fmt.Sprintf("w:%d-%02d", year, week), "m:2026-08": utc.Format("m:2006-01"),
		} {
			require.Equal(t, want["{ranking:windows}~"+key], written["{ranking:windows}~"+label], label)
			delete(want, "{ranking:windows}~"+key)
			delete(written, "{ranking:windows}~"+label)
		}
		remembered := 0
		for _, key := range []string{"{ranking:once}~o0", "{ranking:once}~o1"} {
			if memory, ok := written[key].(map[string]string); ok {
				require.Equal(t, map[string]string{"op": ""}, memory)
				remembered++
			}
			delete(want, key)
			delete(written, key)
		}
		require.Equal(t, 1, remembered)
		delete(want, "ranking:early")
		delete(written, "ranking:early")
		require.Equal(t, want, written)
	})
}

// contents are all keys of a database, and what is in them.
func contents(t *testing.T, c *redis.Client) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, key := range c.Keys(background, "*").Val() {
		var err error
		switch kind := c.Type(background, key).Val(); kind {
		case "zset":
			all[key], err = c.ZRangeWithScores(background, key, 0, -1).Result()
		case "hash":
			all[key], err = c.HGetAll(background, key).Result()
		case "string":
			all[key], err = c.Get(background, key).Result()
		default:
			t.Fatalf("%s is a %s", key, kind)
		}
		require.NoError(t, err)
	}
	return all
}
