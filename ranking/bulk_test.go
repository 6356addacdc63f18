package ranking_test

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ranking"
)

func numbered(from, to int, score func(i int) float64) []ranking.MemberScore {
	var many []ranking.MemberScore
	for i := from; i < to; i++ {
		many = append(many, ranking.MemberScore{Member: fmt.Sprintf("m%05d", i), Score: score(i)})
	}
	return many
}

func TestMany(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		for _, opts := range []*ranking.Options{nil, {Ties: ranking.Dense}} {
			if opts != nil && s.Mini != nil {
				continue // it sorts the whole board for each score
			}
			c := s.Client(t)
			n := redistest.Count(c)
			b := newBoard(t, c, opts)
			many := numbered(0, 2001, func(i int) float64 { return float64(i) })
			changed, err := b.SetMany(background, many[:1]...) // loads the script
			require.NoError(t, err)
			require.EqualValues(t, 1, changed)
			n.Reset()
			changed, err = b.SetMany(background, many...)
			require.NoError(t, err)
			require.EqualValues(t, 2000, changed)
			require.Equal(t, 3, n.Trips())
			changed, err = b.BestMany(background, numbered(0, 2001, func(i int) float64 { return 1000 })...)
			require.NoError(t, err)
			require.EqualValues(t, 1000, changed)

			changed, err = b.SetMany(background, ranking.MemberScore{Member: "5", Score: 1}, ranking.MemberScore{Member: "x", Score: 5}, ranking.MemberScore{Member: "5", Score: 5})
			require.NoError(t, err)
			require.EqualValues(t, 2, changed)
			changed, err = b.BestMany(background, ranking.MemberScore{Member: "5", Score: 7}, ranking.MemberScore{Member: "5", Score: 6})
			require.NoError(t, err)
			require.EqualValues(t, 1, changed)
			got, err := b.Get(background, "5")
			require.NoError(t, err)
			require.EqualValues(t, 7, got.Score)

			n.Reset()
			for _, bad := range []ranking.MemberScore{{Member: ""}, {Member: "b", Score: math.NaN()}} {
				_, err = b.SetMany(background, ranking.MemberScore{Member: "a"}, bad)
				require.Error(t, err)
				_, err = b.BestMany(background, ranking.MemberScore{Member: "a"}, bad)
				require.Error(t, err)
			}
			changed, err = b.SetMany(background)
			require.NoError(t, err)
			require.Zero(t, changed)
			require.Zero(t, n.Trips())

			removed, err := b.Remove(background, func() (names []string) {
				for _, m := range many {
					names = append(names, m.Member)
				}
				return append(names, "nobody")
			}()...)
			require.NoError(t, err)
			require.EqualValues(t, 2001, removed)
		}
	})
}

func TestTrimAndMaxSize(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		for _, ties := range []ranking.Ties{ranking.Ordinal, ranking.Dense} {
			for order, want := range map[ranking.Order]string{ranking.Descending: "m00009", ranking.Ascending: "m00000"} {
				b := newBoard(t, s.Client(t), &ranking.Options{Order: order, Ties: ties})
				_, err := b.SetMany(background, numbered(0, 10, func(i int) float64 { return float64(i) })...)
				require.NoError(t, err)
				for _, keep := range []int64{0, -1, math.MinInt64} {
					_, err = b.Trim(background, keep)
					require.ErrorContains(t, err, "below 1")
				}
				for _, step := range [][2]int64{{20, 0}, {10, 0}, {3, 7}, {1, 2}} {
					n, err := b.Trim(background, step[0])
					require.NoError(t, err)
					require.Equal(t, step[1], n)
				}
				top, err := b.Top(background, 10)
				require.NoError(t, err)
				require.Len(t, top, 1)
				require.Equal(t, want, top[0].Member)
			}
		}
		b := newBoard(t, s.Client(t), &ranking.Options{MaxSize: 2})
		fill(t, b, scored{"a", 10}, scored{"b", 20})
		u, err := b.Set(background, "c", 5)
		require.ErrorIs(t, err, ranking.ErrNotFound, "below the cut")
		require.EqualValues(t, 2, u.Total)
		u, err = b.Increment(background, "c", 15)
		require.NoError(t, err)
		require.Equal(t, standing(2, "c", 15, 2), u.Standing)
		_, err = b.Get(background, "a")
		require.ErrorIs(t, err, ranking.ErrNotFound)
	})
}

