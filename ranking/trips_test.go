package ranking_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ranking"
)

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		n := redistest.Count(c)
		for kind, opts := range kinds(s, t) {
			b := newBoard(t, c, opts)
			for _, op := range of(kind) {
				fill(t, b, scored{"alice", 1})
				require.NoError(t, op.do(background, b), op.name) // scripts are loaded
				fill(t, b, scored{"alice", 1})
				n.Reset()
				require.NoError(t, op.do(background, b), op.name)
				require.Equal(t, op.trips, n.Trips(), "%s of a board of kind %s", op.name, kind)
			}
		}
	})
}

// otherTrips are the round trips of docs/keys.md that are fixed and depend on more than the operation of a Leaderboard.
var otherTrips = map[string]int{
	"Windows.Set": 1, "Windows.Increment": 1, "Windows.Best": 1, "Windows.IncrementOnce": 1, "Windows.Remove": 2,
	"Set, a process' first write to a sharded board": 2, "Set of a sharded board with a TTL": 2,
}

// The rows of docs/keys.md that depend on more than the operation.
func TestRoundTripsOfOtherRows(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		n := redistest.Count(c)
		counted := map[string]int{}
		trips := func(what string, do func() error) {
			t.Helper()
			n.Reset()
			require.NoError(t, do(), what)
			counted[what] = n.Trips()
		}
		w, now := newWindows(t, c, redistest.ID(), everyWindow, nil), s.Now(t)
		for what, do := range map[string]func() error{
			"Windows.Set":       func() error { _, err := w.Set(background, now, "alice", 1); return err },
			"Windows.Increment": func() error { _, err := w.Increment(background, now, "alice", 1); return err },
			"Windows.Best":      func() error { _, err := w.Best(background, now, "alice", 9); return err },
			"Windows.IncrementOnce": func() error {
				_, err := w.IncrementOnce(background, now, "alice", 1, redistest.ID())
				return err
			},
			"Windows.Remove": func() error { return w.Remove(background, "alice") },
		} {
			require.NoError(t, do(), what) // the script is loaded
			trips(what, do)
		}

		name := redistest.ID()
		set := func(b *ranking.Leaderboard) func() error {
			return func() error { _, err := b.Set(background, "alice", 1); return err }
		}
		trips("Set, a process' first write to a sharded board", set(newSharded(t, c, name, 2, nil)))
		b := newSharded(t, c, name, 2, &ranking.Options{TTL: time.Hour})
		require.NoError(t, set(b)())
		trips("Set of a sharded board with a TTL", set(b))
		b = newSharded(t, c, redistest.ID(), 2, nil)
		require.NoError(t, set(b)())
		many := numbered(0, 3000, func(i int) float64 { return float64(i) }) // about 1500 on each shard
		n.Reset()
		_, err := b.SetMany(background, many...)
		require.NoError(t, err)
		require.Equal(t, 5, n.Trips(), "SetMany, one per 1000 members of each shard, and one")
		require.Equal(t, otherTrips, counted)
	})
}

// docs/keys.md has a table of round trips, which is held against what the tests above count.
func TestRoundTripsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/keys.md")
	require.NoError(t, err)
	_, text, found := strings.Cut(string(page), "| operation | plain board | sharded |")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "\n\n")
	leading, fixed := regexp.MustCompile(`^\d+`), regexp.MustCompile(`^\d+(;|$)`)
	plain, shards, cells := map[string]string{}, map[string]string{}, map[string]string{}
	for row := range strings.Lines(text) {
		columns := strings.Split(row, "|")
		if len(columns) < 4 {
			continue
		}
		for name := range strings.SplitSeq(columns[1], ",") {
			name = strings.TrimSpace(name)
			require.NotContains(t, plain, name)
			cells[name] = strings.TrimSpace(columns[2]) + " | " + strings.TrimSpace(columns[3])
			plain[name] = leading.FindString(strings.TrimSpace(columns[2]))
			shards[name] = strings.TrimSuffix(fixed.FindString(strings.TrimSpace(columns[3])), ";")
			if strings.TrimSpace(columns[3]) == "not there" {
				shards[name] = "not there"
			}
		}
	}
	for _, op := range operations {
		if op.name == "Increment of a huge delta" {
			continue
		}
		require.Equal(t, strconv.Itoa(op.trips), plain[op.name], "%s of a plain board", op.name)
		if trips, ok := shardedTrips[op.name]; !ok {
			require.Equal(t, "not there", shards[op.name], "%s of a sharded board", op.name)
		} else if shards[op.name] != "" { // else it depends on how many shards there are
			require.Equal(t, strconv.Itoa(trips), shards[op.name], "%s of a sharded board", op.name)
		}
	}
	for what, trips := range otherTrips {
		if strings.HasPrefix(what, "Windows.") {
			require.Equal(t, strconv.Itoa(trips), plain[what], what)
		}
	}
	set := shardedTrips["Set"]
	require.Equal(t, fmt.Sprintf("1 | %d; with a TTL %d", set, otherTrips["Set of a sharded board with a TTL"]), cells["Set"])
	require.Equal(t, fmt.Sprintf("+0 | +%d", otherTrips["Set, a process' first write to a sharded board"]-set), cells["first write of a process"])
}

