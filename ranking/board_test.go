package ranking_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ranking"
)

func entry(rank int64, member string, score float64) ranking.Entry {
	return ranking.Entry{Rank: rank, Member: member, Score: score}
}

func standing(rank int64, member string, score float64, total int64) ranking.Standing {
	return ranking.Standing{Entry: entry(rank, member, score), Total: total}
}

func TestEveryWriteAnswersTheStanding(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		b := newBoard(t, s.Client(t), nil)
		for _, step := range []struct {
			name    string
			do      func() (ranking.Update, error)
			want    ranking.Standing
			changed bool
		}{
			{"the first", func() (ranking.Update, error) { return b.Set(background, "alice", 1500) }, standing(1, "alice", 1500, 1), true},
			{"the same again", func() (ranking.Update, error) { return b.Set(background, "alice", 1500) }, standing(1, "alice", 1500, 1), false},
			{"a better one", func() (ranking.Update, error) { return b.Set(background, "bob", 1600) }, standing(1, "bob", 1600, 2), true},
			{"a worse one", func() (ranking.Update, error) { return b.Set(background, "carol", 1) }, standing(3, "carol", 1, 3), true},
			{"down", func() (ranking.Update, error) { return b.Set(background, "bob", 2) }, standing(2, "bob", 2, 3), true},
			{"add", func() (ranking.Update, error) { return b.Increment(background, "carol", 1500) }, standing(1, "carol", 1501, 3), true},
			{"add to none", func() (ranking.Update, error) { return b.Increment(background, "dave", -3) }, standing(4, "dave", -3, 4), true},
			{"add nothing", func() (ranking.Update, error) { return b.Increment(background, "dave", 0) }, standing(4, "dave", -3, 4), false},
			{"add nothing to none", func() (ranking.Update, error) { return b.Increment(background, "erin", 0) }, standing(4, "erin", 0, 5), true},
			{"best, worse", func() (ranking.Update, error) { return b.Best(background, "carol", 7) }, standing(1, "carol", 1501, 5), false},
			{"best, equal", func() (ranking.Update, error) { return b.Best(background, "carol", 1501) }, standing(1, "carol", 1501, 5), false},
			{"best, better", func() (ranking.Update, error) { return b.Best(background, "alice", 9000) }, standing(1, "alice", 9000, 5), true},
			{"best, new", func() (ranking.Update, error) { return b.Best(background, "frank", -9) }, standing(6, "frank", -9, 6), true},
		} {
			u, err := step.do()
			require.NoError(t, err, step.name)
			require.Equal(t, ranking.Update{Standing: step.want, Changed: step.changed}, u, step.name)
			got, err := b.Get(background, step.want.Member)
			require.NoError(t, err, step.name)
			require.Equal(t, step.want, got, step.name)
		}
	})
}

func TestAscending(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		b := newBoard(t, s.Client(t), &ranking.Options{Order: ranking.Ascending})
		fill(t, b, scored{"slow", 90.5}, scored{"fast", 60.25}, scored{"zero", 0})
		top, err := b.Top(background, 10)
		require.NoError(t, err)
		require.Equal(t, []ranking.Entry{entry(1, "zero", 0), entry(2, "fast", 60.25), entry(3, "slow", 90.5)}, top)

		u, err := b.Best(background, "slow", 95)
		require.NoError(t, err)
		require.Equal(t, ranking.Update{Standing: standing(3, "slow", 90.5, 3)}, u)
		u, err = b.Best(background, "slow", 50)
		require.NoError(t, err)
		require.Equal(t, ranking.Update{Standing: standing(2, "slow", 50, 3), Changed: true}, u)
		u, err = b.Increment(background, "zero", 55)
		require.NoError(t, err)
		require.Equal(t, ranking.Update{Standing: standing(2, "zero", 55, 3), Changed: true}, u)
	})
}

// Equal scores rank in Redis' own order: names descending on a descending board, ascending on an ascending one.
func TestOrdinalTies(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		for order, want := range map[ranking.Order][]string{
			ranking.Descending: {"carol", "bob", "alice"}, ranking.Ascending: {"alice", "bob", "carol"},
		} {
			b := newBoard(t, s.Client(t), &ranking.Options{Order: order})
			for i, member := range []string{"bob", "alice", "carol"} {
				_, err := b.Set(background, member, 100)
				require.NoError(t, err, i)
			}
			for i, member := range want {
				got, err := b.Get(background, member)
				require.NoError(t, err)
				require.Equal(t, standing(int64(i)+1, member, 100, 3), got)
			}
		}
	})
}

