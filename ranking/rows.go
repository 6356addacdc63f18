package ranking

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/script"
)

//go:embed rows.lua
var rowsSource string

var rowsScript = script.New(rowsSource)

// ask runs a reading script, which begins with the same keys and arguments in all of them.
func (b *Leaderboard) ask(ctx context.Context, s *script.Script, n int, args ...any) ([]string, error) {
	all := make([]any, 0, 3+len(args))
	all = append(append(all, b.settings.order, b.ties, b.record), args...)
	reply, err := s.Strings(ctx, b.client, n, []string{b.key, b.beside}, all...)
	return reply, fromScript(err)
}

// rows are neighbours on a board.
type rows struct {
	entries []Entry
	total   int64
	from    int64  // the position of the first of them, from 0
	last    string // the score of the last of them, as Redis wrote it
}

func (b *Leaderboard) rows(ctx context.Context, which string, args ...any) (rows, error) {
	reply, err := b.ask(ctx, rowsScript, script.AnyLength, append([]any{which}, args...)...)
	if err != nil {
		return rows{}, err
	}
	return b.parseRows(reply)
}

func (b *Leaderboard) parseRows(reply []string) (rows, error) {
	if len(reply) < 3 || len(reply)%2 == 0 {
		return rows{}, fmt.Errorf("script answered %d values", len(reply))
	}
	var head [3]int64
	var err error
	for i := range head {
		if head[i], err = strconv.ParseInt(reply[i], 10, 64); err != nil {
			return rows{}, err
		}
	}
	r := rows{total: head[0], from: head[1]}
	position, rank := head[1]+1, head[2]
	if reply = reply[3:]; len(reply) == 0 {
		return r, nil
	}
	r.entries = make([]Entry, len(reply)/2)
	for i := range r.entries {
		e := Entry{Rank: rank, Member: reply[2*i]}
		if e.Score, err = b.score(reply[2*i+1]); err != nil {
			return rows{}, err
		}
		if i > 0 {
			e.Rank = b.options.Ties.rank(r.entries[i-1], e.Score, position+int64(i))
		}
		r.entries[i] = e
	}
	r.last = reply[len(reply)-1]
	return r, nil
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
	args := []any{"zscore", b.boxed, member, rankCommand[b.options.Order], b.boxed, member, "zcard", b.boxed}
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
