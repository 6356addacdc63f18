package ranking_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ranking"
)

// model is a board as a slice, sorted anew for each question.
type model struct {
	order   ranking.Order
	ties    ranking.Ties
	maxSize int
	sharded bool
	now     int // of a clock that ticks between writes
	scores  map[string]float64
	reached map[string]int
}

// entries are all members, best first, with their ranks.
func (m *model) entries() []ranking.Entry {
	var all []ranking.Entry
	for member, score := range m.scores {
		all = append(all, ranking.Entry{Member: member, Score: score})
	}
	slices.SortFunc(all, func(x, y ranking.Entry) int {
		by := cmp.Compare(x.Score, y.Score)
		name := strings.Compare(x.Member, y.Member)
		if m.order == ranking.Descending {
			by, name = -by, -name
		}
		early := 0
		if m.ties == ranking.EarliestFirst {
			early = cmp.Compare(m.reached[x.Member], m.reached[y.Member])
		}
		return cmp.Or(by, early, name)
	})
	for i := range all {
		all[i].Rank = int64(i) + 1
		if i > 0 && all[i].Score == all[i-1].Score && (m.ties == ranking.Competition || m.ties == ranking.Dense) {
			all[i].Rank = all[i-1].Rank
		} else if i > 0 && m.ties == ranking.Dense {
			all[i].Rank = all[i-1].Rank + 1
		}
	}
	return all
}

func (m *model) put(member string, score float64) (changed bool) {
	old, ok := m.scores[member]
	if ok && old == score {
		return false
	}
	m.scores[member], m.reached[member] = score+0, m.now
	return true
}

func (m *model) best(member string, score float64) bool {
	old, ok := m.scores[member]
	if ok && (m.order == ranking.Descending && score <= old || m.order == ranking.Ascending && score >= old) {
		return false
	}
	return m.put(member, score)
}

func (m *model) cut() {
	if all := m.entries(); m.maxSize > 0 && len(all) > m.maxSize {
		for _, e := range all[m.maxSize:] {
			delete(m.scores, e.Member)
		}
	}
}

func (m *model) standing(member string) (ranking.Standing, bool) {
	all := m.entries()
	i := slices.IndexFunc(all, func(e ranking.Entry) bool { return e.Member == member })
	if i < 0 {
		return ranking.Standing{Total: int64(len(all))}, false
	}
	return ranking.Standing{Entry: all[i], Total: int64(len(all))}, true
}

// around are positions, from 0, of a neighbourhood that stays full.
func around(at, above, below, total int) (from, to int) {
	from, to = at-above, at+below+1
	if from < 0 {
		from, to = 0, to-from
	}
	if to > total {
		from, to = max(0, from-(to-total)), total
	}
	return from, to
}

func TestModel(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		for ties, name := range map[ranking.Ties]string{
			ranking.Ordinal: "ordinal", ranking.Competition: "competition", ranking.Dense: "dense", ranking.EarliestFirst: "earliest first",
		} {
			for order, direction := range map[ranking.Order]string{ranking.Descending: "descending", ranking.Ascending: "ascending"} {
				t.Run(name+" "+direction, func(t *testing.T) {
					t.Parallel()
					rapid.Check(t, func(rt *rapid.T) { checkModel(t, rt, s, order, ties, 0) })
				})
				if ties != ranking.Competition {
					continue
				}
				t.Run("sharded "+direction, func(t *testing.T) {
					t.Parallel()
					rapid.Check(t, func(rt *rapid.T) { checkModel(t, rt, s, order, ties, rapid.IntRange(1, 5).Draw(rt, "shards")) })
				})
			}
		}
	})
}

