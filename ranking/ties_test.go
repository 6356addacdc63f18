package ranking_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ranking"
)

func ranks(t *testing.T, b *ranking.Leaderboard) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	for e, err := range b.All(background) {
		require.NoError(t, err)
		all[e.Member] = e.Rank
	}
	return all
}

func TestNamedTies(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		for ties, want := range map[ranking.Ties]map[string]int64{
			ranking.Competition: {"a": 1, "b": 2, "c": 2, "d": 4},
			ranking.Dense:       {"a": 1, "b": 2, "c": 2, "d": 3},
			ranking.Ordinal:     {"a": 1, "c": 2, "b": 3, "d": 4},
		} {
			b := newBoard(t, s.Client(t), &ranking.Options{Ties: ties})
			fill(t, b, scored{"a", 101}, scored{"b", 100}, scored{"c", 100}, scored{"d", 99})
			require.Equal(t, want, ranks(t, b))
		}
	})
}

// A board that Dense writes is the same to the rules that have nothing beside it.
func TestWhatDenseWroteIsReadByOthers(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		for _, order := range []ranking.Order{ranking.Descending, ranking.Ascending} {
			c, name := s.Client(t), redistest.ID()
			b := newBoardNamed(t, c, name, &ranking.Options{Order: order, Ties: ranking.Dense})
			m := &model{order: order, scores: map[string]float64{}, reached: map[string]int{}}
			for i := range 30 {
				member, score := fmt.Sprint(i), float64(i/3)
				fill(t, b, scored{member, score})
				m.put(member, score)
			}
			for _, m.ties = range []ranking.Ties{ranking.Ordinal, ranking.Competition, ranking.Dense} {
				checkAll(t, newBoardNamed(t, c, name, &ranking.Options{Order: order, Ties: m.ties}), m, false)
			}
			// The other way round there is nothing to rank by.
			plain := redistest.ID()
			fill(t, newBoardNamed(t, c, plain, &ranking.Options{Order: order}), scored{"a", 1})
			for _, opts := range []*ranking.Options{{Order: order, Ties: ranking.Dense}, earliest(t, s, order)} {
				_, err := newBoardNamed(t, c, plain, opts).Get(background, "a")
				require.ErrorIs(t, err, ranking.ErrUnsupported)
			}
		}
	})
}

// A board that was deleted leaves no scores behind: whoever deletes its key by hand may not know of the companion's, and the
// two can expire a millisecond apart.
func TestDeletedBoardLeavesNoScores(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, name := s.Client(t), redistest.ID()
		b := newBoardNamed(t, c, name, &ranking.Options{Ties: ranking.Dense})
		fill(t, b, scored{"a", 3}, scored{"b", 2})
		require.NoError(t, c.Del(background, "ranking:"+name).Err())
		u, err := b.Set(background, "c", 1)
		require.NoError(t, err)
		require.Equal(t, standing(1, "c", 1, 1), u.Standing)
		got, err := b.Get(background, "c")
		require.NoError(t, err)
		require.Equal(t, standing(1, "c", 1, 1), got)
	})
}

// earliest is an EarliestFirst board whose room is around the server's time, with ticks of a millisecond.
func earliest(t *testing.T, s *redistest.Server, order ranking.Order) *ranking.Options {
	now := s.Now(t)
	return &ranking.Options{Order: order, Ties: ranking.EarliestFirst, Earliest: &ranking.Earliest{
		Since: now.Add(-time.Minute), Until: now.Add(time.Hour), Resolution: time.Millisecond,
	}}
}

func TestEarliestFirst(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		for _, order := range []ranking.Order{ranking.Descending, ranking.Ascending} {
			for _, names := range [][2]string{{"a", "z"}, {"z", "a"}} {
				first, second := names[0], names[1]
				b := newBoard(t, s.Client(t), earliest(t, s, order))
				write := func(do func() (ranking.Update, error)) ranking.Update {
					s.Advance(t, 2*time.Millisecond)
					u, err := do()
					require.NoError(t, err)
					return u
				}
				set := func(member string, score float64) ranking.Update {
					return write(func() (ranking.Update, error) { return b.Set(background, member, score) })
				}
				set(first, 100)
				require.Equal(t, standing(2, second, 100, 2), set(second, 100).Standing)
				require.False(t, set(first, 100).Changed, "an equal Set keeps the time")
				u := write(func() (ranking.Update, error) { return b.Increment(background, first, 0) })
				require.Equal(t, ranking.Update{Standing: standing(1, first, 100, 2)}, u, "so does an Increment of 0")
				u = write(func() (ranking.Update, error) { return b.Best(background, first, 100) })
				require.Equal(t, ranking.Update{Standing: standing(1, first, 100, 2)}, u, "and an equal Best")

				set(first, 5)
				u = write(func() (ranking.Update, error) { return b.Increment(background, first, 95) })
				require.Equal(t, ranking.Update{Standing: standing(2, first, 100, 2), Changed: true}, u, "who comes back comes later")
				require.EqualValues(t, -7, set("neg", -7).Score)
			}
		}
	})
}

