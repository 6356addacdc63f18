package ranking_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/rediskey"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ranking"
)

// A board's name is refused, or every key of the board lies in its slot; of a sharded one, all that is left is gone after
// Clear.
func FuzzName(f *testing.F) {
	for _, name := range redistest.Hostile() {
		f.Add(name)
	}
	c := redistest.Mini(f).Client(f)
	f.Fuzz(func(t *testing.T, name string) {
		key := "ranking:" + name
		b, err := ranking.New(c, name, &ranking.Options{Ties: ranking.Dense})
		if name == "" || rediskey.Check(key) != nil {
			require.Error(t, err)
			requireOneLine(t, err)
			_, err = ranking.NewSharded(c, name, 3, nil)
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		_, err = b.IncrementOnce(background, "alice", 1, "op")
		require.NoError(t, err)
		keys := c.Keys(background, "*").Val()
		require.Len(t, keys, 3) // the board, each score once, the operation
		for _, k := range keys {
			require.Equal(t, rediskey.Slot(key), rediskey.Slot(k), "%q beside %q", k, key)
			require.True(t, k == key || rediskey.ReservedSuffix(k))
		}
		require.NoError(t, b.Clear(background))
		require.Empty(t, c.Keys(background, "*").Val())

		sharded, err := ranking.NewSharded(c, name, 3, nil)
		if err != nil {
			require.Contains(t, name, "{", "a name with a {tag} has no shards")
			requireOneLine(t, err)
			return
		}
		_, err = sharded.Set(background, "alice", 1)
		require.NoError(t, err)
		require.NoError(t, sharded.Clear(background))
		require.Empty(t, c.Keys(background, "*").Val())
	})
}

// Any member and operation but an empty one is kept byte for byte, and any score but NaN and infinities bit for bit.
func FuzzMember(f *testing.F) {
	for _, text := range redistest.Hostile() {
		f.Add(text, "op", 1500.0)
		f.Add("alice", text, 0.1)
	}
	for _, score := range []float64{math.NaN(), math.Inf(1), math.Copysign(0, -1), math.MaxFloat64, 5e-324, 1<<53 + 2, 0.1 + 0.2} {
		f.Add("alice", "op", score)
	}
	c := redistest.Mini(f).Client(f)
	b := newBoard(f, c, &ranking.Options{Ties: ranking.Competition})
	f.Fuzz(func(t *testing.T, member, op string, score float64) {
		require.NoError(t, b.Clear(background))
		u, err := b.Set(background, member, score)
		switch {
		case member == "":
			require.Error(t, err)
			return
		case math.IsNaN(score) || math.IsInf(score, 0):
			require.ErrorIs(t, err, ranking.ErrScore)
			return
		}
		require.NoError(t, err)
		want := standing(1, member, score+0, 1)
		require.Equal(t, want, u.Standing)
		got, err := b.Get(background, member)
		require.NoError(t, err)
		require.Equal(t, want, got)
		top, err := b.Top(background, 2)
		require.NoError(t, err)
		require.Equal(t, []ranking.Entry{want.Entry}, top)
		around, err := b.Around(background, member, 1, 1)
		require.NoError(t, err)
		require.Equal(t, top, around)
		for again := range 2 {
			u, err = b.IncrementOnce(background, member, 0, op)
			if op == "" {
				require.Error(t, err)
				continue
			}
			require.NoError(t, err, again)
			require.Equal(t, want, u.Standing)
		}
		_, err = b.Get(background, member+"'s friend")
		require.ErrorIs(t, err, ranking.ErrNotFound)
		requireOneLine(t, err)
		removed, err := b.Remove(background, member)
		require.NoError(t, err)
		require.EqualValues(t, 1, removed)
	})
}

// What is beside a board may be written by anybody: a record of how scores are packed, or of how many shards there are, that
// makes no sense is an error.
func FuzzStored(f *testing.F) {
	for _, text := range append(redistest.Hostile(), "1:2:3:4", "1764432000000:1764518400000:1000:17", "3", "3.0", "1024") {
		f.Add(text)
	}
	c := redistest.Mini(f).Client(f)
	sharded, err := ranking.NewSharded(c, "board", 3, nil)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text string) {
		require.NoError(t, c.FlushDB(background).Err())
		require.NoError(t, c.Set(background, "{ranking:board}~n", text, 0).Err())
		fresh, err := ranking.NewSharded(c, "board", 3, nil)
		require.NoError(t, err)
		if _, err := fresh.Set(background, "alice", 1); text != "3" {
			require.Error(t, err, "%q", text)
			require.True(t, errors.Is(err, ranking.ErrUnsupported), "%v", err)
			requireOneLine(t, err)
		} else {
			require.NoError(t, err)
		}
		_, _ = sharded.Top(background, 3)
	})
}

func requireOneLine(t *testing.T, err error) {
	t.Helper()
	require.False(t, strings.ContainsAny(err.Error(), "\n\r\x00"), "%q", err.Error())
}