// A large board is trimmed in portions, so that none of them holds Redis up for long. It has a server of its own, which other
// tests do not wait for.
func TestTrimInPortions(t *testing.T) {
	t.Parallel()
	s, _ := redistest.Own(t)
	c := s.Client(t, func(o *redis.Options) { o.ReadTimeout = time.Minute })
	n := redistest.Count(c)
	for _, order := range []ranking.Order{ranking.Descending, ranking.Ascending} {
		name := redistest.ID()
		plain, b := newBoardNamed(t, c, name, nil), newBoardNamed(t, c, name, &ranking.Options{Order: order, Ties: ranking.Dense})
		_, err := plain.SetMany(background, numbered(0, 60_007, func(i int) float64 { return float64(i / 1000) })...)
		require.NoError(t, err)
		require.NoError(t, b.Merge(background, ranking.Max, plain)) // makes the companion, sooner than SetMany would
		n.Reset()
		removed, err := b.Trim(background, 7)
		require.NoError(t, err)
		require.EqualValues(t, 60_000, removed)
		require.LessOrEqual(t, n.Trips(), 3, "two, and one that loads the script")
		top, err := b.Top(background, 10)
		require.NoError(t, err)
		require.Len(t, top, 7)
		for _, e := range top {
			require.Equal(t, map[ranking.Order]float64{ranking.Descending: 60, ranking.Ascending: 0}[order], e.Score)
		}
		require.EqualValues(t, 1, c.ZCard(background, "{ranking:"+name+"}~r").Val(), "the companion too")
	}
}

func TestTTL(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		for _, opts := range []*ranking.Options{{}, {Ties: ranking.Dense}, earliest(t, s, ranking.Descending)} {
			c, name := s.Client(t), redistest.ID()
			opts.TTL = time.Hour
			b := newBoardNamed(t, c, name, opts)
			for what, write := range map[string]func() error{
				"set":       func() error { _, err := b.Set(background, "a", 1); return err },
				"best":      func() error { _, err := b.Best(background, "a", 1); return err },
				"increment": func() error { _, err := b.Increment(background, "a", 1); return err },
				"once":      func() error { _, err := b.IncrementOnce(background, "a", 1, "op"); return err },
				"many":      func() error { _, err := b.SetMany(background, ranking.MemberScore{Member: "a"}); return err },
			} {
				require.NoError(t, write())
				for _, key := range c.Keys(background, "*"+name+"*").Val() {
					if strings.Contains(key, "~o") {
						continue // operations are remembered for a time of their own
					}
					require.Greater(t, c.PTTL(background, key).Val(), 45*time.Minute, "%s after %s", key, what)
					c.PExpire(background, key, 30*time.Minute)
				}
			}
		}
		b := newBoard(t, s.Client(t), &ranking.Options{TTL: 200 * time.Millisecond})
		fill(t, b, scored{"a", 1})
		s.Advance(t, 300*time.Millisecond)
		_, err := b.Get(background, "a")
		require.ErrorIs(t, err, ranking.ErrNotFound)
	})
}

func TestClear(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		for kind, opts := range kinds(s, t) {
			c, name := s.Client(t), redistest.ID()
			b := newBoardNamed(t, c, name, opts)
			for range 2 {
				u, err := b.IncrementOnce(background, "alice", 5, "op")
				require.NoError(t, err)
				require.Equal(t, ranking.Update{Standing: standing(1, "alice", 5, 1), Changed: true}, u, kind)
				require.NoError(t, b.Clear(background))
				require.Empty(t, c.Keys(background, "*"+name+"*").Val())
				require.NoError(t, b.Clear(background))
			}
		}
	})
}

