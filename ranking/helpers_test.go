package ranking_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ranking"
)

func TestMain(m *testing.M) { redistest.Main(m) }

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
		_, err := b.Increment(ctx, "alice", 1e300)
		return err
	}},
	{"Best", 1, func(ctx context.Context, b *ranking.Leaderboard) error {
		_, err := b.Best(ctx, "alice", 2)
		return err
	}},
	{"Get", 1, func(ctx context.Context, b *ranking.Leaderboard) error {
		_, err := b.Get(ctx, "alice")
		return err
	}},
	{"Top", 1, func(ctx context.Context, b *ranking.Leaderboard) error {
		_, err := b.Top(ctx, 10)
		return err
	}},
	{"Range", 1, func(ctx context.Context, b *ranking.Leaderboard) error {
		_, err := b.Range(ctx, 1, 10)
		return err
	}},
	{"Count", 1, func(ctx context.Context, b *ranking.Leaderboard) error {
		_, err := b.Count(ctx)
		return err
	}},
	{"Remove", 1, func(ctx context.Context, b *ranking.Leaderboard) error {
		_, err := b.Remove(ctx, "bob")
		return err
	}},
}