// An AutoPipeliner merges the commands of many callers, but sends each caller's pipeline by itself. So there a board takes
// one command a call, where another client is asked faster by a pipeline.
func TestAutoPipelinerMerges(t *testing.T) {
	t.Parallel()
	c := redistest.Real(t).Client(t)
	ap, err := c.AutoPipeline()
	require.NoError(t, err)
	defer ap.Close()
	for _, ties := range []ranking.Ties{ranking.Ordinal, ranking.Competition} {
		b := newBoard(t, ap, &ranking.Options{Ties: ties})
		fill(t, b, scored{"alice", 1})
		_, err := b.Increment(background, "alice", 1) // loads the script
		require.NoError(t, err)
		_, err = b.Get(background, "alice")
		require.NoError(t, err)
		sent := redistest.Count(c)
		const callers, each = 16, 20
		var wg sync.WaitGroup
		for g := range callers {
			wg.Go(func() {
				for i := range each {
					member := fmt.Sprint(g, i)
					_, err1 := b.Set(background, member, 1)
					_, err2 := b.Increment(background, member, 1)
					_, err3 := b.Best(background, member, 3)
					got, err4 := b.Get(background, member)
					if err := errors.Join(err1, err2, err3, err4); err != nil || got.Score != 3 {
						t.Errorf("%v, %v", got, err)
					}
				}
			})
		}
		wg.Wait()
		commands := sent.Commands()
		require.Len(t, commands, 4*callers*each, "one a call")
		require.Less(t, sent.Trips(), len(commands), "merged")
	}
}

// What an operation may allocate, on a plain client. The least of five runs counts, as the pool's own work falls into some.
func TestAllocations(t *testing.T) {
	if redistest.Race {
		t.Skip("allocations are not counted under the race detector")
	}
	ordinal, competition, members := hundredThousand(t)
	for _, op := range hot(ordinal, competition, members) {
		least := math.Inf(1)
		for range 5 {
			least = min(least, testing.AllocsPerRun(50, op.do))
		}
		t.Logf("%s: %.0f", op.name, least)
		require.LessOrEqual(t, least, op.allocs, op.name)
	}
}

// hundredThousand are 100 000 members on a real server, and two ways to rank them.
func hundredThousand(t testing.TB) (ordinal, competition *ranking.Leaderboard, members []string) {
	t.Helper()
	c, name := redistest.Real(t).Client(t), redistest.ID()
	members = make([]string, 100_000)
	scores := make([]ranking.MemberScore, len(members))
	for i := range members {
		members[i] = fmt.Sprintf("player:%07d", i)
		scores[i] = ranking.MemberScore{Member: members[i], Score: float64(i * 7919 % 10_000_000)}
	}
	ordinal, competition = newBoardNamed(t, c, name, nil), newBoardNamed(t, c, name, &ranking.Options{Ties: ranking.Competition})
	_, err := ordinal.SetMany(background, scores...)
	require.NoError(t, err)
	return ordinal, competition, members
}

type hotOperation struct {
	name   string
	allocs float64 // at most
	do     func()
}

func hot(ordinal, competition *ranking.Leaderboard, members []string) []hotOperation {
	i := 0
	next := func() string {
		i++
		return members[i*7919%len(members)]
	}
	score := func() float64 { return float64(i * 104_729 % 10_000_000) }
	return []hotOperation{
		{"Set", 21, func() { _, _ = ordinal.Set(background, next(), score()) }},
		{"Best", 22, func() { _, _ = ordinal.Best(background, next(), score()) }},
		{"Increment", 21, func() { _, _ = ordinal.Increment(background, next(), 1) }},
		{"Get", 17, func() { _, _ = ordinal.Get(background, next()) }},
		{"Top", 28, func() { _, _ = ordinal.Top(background, 10) }},
		{"Competition Set", 23, func() { _, _ = competition.Set(background, next(), score()) }},
		{"Competition Best", 12, func() { _, _ = competition.Best(background, next(), score()) }},
		{"Competition Increment", 11, func() { _, _ = competition.Increment(background, next(), 1) }},
		{"Competition Get", 11, func() { _, _ = competition.Get(background, next()) }},
		{"Competition Top", 28, func() { _, _ = competition.Top(background, 10) }},
		{"Competition Page", 32, func() { _, _ = competition.Page(background, 3, 10) }},
		{"Competition Around", 33, func() { _, _ = competition.Around(background, next(), 5, 4) }},
	}
}

func BenchmarkBoard(b *testing.B) {
	ordinal, competition, members := hundredThousand(b)
	for _, op := range hot(ordinal, competition, members) {
		b.Run(op.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				op.do()
			}
		})
	}
}