func checkModel(t *testing.T, rt *rapid.T, s *redistest.Server, order ranking.Order, ties ranking.Ties, shards int) {
	c := s.Client(t)
	defer c.Close()
	m := &model{order: order, ties: ties, scores: map[string]float64{}, reached: map[string]int{}}
	opts := &ranking.Options{Order: order, Ties: ties}
	scores := rapid.SampledFrom([]float64{
		-2, -1, 0, math.Copysign(0, -1), 1, 2, 3, 0.1, 0.2, 0.30000000000000004, -1e300, 1e300, 1 << 53, 1<<53 - 1, math.SmallestNonzeroFloat64,
	})
	deltas := rapid.SampledFrom([]float64{-1, 0, 1, 2, 0.1, 0.2, 1e300, -1e300})
	if ties == ranking.EarliestFirst {
		now := s.Now(t)
		opts.Earliest = &ranking.Earliest{Since: now.Add(-time.Minute), Until: now.Add(time.Hour), Resolution: time.Millisecond}
		scores, deltas = rapid.SampledFrom([]float64{-2, -1, 0, 1, 2, 3, 1 << 30, -(1 << 30)}), rapid.SampledFrom([]float64{-1, 0, 1, 2})
	}
	switch rapid.IntRange(0, 3).Draw(rt, "kind") {
	case 1:
		opts.TTL = time.Hour
	case 2:
		if shards > 0 {
			break
		}
		m.maxSize = rapid.SampledFrom([]int{1, 3, 128}).Draw(rt, "size")
		opts.MaxSize = int64(m.maxSize)
	}
	b := newBoard(t, c, opts)
	if shards > 0 {
		var err error
		b, err = ranking.NewSharded(c, redistest.ID(), shards, opts)
		require.NoError(rt, err)
		m.sharded = true
	}
	defer func() { require.NoError(rt, b.Clear(background)) }()

	names := []string{"a", strings.Repeat("b", 64), strings.Repeat("c", 65), strings.Repeat("d", 300), "e\x00\xff\n", "f{g}", "-inf"}
	member := rapid.SampledFrom(names)
	tick := func() {
		m.now++
		if ties == ranking.EarliestFirst {
			s.Advance(t, 1100*time.Microsecond)
		}
	}
	seed := func() {
		var many []ranking.MemberScore
		for i := range rapid.SampledFrom([]int{0, 1, 2, 120, 122, 123, 124, 126, 993}).Draw(rt, "members") {
			many = append(many, ranking.MemberScore{Member: fmt.Sprintf("m%d", i), Score: float64(i % 50)})
		}
		for _, put := range many {
			m.put(put.Member, put.Score)
		}
		m.cut()
		changed, err := b.SetMany(background, many...)
		require.NoError(rt, err)
		require.EqualValues(rt, len(many), changed)
	}
	seed()
	check := func(changed bool, who string, u ranking.Update, err error) {
		m.cut()
		want, ok := m.standing(who)
		if !ok {
			require.ErrorIs(rt, err, ranking.ErrNotFound)
			require.Equal(rt, want.Total, u.Total)
			return
		}
		require.NoError(rt, err)
		require.Equal(rt, ranking.Update{Standing: want, Changed: changed}, u)
	}
	ops := 0
	rt.Repeat(map[string]func(*rapid.T){
		"set": func(rt *rapid.T) {
			tick()
			who, score := member.Draw(rt, "member"), scores.Draw(rt, "score")
			u, err := b.Set(background, who, score)
			check(m.put(who, score), who, u, err)
		},
		"best": func(rt *rapid.T) {
			tick()
			who, score := member.Draw(rt, "member"), scores.Draw(rt, "score")
			u, err := b.Best(background, who, score)
			check(m.best(who, score), who, u, err)
		},
		"increment": func(rt *rapid.T) {
			tick()
			who, delta := member.Draw(rt, "member"), deltas.Draw(rt, "delta")
			u, err := b.Increment(background, who, delta)
			check(m.put(who, m.scores[who]+delta), who, u, err)
		},
		"increment once": func(rt *rapid.T) {
			tick()
			who, delta, op := member.Draw(rt, "member"), deltas.Draw(rt, "delta"), fmt.Sprint(ops)
			ops++
			u, err := b.IncrementOnce(background, who, delta, op)
			check(m.put(who, m.scores[who]+delta), who, u, err)
			u, err = b.IncrementOnce(background, who, delta, op)
			check(false, who, u, err)
		},
		"best many": func(rt *rapid.T) {
			tick()
			var many []ranking.MemberScore
			changed := map[string]bool{}
			for range rapid.IntRange(0, 3).Draw(rt, "n") {
				put := ranking.MemberScore{Member: member.Draw(rt, "member"), Score: scores.Draw(rt, "score")}
				many = append(many, put)
				if m.best(put.Member, put.Score) {
					changed[put.Member] = true
				}
			}
			m.cut()
			n, err := b.BestMany(background, many...)
			require.NoError(rt, err)
			require.EqualValues(rt, len(changed), n)
		},
		"remove": func(rt *rapid.T) {
			who := member.Draw(rt, "member")
			_, there := m.scores[who]
			delete(m.scores, who)
			n, err := b.Remove(background, who, "nobody")
			require.NoError(rt, err)
			require.EqualValues(rt, map[bool]int{true: 1}[there], n)
		},
		"trim": func(rt *rapid.T) {
			if m.sharded {
				rt.Skip("not there")
			}
			keep := rapid.SampledFrom([]int{2, 100, 2000}).Draw(rt, "keep")
			was, size := len(m.scores), m.maxSize
			m.maxSize = keep
			m.cut()
			m.maxSize = size
			n, err := b.Trim(background, int64(keep))
			require.NoError(rt, err)
			require.EqualValues(rt, was-len(m.scores), n)
		},
		"": func(rt *rapid.T) { checkReads(rt, b, m, append(names, "m0", "m77", "nobody")) },
	})
}

