package ranking_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ranking"
)

// Redis keeps a sorted set in another way from 129 members on, and where a name has more than 64 bytes. Every read of every
// kind of board, each rule and the sharded board in both orders, is the same on both sides; the model test comes by these sizes at
// random, this one at each.
func TestEverySizeOfEveryKind(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		for kind, opts := range inBothOrders(s, t) {
			for _, n := range []int{0, 1, 127, 128, 129, 130, 1000} {
				for _, long := range []int{0, 64, 65, 300} {
					if n < 127 && long > 64 || n == 1000 && long != 65 || s.Mini != nil && (n > 1 && n != 130 || long > 0) {
						continue // it takes long, and shows nothing more: miniredis has no encodings
					}
					b, m := newOfKind(t, c, redistest.ID(), kind, opts)
					var many []ranking.MemberScore
					for i := range n {
						name := fmt.Sprint(i)
						if i%100 == 3 { // one is enough to change how all are kept
							name += strings.Repeat("x", max(0, long-len(name)))
						}
						many = append(many, ranking.MemberScore{Member: name, Score: float64(i / 3)})
						m.put(name, float64(i/3))
					}
					changed, err := b.SetMany(background, many...)
					require.NoError(t, err)
					require.EqualValues(t, n, changed)
					checkAll(t, b, m, m.sharded)
					require.NoError(t, b.Clear(background))
				}
			}
		}
	})
}

// inBothOrders are kinds, and each rule and the sharded board in the other order too.
func inBothOrders(s *redistest.Server, t testing.TB) map[string]*ranking.Options {
	all := kinds(s, t)
	for _, kind := range []string{"competition", "dense", "earliest first"} {
		opts := *all[kind]
		opts.Order = ranking.Ascending
		all[kind+", ascending"] = &opts
	}
	all["sharded"], all["sharded, ascending"] = &ranking.Options{}, &ranking.Options{Order: ranking.Ascending}
	return all
}

// newOfKind makes a board of one of those kinds, and its model.
func newOfKind(t testing.TB, c redispatterns.Client, name, kind string, opts *ranking.Options) (*ranking.Leaderboard, *model) {
	t.Helper()
	m := &model{scores: map[string]float64{}, reached: map[string]int{}, sharded: strings.HasPrefix(kind, "sharded")}
	if opts != nil {
		m.order, m.ties = opts.Order, opts.Ties
	}
	if m.sharded {
		m.ties = ranking.Competition
		return newSharded(t, c, name, 3, opts), m
	}
	return newBoardNamed(t, c, name, opts), m
}

// Another program may store what no write here does: it is read as it is, before or behind all others.
func TestInfiniteScoresOfOthersAreRead(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t) // to miniredis a bound of (+inf is one of +inf
	c := s.Client(t)
	for kind, opts := range inBothOrders(s, t) {
		t.Run(kind, func(t *testing.T) {
			name := redistest.ID()
			b, m := newOfKind(t, c, name, kind, opts)
			_, err := b.SetMany(background, ranking.MemberScore{Member: "0", Score: 1}, ranking.MemberScore{Member: "1", Score: 1},
				ranking.MemberScore{Member: "3", Score: 2}, ranking.MemberScore{Member: "ever"}, ranking.MemberScore{Member: "more"}, ranking.MemberScore{Member: "never"})
			require.NoError(t, err)
			m.scores = map[string]float64{"0": 1, "1": 1, "3": 2, "ever": math.Inf(1), "more": math.Inf(1), "never": math.Inf(-1)}
			for _, key := range c.Keys(background, "*"+name+"*").Val() {
				if strings.HasSuffix(key, "~r") { // whoever writes to a Dense board keeps its companion
					require.NoError(t, c.ZRemRangeByScore(background, key, "0", "0").Err())
					require.NoError(t, c.ZAdd(background, key, redis.Z{Score: math.Inf(1), Member: "inf"}, redis.Z{Score: math.Inf(-1), Member: "-inf"}).Err())
					continue
				}
				for member, score := range m.scores {
					if math.IsInf(score, 0) {
						_, err := c.ZAddXX(background, key, redis.Z{Score: score, Member: member}).Result()
						require.True(t, err == nil || redis.HasErrorPrefix(err, "WRONGTYPE"), "%v", err)
					}
				}
			}
			checkAll(t, b, m, m.sharded)
		})
	}
}

// checkAll compares every read with the model.
func checkAll(t *testing.T, b *ranking.Leaderboard, m *model, sharded bool) {
	t.Helper()
	want, n := m.entries(), len(m.scores)
	same := func(want, got []ranking.Entry, err error) {
		t.Helper()
		require.NoError(t, err)
		require.True(t, slices.Equal(want, got), "%v instead of %v", got, want)
	}
	var got []ranking.Entry
	for e, err := range b.All(background) {
		require.NoError(t, err)
		got = append(got, e)
	}
	same(want, got, nil)
	count, err := b.Count(background)
	require.NoError(t, err)
	require.EqualValues(t, n, count)
	top, err := b.Top(background, 1000)
	same(want, top, err)
	some, err := b.ByScore(background, 1, math.Inf(1), 1000)
	inside := slices.DeleteFunc(slices.Clone(want), func(e ranking.Entry) bool { return e.Score < 1 })
	same(inside, some, err)
	count, err = b.CountBetween(background, 1, math.Inf(1))
	require.NoError(t, err)
	require.EqualValues(t, len(inside), count)
	page, err := b.Page(background, 2, 40)
	same(want[min(40, n):min(80, n)], page.Entries, err)
	require.EqualValues(t, n, page.Total)
	if !sharded {
		some, err = b.Range(background, 2, 100)
		same(want[min(1, n):min(100, n)], some, err)
		some, err = b.GetMany(background, "126", "3", "0", "nobody", "1")
		same(slices.DeleteFunc(slices.Clone(want), func(e ranking.Entry) bool {
			return !slices.Contains([]string{"126", "3", "0", "1"}, e.Member)
		}), some, err)
	}
	for _, at := range []int{0, 1, n / 2, n - 1} {
		if at < 0 || at >= n {
			continue
		}
		got, err := b.Get(background, want[at].Member)
		require.NoError(t, err)
		require.Equal(t, ranking.Standing{Entry: want[at], Total: int64(n)}, got)
		from, to := around(at, 3, 4, n)
		some, err = b.Around(background, want[at].Member, 3, 4)
		same(want[from:to], some, err)
	}
	_, err = b.Get(background, "nobody")
	require.ErrorIs(t, err, ranking.ErrNotFound)
}