func TestIncrementOnce(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, name := s.Client(t), redistest.ID()
		b := newBoardNamed(t, c, name, &ranking.Options{OnceFor: time.Second})
		_, err := b.IncrementOnce(background, "alice", 5, "")
		require.ErrorContains(t, err, "the operation is empty")
		p := s.Proxy(t)
		through := newBoardNamed(t, p.Client(t), name, &ranking.Options{OnceFor: time.Second})
		for how, lose := range lost {
			before := s.Now(t)
			_, err = b.IncrementOnce(background, "alice", 1, how+"0") // loads the script
			require.NoError(t, err)
			lose(p, 1, "evalsha")
			u, err := through.IncrementOnce(background, "alice", 5, how)
			require.NoError(t, err)
			require.Equal(t, 1, p.Hits())
			want := u.Score
			for range 3 {
				u, err = b.IncrementOnce(background, "alice", 5, how)
				require.NoError(t, err)
				if s.Now(t).Sub(before) < time.Second { // so long it is remembered
					require.Equal(t, ranking.Update{Standing: standing(1, "alice", want, 1)}, u)
				}
			}
		}
		_, err = b.Remove(background, "alice")
		require.NoError(t, err)
		if s.Mini != nil { // whose clock stands still
			_, err = b.IncrementOnce(background, "alice", 5, "dropped")
			require.ErrorIs(t, err, ranking.ErrNotFound)
			for i := range 40 {
				op := fmt.Sprint(i)
				u, err := b.IncrementOnce(background, "bob", 1, op)
				require.NoError(t, err)
				require.True(t, u.Changed)
				s.Advance(t, time.Second-time.Millisecond)
				u, err = b.IncrementOnce(background, "bob", 1, op)
				require.NoError(t, err)
				require.False(t, u.Changed, "remembered for OnceFor at least")
				if i%2 == 0 {
					s.Advance(t, 1002*time.Millisecond)
					u, err = b.IncrementOnce(background, "bob", 1, op)
					require.NoError(t, err)
					require.True(t, u.Changed, "and twice that at most")
				}
			}
		}
		for _, key := range []string{"{ranking:" + name + "}~o0", "{ranking:" + name + "}~o1"} {
			ttl := c.PTTL(background, key).Val() // -2 of a key that is gone
			require.NotEqual(t, time.Duration(-1), ttl, "without expiry")
			require.LessOrEqual(t, ttl, 2*time.Second)
		}
	})
}

// What an operation costs to remember, as the documentation states it.
func TestIncrementOnceMemory(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	c, name := s.Client(t), redistest.ID()
	b := newBoardNamed(t, c, name, nil)
	const n = 2000
	_, err := c.Pipelined(background, func(p redis.Pipeliner) error {
		p.Time(background)
		return nil
	})
	require.NoError(t, err)
	for i := range n {
		_, err := b.IncrementOnce(background, "alice", 1, fmt.Sprintf("%08d-0000-4000-8000-000000000000", i))
		require.NoError(t, err)
	}
	var used int64
	for _, key := range []string{"{ranking:" + name + "}~o0", "{ranking:" + name + "}~o1"} {
		bytes, err := c.MemoryUsage(background, key, 0).Result()
		if err == nil {
			used += bytes
		}
	}
	t.Logf("%.1f bytes an operation", float64(used)/n)
	require.Less(t, float64(used)/n, 110.0)
}

