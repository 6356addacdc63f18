package contenders

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
	"github.com/redispatterns/redispatterns/ranking"
)

func init() {
	bench.Register(&bench.Boards, bench.Contender[bench.BoardConfig, bench.Board]{
		Name: bench.Ours, Note: "a write also says whether it changed anything",
		New: newBoard(plain, nil),
	}, bench.Contender[bench.BoardConfig, bench.Board]{
		Name: bench.Ours + ", AutoPipeliner", Merges: true, Same: true,
		New: newBoard(merging, nil),
	}, bench.Contender[bench.BoardConfig, bench.Board]{
		Name: bench.Ours + " Competition", Same: true, Note: "equal scores share a rank, which by hand takes ZCOUNT",
		New: newBoard(plain, &ranking.Options{Ties: ranking.Competition}),
	})
}

func newBoard(open connect, opts *ranking.Options) func(bench.BoardConfig) (bench.Board, error) {
	return func(c bench.BoardConfig) (bench.Board, error) {
		db, close, err := open(c.Conn)
		if err != nil {
			return nil, err
		}
		b, err := ranking.New(db, c.Name, opts)
		return &ourBoard{b, db, close, "ranking:" + c.Name}, err
	}
}

type ourBoard struct {
	board *ranking.Leaderboard
	db    redis.UniversalClient
	close func() error
	key   string
}

func (b *ourBoard) Close() error { return b.close() }

func (b *ourBoard) Set(ctx context.Context, member string, score float64) (bench.Standing, error) {
	u, err := b.board.Set(ctx, member, score)
	return standing(u.Standing), err
}

func (b *ourBoard) Add(ctx context.Context, member string, delta float64) (bench.Standing, error) {
	u, err := b.board.Increment(ctx, member, delta)
	return standing(u.Standing), err
}

func (b *ourBoard) Get(ctx context.Context, member string) (bench.Standing, error) {
	s, err := b.board.Get(ctx, member)
	return standing(s), err
}

func standing(s ranking.Standing) bench.Standing {
	return bench.Standing{Rank: s.Rank, Score: s.Score, Total: s.Total}
}

func (b *ourBoard) Top(ctx context.Context, n int) ([]bench.Entry, error) {
	top, err := b.board.Top(ctx, n)
	if err != nil {
		return nil, err
	}
	entries := make([]bench.Entry, len(top))
	for i, e := range top {
		entries[i] = bench.Entry{Member: e.Member, Score: e.Score}
	}
	return entries, nil
}

func (b *ourBoard) Fill(ctx context.Context, n int, entry func(int) bench.Entry) error {
	return fill(ctx, b.db, b.key, n, entry)
}
