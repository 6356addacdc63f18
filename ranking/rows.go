package ranking

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/script"
)

//go:embed rows.lua
var rowsSource string

var rowsScript = script.New(rowsSource)

// ask runs a reading script, which begins with the same keys and arguments in all of them.
func (b *Leaderboard) ask(ctx context.Context, s *script.Script, n int, args ...any) ([]string, error) {
	var few [8]any // which need not be allocated
	all := append(append(few[:0], b.settings.order, b.ties, b.record), args...)
	reply, err := s.StringsOf(ctx, b.client, n, b.reads, all...)
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
	var few [4]any
	reply, err := b.ask(ctx, rowsScript, script.AnyLength, append(append(few[:0], which), args...)...)
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

// arguments are those of all commands of a pipeline, in one array: fewer allocations.
type arguments []any

// next adds those of a command.
func (a *arguments) next(of ...any) []any {
	from := len(*a)
	*a = append(*a, of...)
	return (*a)[from:len(*a):len(*a)]
}

// standingCmds are the commands that ask where a member stands, to be sent in one pipeline.
type standingCmds struct {
	score *redis.FloatCmd // nil where the score is known
	rank  *redis.IntCmd
	total *redis.IntCmd
}

// newStanding asks for the rank by a command that answers how many are better.
func (b *Leaderboard) newStanding(ctx context.Context, args *arguments, better []any) standingCmds {
	return standingCmds{rank: redis.NewIntCmd(ctx, better...), total: redis.NewIntCmd(ctx, args.next("zcard", b.boxed)...)}
}

func (b *Leaderboard) newScore(ctx context.Context, args *arguments, member any) *redis.FloatCmd {
	return redis.NewFloatCmd(ctx, args.next("zscore", b.boxed, member)...)
}

// send runs other commands and then these in one round trip.
func (c standingCmds) send(ctx context.Context, client redispatterns.Client, others ...redis.Cmder) {
	_, _ = client.Pipelined(ctx, func(p redis.Pipeliner) error {
		_ = p.BatchProcess(ctx, others...)
		if c.score != nil {
			return p.BatchProcess(ctx, c.score, c.rank, c.total)
		}
		return p.BatchProcess(ctx, c.rank, c.total)
	})
}

// result reads every command's own error: the one that a pipeline returns may be another's redis.Nil.
func (c standingCmds) result(member string) (Standing, error) {
	s := Standing{Entry: Entry{Member: member}}
	found := true
	for _, err := range [...]error{c.total.Err(), c.rank.Err(), c.scoreErr()} {
		if err != nil && !errors.Is(err, redis.Nil) {
			return Standing{}, err
		}
		found = found && err == nil
	}
	s.Total = c.total.Val()
	if !found {
		return s, ErrNotFound
	}
	s.Rank = c.rank.Val() + 1
	if c.score != nil {
		s.Score = c.score.Val()
	}
	return s, nil
}

func (c standingCmds) scoreErr() error {
	if c.score == nil {
		return nil
	}
	return c.score.Err()
}