func TestMissingAndEmpty(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		b := newBoard(t, s.Client(t), nil)
		empty := func() {
			n, err := b.Count(background)
			require.NoError(t, err)
			require.Zero(t, n)
			top, err := b.Top(background, 10)
			require.NoError(t, err)
			require.Empty(t, top)
			_, err = b.Get(background, "alice")
			require.ErrorIs(t, err, ranking.ErrNotFound)
			n, err = b.Remove(background, "alice", "bob")
			require.NoError(t, err)
			require.Zero(t, n)
		}
		empty()
		fill(t, b, scored{"zero", 0}, scored{"one", 1})
		got, err := b.Get(background, "zero")
		require.NoError(t, err)
		require.Equal(t, standing(2, "zero", 0, 2), got, "a score of 0 is a score")
		got, err = b.Get(background, "alice")
		require.ErrorIs(t, err, ranking.ErrNotFound)
		require.Zero(t, got.Rank)
		require.EqualValues(t, 2, got.Total)

		n, err := b.Remove(background, "one", "one", "nobody", "zero")
		require.NoError(t, err)
		require.EqualValues(t, 2, n)
		empty()
		n, err = b.Remove(background)
		require.NoError(t, err)
		require.Zero(t, n)
	})
}

func TestTopAndRange(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		b := newBoard(t, s.Client(t), nil)
		var all []ranking.Entry
		for i := range 50 {
			member, score := fmt.Sprintf("m%02d", i), float64(1000-i)
			fill(t, b, scored{member, score})
			all = append(all, entry(int64(i)+1, member, score))
		}
		for _, n := range []int{-1, 0, 1, 10, 50, 51, math.MaxInt} {
			got, err := b.Top(background, n)
			require.NoError(t, err)
			require.Equal(t, all[:max(0, min(n, 50))], append([]ranking.Entry{}, got...), "top %d", n)
		}
		for _, r := range [][2]int64{{1, 1}, {1, 50}, {3, 5}, {50, 50}, {41, 60}, {51, 60}, {5, 4}, {5, -1}, {7, math.MaxInt64}, {math.MaxInt64, math.MaxInt64}} {
			got, err := b.Range(background, r[0], r[1])
			require.NoError(t, err)
			from, to := min(r[0], 51), max(min(r[1], 50), min(r[0], 51)-1)
			require.Equal(t, all[from-1:to], append([]ranking.Entry{}, got...), "range %v", r)
		}
		for _, from := range []int64{0, -1, math.MinInt64} {
			_, err := b.Range(background, from, 10)
			require.ErrorContains(t, err, "positions begin with 1")
		}
	})
}

// Encodings change at 128 members and at names of 64 bytes; nothing else may.
func TestSizesAndNames(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		for _, length := range []int{1, 64, 65, 300} {
			b := newBoard(t, c, nil)
			for n := int64(1); n <= 130; n++ {
				member := strings.Repeat(string(rune('a'+n%26)), length-1) + string(rune(0x100+n))
				u, err := b.Set(background, member, float64(n))
				require.NoError(t, err)
				require.Equal(t, standing(1, member, float64(n), n), u.Standing)
				got, err := b.Get(background, member)
				require.NoError(t, err)
				require.Equal(t, u.Standing, got)
			}
		}
		for _, name := range []string{
			" ", "a:b", "{x}", "a\r\nb\x00", "🐄", "\xff\xfe", "-inf", "nan", "(5", "+", strings.Repeat("k", 1<<20),
		} {
			b := newBoard(t, c, nil)
			u, err := b.Set(background, name, 5)
			require.NoError(t, err)
			require.Equal(t, standing(1, name, 5, 1), u.Standing)
			u, err = b.Increment(background, name, 5)
			require.NoError(t, err)
			require.Equal(t, standing(1, name, 10, 1), u.Standing)
			top, err := b.Top(background, 1)
			require.NoError(t, err)
			require.Equal(t, []ranking.Entry{entry(1, name, 10)}, top)
		}
	})
}

func TestBadInputSendsNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	c := s.Client(t)
	n := redistest.Count(c)
	for _, bad := range []struct {
		name, reason string
		opts         *ranking.Options
	}{
		{"", "the name is empty", nil},
		{"a}b", "has a } but no {tag}", nil},
		{"game~d", "ends like a companion key", nil},
		{"game", "Options.Order is 7, must be Descending or Ascending", &ranking.Options{Order: 7}},
		{"game", "Options.Ties is 9, must be one of the rules from Ordinal to EarliestFirst", &ranking.Options{Ties: 9}},
		{"game", "Options.MaxSize is -1, must not be negative", &ranking.Options{MaxSize: -1}},
		{"game", "Options.TTL is 1µs, must be at least 1ms", &ranking.Options{TTL: time.Microsecond}},
		{"game", "Options.OnceFor is 1ms, must be at least 1s", &ranking.Options{OnceFor: time.Millisecond}},
	} {
		_, err := ranking.New(c, bad.name, bad.opts)
		require.ErrorContains(t, err, bad.reason)
		require.ErrorContains(t, err, fmt.Sprintf("ranking: new %q: ", bad.name))
	}
	_, err := ranking.New(nil, "game", nil)
	require.ErrorContains(t, err, "the client is nil")

	b := newBoard(t, c, nil)
	_, err = b.Set(background, "", 1)
	require.ErrorContains(t, err, "the member is empty")
	_, err = b.Increment(background, "", 1)
	require.ErrorContains(t, err, "the member is empty")
	_, err = b.Best(background, "", 1)
	require.ErrorContains(t, err, "the member is empty")
	_, err = b.Get(background, "")
	require.ErrorContains(t, err, "the member is empty")
	_, err = b.Remove(background, "a", "")
	require.ErrorContains(t, err, "the member is empty")
	for _, score := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		_, err = b.Set(background, "alice", score)
		require.ErrorIs(t, err, ranking.ErrScore)
		_, err = b.Increment(background, "alice", score)
		require.ErrorIs(t, err, ranking.ErrScore)
		_, err = b.Best(background, "alice", score)
		require.ErrorIs(t, err, ranking.ErrScore)
		_, err = b.IncrementOnce(background, "alice", score, "op")
		require.ErrorIs(t, err, ranking.ErrScore)
		_, err = b.SetMany(background, ranking.MemberScore{Member: "bob"}, ranking.MemberScore{Member: "alice", Score: score})
		require.ErrorIs(t, err, ranking.ErrScore)
	}
	_, err = b.IncrementOnce(background, "", 1, "op")
	require.ErrorContains(t, err, "the member is empty")
	require.Zero(t, n.Trips())
}

// Scores come back bit for bit, by every way that they take.
func TestScoresAreExact(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		for kind, b := range map[string]*ranking.Leaderboard{
			"ordinal": newBoard(t, c, nil), "competition": newBoard(t, c, &ranking.Options{Ties: ranking.Competition}),
			"dense": newBoard(t, c, &ranking.Options{Ties: ranking.Dense}), "with a TTL": newBoard(t, c, &ranking.Options{TTL: time.Hour}),
			"with a MaxSize": newBoard(t, c, &ranking.Options{MaxSize: 5}), "ascending": newBoard(t, c, &ranking.Options{Order: ranking.Ascending}),
			"sharded": newSharded(t, c, redistest.ID(), 3, nil),
		} {
			if s.Mini != nil && kind != "ordinal" && kind != "competition" {
				continue // its formats prove nothing, and its scripts are slow
			}
			t.Run(kind, func(t *testing.T) { checkExact(t, b) })
		}
	})
}

