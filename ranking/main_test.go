package ranking_test

import (
	"context"
	"flag"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ranking"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		_ = checks.Value.Set(map[bool]string{false: "4", true: "40"}[redistest.Long() > 3*time.Second])
	}
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		_ = parallel.Value.Set(strconv.Itoa(4 * runtime.GOMAXPROCS(0))) // most of the time goes by waiting for replies that never come
	}
	_ = flag.Set("rapid.nofailfile", "true")
	_ = flag.Set("rapid.steps", "15")
	redistest.Main(m)
}

var background = context.Background()

// newBoard makes a board of a name that no other test uses.
func newBoard(t testing.TB, c redispatterns.Client, opts *ranking.Options) *ranking.Leaderboard {
	t.Helper()
	b, err := ranking.New(c, redistest.ID(), opts)
	require.NoError(t, err)
	return b
}

// scored is a member and its score.
type scored struct {
	member string
	score  float64
}

// fill sets scores in the order given.
func fill(t testing.TB, b *ranking.Leaderboard, scores ...scored) {
	t.Helper()
	for _, s := range scores {
		_, err := b.Set(background, s.member, s.score)
		require.NoError(t, err)
	}
}

// operation is one method call on a board where "alice" has a score.
type operation struct {
	name  string
	trips int
	do    func(ctx context.Context, b *ranking.Leaderboard) error
}

// operations are all that a board does; the tests of failures, of clients and of round trips go through them.
var operations = []operation{
	{"Set", 1, func(ctx context.Context, b *ranking.Leaderboard) error {
		_, err := b.Set(ctx, "alice", 1)
		return err
	}},
	{"Increment", 1, func(ctx context.Context, b *ranking.Leaderboard) error {
		_, err := b.Increment(ctx, "alice", 1)
		return err
	}},
	{"Increment of a huge delta", 1, func(ctx context.Context, b *ranking.Leaderboard) error {
		_, err := b.Increment(ctx, "alice", huge)
		return err
	}},
	{"IncrementOnce", 1, func(ctx context.Context, b *ranking.Leaderboard) error {
		_, err := b.IncrementOnce(ctx, "alice", 1, redistest.ID())
		return err
	}},
	{"Best", 1, func(ctx context.Context, b *ranking.Leaderboard) error {
		_, err := b.Best(ctx, "alice", 2)
		return err
	}},
	{"SetMany", 1, func(ctx context.Context, b *ranking.Leaderboard) error {
		_, err := b.SetMany(ctx, ranking.MemberScore{Member: "alice", Score: 5}, ranking.MemberScore{Member: "bob", Score: 6})
		return err
	}},
	{"BestMany", 1, func(ctx context.Context, b *ranking.Leaderboard) error {
		_, err := b.BestMany(ctx, ranking.MemberScore{Member: "alice", Score: 5})
		return err
	}},
	{"Get", 1, func(ctx context.Context, b *ranking.Leaderboard) error {
		_, err := b.Get(ctx, "alice")
		return err
	}},
	{"GetMany", 1, func(ctx context.Context, b *ranking.Leaderboard) error {
		_, err := b.GetMany(ctx, "alice", "nobody")
		return err
	}},
	{"Top", 1, func(ctx context.Context, b *ranking.Leaderboard) error {
		_, err := b.Top(ctx, 10)
		return err
	}},
	{"Range", 1, func(ctx context.Context, b *ranking.Leaderboard) error {
		_, err := b.Range(ctx, 2, 10)
		return err
	}},
	{"Page", 1, func(ctx context.Context, b *ranking.Leaderboard) error {
		_, err := b.Page(ctx, 1, 10)
		return err
	}},
	{"Around", 1, func(ctx context.Context, b *ranking.Leaderboard) error {
		_, err := b.Around(ctx, "alice", 3, 3)
		return err
	}},
	{"ByScore", 1, func(ctx context.Context, b *ranking.Leaderboard) error {
		_, err := b.ByScore(ctx, 0, 10, 10)
		return err
	}},
	{"Count", 1, func(ctx context.Context, b *ranking.Leaderboard) error {
		_, err := b.Count(ctx)
		return err
	}},
	{"CountBetween", 1, func(ctx context.Context, b *ranking.Leaderboard) error {
		_, err := b.CountBetween(ctx, 0, 10)
		return err
	}},
	{"All", 1, func(ctx context.Context, b *ranking.Leaderboard) error {
		for _, err := range b.All(ctx) {
			if err != nil {
				return err
			}
		}
		return nil
	}},
	{"Remove", 1, func(ctx context.Context, b *ranking.Leaderboard) error {
		_, err := b.Remove(ctx, "bob")
		return err
	}},
	{"Merge", 1, func(ctx context.Context, b *ranking.Leaderboard) error { return b.Merge(ctx, ranking.Max, b) }},
	{"Trim", 1, func(ctx context.Context, b *ranking.Leaderboard) error {
		_, err := b.Trim(ctx, 10)
		return err
	}},
	{"Clear", 1, func(ctx context.Context, b *ranking.Leaderboard) error { return b.Clear(ctx) }}, // the last
}

// huge is a delta that goes through the script on a board that needs none otherwise.
const huge = 1e300

// kinds are the options that change how a board works.
func kinds(s *redistest.Server, t testing.TB) map[string]*ranking.Options {
	now := s.Now(t)
	return map[string]*ranking.Options{
		"ordinal": nil, "ascending": {Order: ranking.Ascending}, "competition": {Ties: ranking.Competition}, "dense": {Ties: ranking.Dense},
		"ttl and size": {TTL: time.Hour, MaxSize: 1000}, "integers": {Integers: true},
		"earliest first": {Ties: ranking.EarliestFirst, Earliest: &ranking.Earliest{Since: now.Add(-time.Hour), Until: now.Add(time.Hour)}},
	}
}

// of are the operations that a kind of board has.
func of(kind string) []operation {
	if kind != "earliest first" && kind != "integers" {
		return operations
	}
	return slices.DeleteFunc(slices.Clone(operations), func(op operation) bool {
		return op.name == "Increment of a huge delta" || op.name == "Merge" && kind == "earliest first"
	})
}
