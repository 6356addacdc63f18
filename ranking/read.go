package ranking

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Get answers where the member stands: rank, score, and how many members there are. ErrNotFound if it is not on the board;
// Total is right even then.
func (b *Leaderboard) Get(ctx context.Context, member string) (Standing, error) {
	if err := checkMember(member); err != nil {
		return Standing{}, b.wrap("get", err)
	}
	get := b.newStanding(ctx, member)
	_, _ = b.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		_ = p.Process(ctx, get.score)
		return get.queue(ctx, p)
	})
	s, err := get.result(member)
	if err != nil {
		return s, b.wrap("get", err)
	}
	return s, nil
}

// Top answers the n best, best first; fewer if there are fewer. None for n < 1.
func (b *Leaderboard) Top(ctx context.Context, n int) ([]Entry, error) {
	entries, err := b.rows(ctx, 1, int64(n))
	if err != nil {
		return nil, b.wrap("top", err)
	}
	return entries, nil
}

// Range answers those at the positions from to to, both included; 1 is the first. It ends where the board ends, and is
// empty if to < from. A from below 1 is an error.
func (b *Leaderboard) Range(ctx context.Context, from, to int64) ([]Entry, error) {
	if from < 1 {
		return nil, b.wrap("range", fmt.Errorf("from is %d, and positions begin with 1", from))
	}
	entries, err := b.rows(ctx, from, to)
	if err != nil {
		return nil, b.wrap("range", err)
	}
	return entries, nil
}

// Count answers how many members there are.
func (b *Leaderboard) Count(ctx context.Context) (int64, error) {
	cmd := redis.NewIntCmd(ctx, "zcard", b.boxed)
	_ = b.client.Process(ctx, cmd)
	if err := cmd.Err(); err != nil {
		return 0, b.wrap("count", err)
	}
	return cmd.Val(), nil
}

func (b *Leaderboard) rows(ctx context.Context, from, to int64) ([]Entry, error) {
	if to < from {
		return nil, nil
	}
	cmd := redis.NewZSliceCmd(ctx, rangeCommand[b.order], b.boxed, from-1, to-1, "withscores")
	_ = b.client.Process(ctx, cmd)
	if err := cmd.Err(); err != nil {
		return nil, err
	}
	entries := make([]Entry, len(cmd.Val()))
	for i, z := range cmd.Val() {
		entries[i] = Entry{Rank: from + int64(i), Member: z.Member.(string), Score: z.Score}
	}
	return entries, nil
}

// standingCmds are the commands that ask where a member stands, to be sent in one pipeline.
type standingCmds struct {
	score *redis.FloatCmd // not sent where the score is known
	rank  *redis.IntCmd
	total *redis.IntCmd
}

// newStanding takes the member boxed, as other commands of the pipeline share it, and gives its commands one array of
// arguments: fewer allocations.
func (b *Leaderboard) newStanding(ctx context.Context, member any) *standingCmds {
	args := []any{"zscore", b.boxed, member, rankCommand[b.order], b.boxed, member, "zcard", b.boxed}
	return &standingCmds{
		score: redis.NewFloatCmd(ctx, args[0:3:3]...),
		rank:  redis.NewIntCmd(ctx, args[3:6:6]...),
		total: redis.NewIntCmd(ctx, args[6:8:8]...),
	}
}

// queue adds the commands that follow a write, or the score.
func (c *standingCmds) queue(ctx context.Context, p redis.Pipeliner) error {
	_ = p.Process(ctx, c.rank)
	return p.Process(ctx, c.total)
}

// result reads every command's own error: the one that a pipeline returns may be another's redis.Nil.
func (c *standingCmds) result(member string) (Standing, error) {
	s := Standing{Entry: Entry{Member: member}}
	for _, cmd := range [...]redis.Cmder{c.total, c.rank, c.score} {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return Standing{}, err
		}
	}
	s.Total = c.total.Val()
	if c.rank.Err() != nil || c.score.Err() != nil {
		return s, ErrNotFound
	}
	s.Rank, s.Score = c.rank.Val()+1, c.score.Val()
	return s, nil
}