func TestEarliestIsChecked(t *testing.T) {
	t.Parallel()
	c := redistest.Mini(t).Client(t)
	now := time.Now()
	for reason, opts := range map[string]*ranking.Options{
		" is nil, must be set with Ties EarliestFirst":        {Ties: ranking.EarliestFirst},
		" is set, must be nil without Ties EarliestFirst":     {Earliest: &ranking.Earliest{}},
		fmt.Sprintf(".Until is %v, must be after Since", now): {Ties: ranking.EarliestFirst, Earliest: &ranking.Earliest{Since: now, Until: now}},
		"and both must be set":                                {Ties: ranking.EarliestFirst, Earliest: &ranking.Earliest{Until: now}},
		".Resolution is 1µs, must be whole milliseconds":      {Ties: ranking.EarliestFirst, Earliest: &ranking.Earliest{Since: now, Until: now.Add(time.Hour), Resolution: time.Microsecond}},
		" has 9007199254740992 ticks, must have at most 2^52": {Ties: ranking.EarliestFirst, Earliest: &ranking.Earliest{Since: time.Unix(0, 0), Until: time.UnixMilli(1 << 53), Resolution: time.Millisecond}},
	} {
		_, err := ranking.New(c, "game", opts)
		require.ErrorContains(t, err, `ranking: new "game": Options.Earliest`)
		require.ErrorContains(t, err, reason)
	}
}

func TestEarliestLimits(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, now := s.Client(t), s.Now(t)
		for _, order := range []ranking.Order{ranking.Descending, ranking.Ascending} {
			opts := &ranking.Options{Order: order, Ties: ranking.EarliestFirst, Earliest: &ranking.Earliest{Since: now.Add(-time.Hour), Until: now.Add(time.Hour)}}
			b := newBoard(t, c, opts) // 7200 ticks take 13 bits and leave 40 with a sign
			const most = 1<<40 - 1
			for _, score := range []float64{most, -most - 1, 0, -1, most - 1} {
				u, err := b.Set(background, "a", score)
				require.NoError(t, err)
				require.Equal(t, standing(1, "a", score, 1), u.Standing)
				got, err := b.Get(background, "a")
				require.NoError(t, err)
				require.Equal(t, standing(1, "a", score, 1), got)
				n, err := b.CountBetween(background, score, score)
				require.NoError(t, err)
				require.EqualValues(t, 1, n)
			}
			for _, score := range []float64{most + 1, -most - 2, 0.5, 1e300} {
				_, err := b.Set(background, "a", score)
				require.ErrorIs(t, err, ranking.ErrScore)
			}
			_, err := b.Increment(background, "a", 2)
			require.ErrorIs(t, err, ranking.ErrScore)
			got, err := b.Get(background, "a")
			require.NoError(t, err)
			require.EqualValues(t, most-1, got.Score)
			_, err = b.Increment(background, "new", -most-1)
			require.NoError(t, err)
			_, err = b.Increment(background, "new", -1)
			require.ErrorIs(t, err, ranking.ErrScore)
		}
		for name, e := range map[string]ranking.Earliest{
			"over": {Since: now.Add(-2 * time.Hour), Until: now.Add(-time.Hour)}, "not begun": {Since: now.Add(time.Hour), Until: now.Add(2 * time.Hour)},
		} {
			board := redistest.ID()
			b, err := ranking.New(c, board, &ranking.Options{Ties: ranking.EarliestFirst, Earliest: &e})
			require.NoError(t, err)
			_, err = b.Set(background, "a", 1)
			require.ErrorIs(t, err, ranking.ErrWindowClosed, name)
			_, err = b.Increment(background, "a", 1)
			require.ErrorIs(t, err, ranking.ErrWindowClosed, name)
			require.Zero(t, c.Exists(background, "ranking:"+board, "{ranking:"+board+"}~e").Val())
		}
	})
}