func TestMerge(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		tag := "{" + redistest.ID() + "}"
		for _, ties := range []ranking.Ties{ranking.Ordinal, ranking.Competition, ranking.Dense} {
			opts := &ranking.Options{Ties: ties, TTL: time.Minute, MaxSize: 3}
			a, b, to := newBoardNamed(t, c, tag+"a", nil), newBoardNamed(t, c, tag+"b", nil), newBoardNamed(t, c, tag+"to", opts)
			fill(t, a, scored{"x", 1}, scored{"y", 5}, scored{"q", -10})
			fill(t, b, scored{"x", 4}, scored{"z", 5})
			for agg, x := range map[ranking.Aggregate]float64{ranking.Sum: 5, ranking.Min: 1, ranking.Max: 4} {
				fill(t, to, scored{"gone", 100})
				require.NoError(t, to.Merge(background, agg, a, b))
				got, err := to.Get(background, "x")
				require.NoError(t, err)
				require.Equal(t, x, got.Score)
				require.EqualValues(t, 3, got.Total)
				require.Positive(t, c.PTTL(background, "ranking:"+tag+"to").Val())
				_, err = to.Get(background, "gone")
				require.ErrorIs(t, err, ranking.ErrNotFound)
				_, err = to.Get(background, "q")
				require.ErrorIs(t, err, ranking.ErrNotFound, "below MaxSize")
			}
			require.NoError(t, to.Merge(background, ranking.Sum, to, a), "b may be part of its own union")
			got, err := to.Get(background, "y")
			require.NoError(t, err)
			require.EqualValues(t, 10, got.Score)

			require.NoError(t, to.Merge(background, ranking.Sum, newBoardNamed(t, c, tag+"none", nil)))
			n, err := to.Count(background)
			require.NoError(t, err)
			require.Zero(t, n)
			require.Empty(t, c.Keys(background, "*"+tag+"to*").Val())
		}
		a, b := newBoardNamed(t, c, tag+"a", nil), newBoardNamed(t, c, tag+"b", nil)
		fill(t, a, scored{"x", math.MaxFloat64})
		fill(t, b, scored{"x", math.MaxFloat64})
		require.ErrorIs(t, a.Merge(background, ranking.Sum, a, b), ranking.ErrScore)
		got, err := a.Get(background, "x")
		require.NoError(t, err)
		require.Equal(t, math.MaxFloat64, got.Score)

		require.ErrorIs(t, a.Merge(background, ranking.Sum, newBoard(t, c, nil)), ranking.ErrUnsupported, "another slot")
		require.ErrorIs(t, a.Merge(background, ranking.Max, newBoardNamed(t, c, tag+"e", earliest(t, s, 0))), ranking.ErrUnsupported)
		require.ErrorIs(t, newBoardNamed(t, c, tag+"e", earliest(t, s, 0)).Merge(background, ranking.Max, a), ranking.ErrUnsupported)
		require.ErrorIs(t, newBoardNamed(t, c, tag+"i", &ranking.Options{Integers: true}).Merge(background, ranking.Max, a), ranking.ErrUnsupported)
		require.ErrorContains(t, a.Merge(background, 7, a), "aggregate is 7")
		require.ErrorContains(t, a.Merge(background, ranking.Sum), "no boards")
		require.ErrorContains(t, a.Merge(background, ranking.Sum, nil), "board 0 is nil")
	})
}

// A union that the board itself is part of would count twice.
func TestMergeLostReply(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		p := s.Proxy(t)
		tag := "{" + redistest.ID() + "}"
		direct, a, b := newBoardNamed(t, s.Client(t), tag+"a", nil), newBoardNamed(t, p.Client(t), tag+"a", nil), newBoardNamed(t, p.Client(t), tag+"b", nil)
		fill(t, direct, scored{"x", 1})
		fill(t, b, scored{"x", 10})
		require.NoError(t, direct.Merge(background, ranking.Max, b)) // loads the script
		p.DropReplies(1, "evalsha")
		require.ErrorIs(t, a.Merge(background, ranking.Sum, a, b), ranking.ErrUnknown)
		redistest.Eventually(t, func() bool { got, _ := direct.Get(background, "x"); return got.Score == 20 }, "merged once")

		// One that may be repeated is, where a connection was lost, but not while Redis may still be at it.
		p.CloseAfter(1, "evalsha")
		require.NoError(t, a.Merge(background, ranking.Sum, b))
		got, err := direct.Get(background, "x")
		require.NoError(t, err)
		require.EqualValues(t, 10, got.Score)
		fill(t, direct, scored{"x", 1})
		p.DropReplies(1, "evalsha")
		require.ErrorIs(t, a.Merge(background, ranking.Sum, b), ranking.ErrUnknown)
		require.Equal(t, 1, p.Hits())
		redistest.Eventually(t, func() bool { got, _ := direct.Get(background, "x"); return got.Score == 10 }, "merged once")
	})
}

// Whoever stays where it is, is yielded exactly once, whatever others do meanwhile; also where all tie.
func TestAllWhileOthersWrite(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		for name, score := range map[string]func(i int) float64{
			"all tie": func(int) float64 { return 1 }, "none tie": func(i int) float64 { return float64(i) }, "some tie": func(i int) float64 { return float64(i % 7) },
		} {
			for _, order := range []ranking.Order{ranking.Descending, ranking.Ascending} {
				c := s.Client(t)
				b := newBoard(t, c, &ranking.Options{Order: order})
				const still = 1300
				_, err := b.SetMany(background, numbered(0, still, score)...)
				require.NoError(t, err)
				var wg sync.WaitGroup
				stop := make(chan struct{})
				wg.Go(func() { // others come, go and move
					for i := 0; ; i++ {
						select {
						case <-stop:
							return
						default:
							_, _ = b.Set(background, fmt.Sprintf("m%05dx", i*31%still), float64(i%9))
							_, _ = b.Remove(background, fmt.Sprintf("m%05dx", i*17%still))
						}
					}
				})
				seen := map[string]int{}
				n := 0
				for e, err := range b.All(background) {
					require.NoError(t, err)
					seen[e.Member]++
					if n++; n%500 == 0 { // the one it would go on from leaves
						if len(e.Member) > 6 {
							_, err = b.Remove(background, e.Member)
							require.NoError(t, err)
						}
					}
				}
				close(stop)
				wg.Wait()
				for i := range still {
					require.Equal(t, 1, seen[fmt.Sprintf("m%05d", i)], "%s: member %d", name, i)
				}
				for range b.All(background) {
					break
				}
			}
		}
	})
}