// checkReads compares every read with the model.
func checkReads(rt *rapid.T, b *ranking.Leaderboard, m *model, names []string) {
	all, most := m.entries(), 3000
	if m.sharded {
		most = 1000
	}
	i := 0
	for e, err := range b.All(background) {
		require.NoError(rt, err)
		require.Equal(rt, all[i], e)
		i++
	}
	require.Equal(rt, len(all), i)
	same := func(want, got []ranking.Entry, err error, what string, args ...any) {
		require.NoError(rt, err)
		if len(want) == 0 {
			require.Empty(rt, got, what, args)
			return
		}
		require.Equal(rt, want, got, append([]any{what}, args...)...)
	}
	who := rapid.SampledFrom(names).Draw(rt, "who")
	want, ok := m.standing(who)
	got, err := b.Get(background, who)
	if ok {
		require.NoError(rt, err)
		require.Equal(rt, want, got)
		above, below := rapid.IntRange(0, 5).Draw(rt, "above"), rapid.IntRange(0, 5).Draw(rt, "below")
		at := slices.IndexFunc(all, func(e ranking.Entry) bool { return e.Member == who })
		from, to := around(at, above, below, len(all))
		entries, err := b.Around(background, who, above, below)
		same(all[from:to], entries, err, "around %q %d %d", who, above, below)
	} else {
		require.ErrorIs(rt, err, ranking.ErrNotFound)
		_, err = b.Around(background, who, 1, 1)
		require.ErrorIs(rt, err, ranking.ErrNotFound)
	}
	n, err := b.Count(background)
	require.NoError(rt, err)
	require.EqualValues(rt, len(all), n)

	top := rapid.SampledFrom([]int{0, 1, 7, most}).Draw(rt, "n")
	entries, err := b.Top(background, top)
	same(all[:min(top, len(all))], entries, err, "top %d", top)

	if !m.sharded {
		from := rapid.IntRange(1, len(all)+2).Draw(rt, "from")
		to := from + rapid.IntRange(-1, 9).Draw(rt, "more")
		entries, err = b.Range(background, int64(from), int64(to))
		same(all[min(from-1, len(all)):max(min(from-1, len(all)), min(to, len(all)))], entries, err, "range %d %d", from, to)

	}
	size := rapid.SampledFrom([]int{1, 3, 10, most}).Draw(rt, "size")
	page := rapid.IntRange(1, min(len(all)/size+2, most/size)).Draw(rt, "page")
	p, err := b.Page(background, page, size)
	same(all[min((page-1)*size, len(all)):min(page*size, len(all))], p.Entries, err, "page %d of %d", page, size)
	require.EqualValues(rt, len(all), p.Total)
	require.Equal(rt, (len(all)+size-1)/size, p.Pages)

	bound := rapid.SampledFrom([]float64{math.Inf(-1), -1, -0.5, 0, 0.1, 2, 2.5, 40, math.Inf(1)})
	low, high, limit := bound.Draw(rt, "low"), bound.Draw(rt, "high"), rapid.SampledFrom([]int{1, 4, most}).Draw(rt, "limit")
	var inside []ranking.Entry
	for _, e := range all {
		if low <= e.Score && e.Score <= high {
			inside = append(inside, e)
		}
	}
	n, err = b.CountBetween(background, low, high)
	require.NoError(rt, err)
	require.EqualValues(rt, len(inside), n, "between %v and %v", low, high)
	entries, err = b.ByScore(background, low, high, limit)
	same(inside[:min(limit, len(inside))], entries, err, "by score %v %v %d", low, high, limit)

	if m.sharded {
		return
	}
	friends := rapid.SliceOf(rapid.SampledFrom(names)).Draw(rt, "friends")
	var known []ranking.Entry
	for _, e := range all {
		if slices.Contains(friends, e.Member) {
			known = append(known, e)
		}
	}
	entries, err = b.GetMany(background, friends...)
	same(known, entries, err, "friends %q", friends)
}