func TestOtherEarliestIsRefused(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, opts := s.Client(t), earliest(t, s, ranking.Descending)
		other := *opts.Earliest
		other.Resolution = time.Second
		name := redistest.ID()
		a := newBoardNamed(t, c, name, opts)
		b := newBoardNamed(t, c, name, &ranking.Options{Ties: ranking.EarliestFirst, Earliest: &other})
		fill(t, a, scored{"alice", 1})
		for _, op := range of("earliest first") {
			switch op.name {
			case "Count", "CountBetween", "Remove", "Trim", "Clear":
			default:
				require.ErrorIs(t, op.do(background, b), ranking.ErrUnsupported, op.name)
			}
		}
		got, err := a.Get(background, "alice")
		require.NoError(t, err)
		require.Equal(t, standing(1, "alice", 1, 1), got)
		require.NoError(t, a.Clear(background))
		fill(t, b, scored{"alice", 2})

		// A board that holds plain scores is not one of packed ones, nor one with a companion.
		plain := newBoardNamed(t, c, name+"2", nil)
		fill(t, plain, scored{"alice", 2}, scored{"bob", 2}, scored{"carol", 1})
		for _, ties := range []*ranking.Options{opts, {Ties: ranking.Dense}} {
			b := newBoardNamed(t, c, name+"2", ties)
			_, err = b.Set(background, "alice", 3)
			require.ErrorIs(t, err, ranking.ErrUnsupported)
			_, err = b.Get(background, "alice")
			require.ErrorIs(t, err, ranking.ErrUnsupported)
		}
		dense := newBoardNamed(t, c, name+"2", &ranking.Options{Ties: ranking.Dense})
		require.NoError(t, dense.Merge(background, ranking.Max, plain), "a merge makes the companion")
		require.Equal(t, map[string]int64{"alice": 1, "bob": 1, "carol": 2}, ranks(t, dense))
	})
}

func newBoardNamed(t testing.TB, c redispatterns.Client, name string, opts *ranking.Options) *ranking.Leaderboard {
	t.Helper()
	b, err := ranking.New(c, name, opts)
	require.NoError(t, err)
	return b
}

// The companion has each score once, and no other, whatever happened.
func TestDenseCompanion(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, name := s.Client(t), redistest.ID()
		b := newBoardNamed(t, c, name, &ranking.Options{Ties: ranking.Dense, MaxSize: 5})
		for i := range 60 {
			member := fmt.Sprint(i * 7 % 11)
			var err error
			switch i % 6 {
			case 0:
				_, err = b.Increment(background, member, 0.1)
			case 1:
				_, err = b.Best(background, member, float64(i%4))
			case 2:
				_, err = b.Remove(background, member)
			case 3:
				_, err = b.Trim(background, 4)
			case 4:
				_, err = b.SetMany(background, ranking.MemberScore{Member: member, Score: 0.2}, ranking.MemberScore{Member: "x", Score: 0.30000000000000004})
			case 5:
				_, err = b.Set(background, member, math.Copysign(0, -1))
			}
			if err != nil {
				require.ErrorIs(t, err, ranking.ErrNotFound)
			}
			want := map[float64]bool{}
			for _, z := range c.ZRangeWithScores(background, "ranking:"+name, 0, -1).Val() {
				want[z.Score] = true
			}
			got := c.ZRangeWithScores(background, "{ranking:"+name+"}~r", 0, -1).Val()
			require.Len(t, got, len(want))
			for _, z := range got {
				require.True(t, want[z.Score])
			}
		}
	})
}

func TestIntegers(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		for _, ties := range []ranking.Ties{ranking.Ordinal, ranking.Dense} {
			b := newBoard(t, s.Client(t), &ranking.Options{Integers: true, Ties: ties})
			const most = 1<<53 - 1
			for _, sign := range []float64{1, -1} {
				_, err := b.Set(background, "a", sign*most)
				require.NoError(t, err)
				for _, delta := range []float64{1, 2, most} {
					_, err = b.Increment(background, "a", sign*delta)
					require.ErrorIs(t, err, ranking.ErrScore)
					_, err = b.IncrementOnce(background, "a", sign*delta, "op")
					require.ErrorIs(t, err, ranking.ErrScore)
				}
				got, err := b.Get(background, "a")
				require.NoError(t, err)
				require.Equal(t, standing(1, "a", sign*most, 1), got)
				u, err := b.Increment(background, "a", -sign)
				require.NoError(t, err)
				require.Equal(t, sign*(most-1), u.Score)
			}
			for _, bad := range []float64{most + 1, -most - 1, 0.5, 1e300} {
				_, err := b.Set(background, "b", bad)
				require.ErrorIs(t, err, ranking.ErrScore)
				_, err = b.Best(background, "b", bad)
				require.ErrorIs(t, err, ranking.ErrScore)
				_, err = b.Increment(background, "b", bad)
				require.ErrorIs(t, err, ranking.ErrScore)
				_, err = b.SetMany(background, ranking.MemberScore{Member: "c", Score: 1}, ranking.MemberScore{Member: "b", Score: bad})
				require.ErrorIs(t, err, ranking.ErrScore)
			}
			n, err := b.Count(background)
			require.NoError(t, err)
			require.EqualValues(t, 1, n)
		}
	})
}