func TestAllGoesOnWhereTheLastWas(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		for _, order := range []ranking.Order{ranking.Descending, ranking.Ascending} {
			b := newBoard(t, s.Client(t), &ranking.Options{Order: order, Ties: ranking.Competition})
			_, err := b.SetMany(background, numbered(0, 1200, func(int) float64 { return 7 })...)
			require.NoError(t, err)
			seen := map[string]int{}
			for e, err := range b.All(background) {
				require.NoError(t, err)
				seen[e.Member]++
				if len(seen) == 500 {
					_, err = b.Remove(background, e.Member)
				} else if len(seen) == 1000 {
					_, err = b.Set(background, e.Member, 7+map[ranking.Order]float64{ranking.Descending: 1, ranking.Ascending: -1}[order])
				}
				require.NoError(t, err)
			}
			require.Len(t, seen, 1200)
			for member, n := range seen {
				require.Equal(t, 1, n, member)
			}
		}
	})
}

func TestBadReads(t *testing.T) {
	t.Parallel()
	c := redistest.Mini(t).Client(t)
	n := redistest.Count(c)
	b := newBoard(t, c, nil)
	for _, bad := range []func() error{
		func() error { _, err := b.Page(background, 0, 10); return err },
		func() error { _, err := b.Page(background, 1, 0); return err },
		func() error { _, err := b.Page(background, -1, -1); return err },
		func() error { _, err := b.Around(background, "", 1, 1); return err },
		func() error { _, err := b.Around(background, "a", -1, 1); return err },
		func() error { _, err := b.Around(background, "a", 1, -1); return err },
		func() error { _, err := b.ByScore(background, 0, 1, 0); return err },
		func() error { _, err := b.ByScore(background, 0, 1, -1); return err },
		func() error { _, err := b.ByScore(background, math.NaN(), 1, 1); return err },
		func() error { _, err := b.CountBetween(background, 0, math.NaN()); return err },
		func() error { _, err := b.GetMany(background, "a", ""); return err },
	} {
		require.Error(t, bad())
	}
	entries, err := b.GetMany(background)
	require.NoError(t, err)
	require.Empty(t, entries)
	require.Zero(t, n.Trips())
}

// Pages far past the end, and neighbourhoods larger than any board.
func TestFarReads(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		b := newBoard(t, s.Client(t), &ranking.Options{Ties: ranking.Competition})
		p, err := b.Page(background, 1, 10)
		require.NoError(t, err)
		require.Equal(t, ranking.Page{}, p)
		fill(t, b, scored{"a", 1}, scored{"b", 2}, scored{"c", 3})
		for _, page := range []int{3, 1 << 40, math.MaxInt} {
			for _, size := range []int{2, math.MaxInt} {
				p, err := b.Page(background, page, size)
				require.NoError(t, err)
				require.Empty(t, p.Entries)
				require.EqualValues(t, 3, p.Total)
			}
		}
		p, err = b.Page(background, 1, math.MaxInt)
		require.NoError(t, err)
		require.Len(t, p.Entries, 3)
		require.Equal(t, 1, p.Pages)
		entries, err := b.Around(background, "b", math.MaxInt, math.MaxInt)
		require.NoError(t, err)
		require.Len(t, entries, 3)
		entries, err = b.Around(background, "b", 0, 0)
		require.NoError(t, err)
		require.Equal(t, []ranking.Entry{entry(2, "b", 2)}, entries)
		entries, err = b.Range(background, 2, math.MaxInt64)
		require.NoError(t, err)
		require.Len(t, entries, 2)
		entries, err = b.ByScore(background, math.Inf(-1), math.Inf(1), math.MaxInt)
		require.NoError(t, err)
		require.Len(t, entries, 3)
	})
}