func checkExact(t *testing.T, b *ranking.Leaderboard) {
	tenth, fifth := 0.1, 0.2
	for _, score := range []float64{
		0, math.Copysign(0, -1), 1, -1, 0.1, tenth + fifth, 1.1, 1e300, -1e300, math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64,
		-math.SmallestNonzeroFloat64, 2.2250738585072014e-308, 1 << 53, 1<<53 - 1, 1<<53 + 2, -(1 << 53), 1e15, 1e21, 1.7000000001234e15, math.Pi, 1700000000123.4561,
	} {
		want := math.Float64bits(score)
		if score == 0 {
			want = 0 // of -0 too
		}
		for name, write := range map[string]func(context.Context, string, float64) (ranking.Update, error){
			"set": b.Set, "best": b.Best, "increment": b.Increment,
			"increment once": func(ctx context.Context, member string, delta float64) (ranking.Update, error) {
				return b.IncrementOnce(ctx, member, delta, redistest.ID())
			},
			"set many": func(ctx context.Context, member string, score float64) (u ranking.Update, err error) {
				_, err = b.SetMany(ctx, ranking.MemberScore{Member: member, Score: score})
				return ranking.Update{Standing: ranking.Standing{Entry: ranking.Entry{Score: score + 0}}}, err
			},
		} {
			_, err := b.Remove(background, "m")
			require.NoError(t, err)
			u, err := write(background, "m", score)
			require.NoError(t, err)
			require.Equal(t, want, math.Float64bits(u.Score), "%s %v", name, score)
			got, err := b.Get(background, "m")
			require.NoError(t, err)
			require.Equal(t, want, math.Float64bits(got.Score), "get after %s %v", name, score)
			for read, rows := range map[string]func() ([]ranking.Entry, error){
				"top":      func() ([]ranking.Entry, error) { return b.Top(background, 1) },
				"around":   func() ([]ranking.Entry, error) { return b.Around(background, "m", 0, 0) },
				"by score": func() ([]ranking.Entry, error) { return b.ByScore(background, score, score, 1) },
				"page":     func() ([]ranking.Entry, error) { p, err := b.Page(background, 1, 1); return p.Entries, err },
			} {
				entries, err := rows()
				require.NoError(t, err)
				require.Len(t, entries, 1, "%s after %s %v", read, name, score)
				require.Equal(t, want, math.Float64bits(entries[0].Score), "%s after %s %v", read, name, score)
			}
		}
	}
}

// Whether an Increment changed a score shows at the edge where float64 skips integers.
func TestIncrementThatChangesNothing(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		for _, opts := range []*ranking.Options{nil, {Ties: ranking.Competition}, {Ties: ranking.Dense}, {TTL: time.Hour}} {
			b := newBoard(t, c, opts)
			for _, step := range []struct {
				score, delta, sum float64
			}{
				{1<<53 - 1, 1, 1 << 53}, {1 << 53, 1, 1 << 53}, {1 << 53, 2, 1<<53 + 2}, {1 << 53, -1, 1<<53 - 1}, {-1 << 53, -1, -1 << 53},
				{1e300, 1, 1e300}, {1, 1e-17, 1}, {1, 1e-15, 1 + 1e-15}, {5, 0, 5}, {0, 0, 0}, {0, 5e-324, 5e-324},
			} {
				fill(t, b, scored{"m", step.score})
				u, err := b.Increment(background, "m", step.delta)
				require.NoError(t, err)
				require.Equal(t, ranking.Update{Standing: standing(1, "m", step.sum, 1), Changed: step.sum != step.score}, u, "%v + %v", step.score, step.delta)
			}
		}
	})
}

func TestIncrementToInfinityIsRefused(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		b := newBoard(t, s.Client(t), nil)
		for _, sign := range []float64{1, -1} {
			u, err := b.Increment(background, "new", sign*math.MaxFloat64)
			require.NoError(t, err)
			require.Equal(t, standing(1, "new", sign*math.MaxFloat64, 1), u.Standing)
			_, err = b.Increment(background, "new", sign*math.MaxFloat64)
			require.ErrorIs(t, err, ranking.ErrScore)
			_, err = b.Increment(background, "new", sign*0x1p970)
			require.ErrorIs(t, err, ranking.ErrScore)
			u, err = b.Increment(background, "new", sign*math.Nextafter(0x1p970, 0))
			require.NoError(t, err)
			require.Equal(t, ranking.Update{Standing: standing(1, "new", sign*math.MaxFloat64, 1)}, u, "not changed by less than half of its precision")
			n, err := b.Remove(background, "new")
			require.NoError(t, err)
			require.EqualValues(t, 1, n)
		}
	})
}
