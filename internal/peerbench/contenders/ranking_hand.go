package contenders

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
)

func init() {
	bench.Register(&bench.Boards, bench.Contender[bench.BoardConfig, bench.Board]{
		Name: "by hand: a pipeline", Ref: true, Note: "the command, ZREVRANK and ZCARD",
		New: newHandBoard(plain, true),
	}, bench.Contender[bench.BoardConfig, bench.Board]{
		Name: "by hand: one by one", Ref: true, Same: true, Note: "the same commands, a round trip each",
		New: newHandBoard(plain, false),
	}, bench.Contender[bench.BoardConfig, bench.Board]{
		Name: "by hand, auto-pipelined", Ref: true, Merges: true, Same: true,
		Note: "the same commands on go-redis' asynchronous AutoPipeliner: all are sent before the first is waited for",
		New:  newHandBoard(deferring, true),
	})
}

func newHandBoard(open connect, together bool) func(bench.BoardConfig) (bench.Board, error) {
	return func(c bench.BoardConfig) (bench.Board, error) {
		db, close, err := open(c.Conn)
		return &handBoard{db, close, c.Name, together}, err
	}
}

type handBoard struct {
	db       redis.UniversalClient
	close    func() error
	key      string
	together bool // the commands of an operation are sent together
}

func (b *handBoard) Close() error { return b.close() }

func (b *handBoard) Set(ctx context.Context, member string, score float64) (bench.Standing, error) {
	z := redis.Z{Score: score, Member: member}
	if !b.together {
		if err := b.db.ZAdd(ctx, b.key, z).Err(); err != nil {
			return bench.Standing{}, err
		}
		return b.standing(ctx, member, score)
	}
	pipe := batch(b.db)
	add := pipe.ZAdd(ctx, b.key, z)
	rank, total := pipe.ZRevRank(ctx, b.key, member), pipe.ZCard(ctx, b.key)
	send(ctx, pipe)
	return bench.Standing{Rank: rank.Val() + 1, Score: score, Total: total.Val()}, firstError(add.Err(), rank.Err(), total.Err())
}

func (b *handBoard) Add(ctx context.Context, member string, delta float64) (bench.Standing, error) {
	if !b.together {
		score, err := b.db.ZIncrBy(ctx, b.key, delta, member).Result()
		if err != nil {
			return bench.Standing{}, err
		}
		return b.standing(ctx, member, score)
	}
	pipe := batch(b.db)
	sum := pipe.ZIncrBy(ctx, b.key, delta, member)
	rank, total := pipe.ZRevRank(ctx, b.key, member), pipe.ZCard(ctx, b.key)
	send(ctx, pipe)
	return bench.Standing{Rank: rank.Val() + 1, Score: sum.Val(), Total: total.Val()}, firstError(sum.Err(), rank.Err(), total.Err())
}

func (b *handBoard) Get(ctx context.Context, member string) (bench.Standing, error) {
	if !b.together {
		score, err := b.db.ZScore(ctx, b.key, member).Result()
		if err != nil {
			return bench.Standing{}, err
		}
		return b.standing(ctx, member, score)
	}
	pipe := batch(b.db)
	score := pipe.ZScore(ctx, b.key, member)
	rank, total := pipe.ZRevRank(ctx, b.key, member), pipe.ZCard(ctx, b.key)
	send(ctx, pipe)
	return bench.Standing{Rank: rank.Val() + 1, Score: score.Val(), Total: total.Val()}, firstError(score.Err(), rank.Err(), total.Err())
}

func (b *handBoard) standing(ctx context.Context, member string, score float64) (bench.Standing, error) {
	rank, err := b.db.ZRevRank(ctx, b.key, member).Result()
	if err != nil {
		return bench.Standing{}, err
	}
	total, err := b.db.ZCard(ctx, b.key).Result()
	return bench.Standing{Rank: rank + 1, Score: score, Total: total}, err
}

func (b *handBoard) Top(ctx context.Context, n int) ([]bench.Entry, error) {
	top, err := b.db.ZRevRangeWithScores(ctx, b.key, 0, int64(n-1)).Result()
	if err != nil {
		return nil, err
	}
	entries := make([]bench.Entry, len(top))
	for i, z := range top {
		member, _ := z.Member.(string)
		entries[i] = bench.Entry{Member: member, Score: z.Score}
	}
	return entries, nil
}

func (b *handBoard) Fill(ctx context.Context, n int, entry func(int) bench.Entry) error {
	return fill(ctx, b.db, b.key, n, entry)
}

// fill writes a board's sorted set without the library that is measured.
func fill(ctx context.Context, db redis.Cmdable, key string, n int, entry func(int) bench.Entry) error {
	const batch = 1000
	for i := 0; i < n; i += batch {
		var zs []redis.Z
		for k := i; k < min(i+batch, n); k++ {
			e := entry(k)
			zs = append(zs, redis.Z{Score: e.Score, Member: e.Member})
		}
		if err := db.ZAdd(ctx, key, zs...).Err(); err != nil {
			return err
		}
	}
	return nil
}
