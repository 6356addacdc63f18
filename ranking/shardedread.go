package ranking

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// find asks the member's shard for its score, and all for their size.
func (s *sharded) find(ctx context.Context, b *Leaderboard, member string) (Standing, error) {
	score := redis.NewFloatCmd(ctx, "zscore", s.home(member).boxed, member)
	cards, record := make([]*redis.IntCmd, len(s.homes)), s.recorded(ctx)
	_, _ = b.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		_ = p.Process(ctx, score)
		for i, home := range s.homes {
			cards[i] = redis.NewIntCmd(ctx, "zcard", home.boxed)
			_ = p.Process(ctx, cards[i])
		}
		return p.Process(ctx, record)
	})
	st := Standing{Entry: Entry{Member: member}}
	var err error
	if st.Total, err = sum(cards); err != nil {
		return Standing{}, err
	}
	if err := s.verify(record); err != nil {
		return Standing{}, err
	}
	switch err := score.Err(); {
	case errors.Is(err, redis.Nil):
		return st, ErrNotFound
	case err != nil:
		return Standing{}, err
	}
	st.Score = score.Val()
	return st, nil
}

func (s *sharded) get(ctx context.Context, b *Leaderboard, member string) (Standing, error) {
	st, err := s.find(ctx, b, member)
	if err != nil {
		return st, err
	}
	better, err := s.between(ctx, b.betterThan(formatBound(st.Score))...)
	if err != nil {
		return Standing{}, err
	}
	st.Rank = better + 1
	return st, nil
}

// betterThan are the bounds of ZCOUNT.
func (b *Leaderboard) betterThan(score string) []any {
	if b.options.Order == Descending {
		return []any{"(" + score, "+inf"}
	}
	return []any{"-inf", "(" + score}
}

// compare orders rows as Redis would if they were on one key.
func (b *Leaderboard) compare(x, y Entry) int {
	c := cmp.Or(cmp.Compare(x.Score, y.Score), strings.Compare(x.Member, y.Member))
	if b.options.Order == Descending {
		return -c
	}
	return c
}

// top merges the depth best of every shard.
func (s *sharded) top(ctx context.Context, b *Leaderboard, depth int64) ([]Entry, int64, error) {
	if depth > maxDepth {
		return nil, 0, fmt.Errorf("%w: position %d of a sharded board, beyond %d", ErrTooDeep, depth, maxDepth)
	}
	if depth < 1 {
		return nil, 0, nil
	}
	entries, total, err := s.merge(ctx, b, nil, 1, func(home *Leaderboard) []any {
		return []any{rangeCommand[b.options.Order], home.boxed, 0, depth - 1, "withscores"}
	})
	return entries[:min(depth, int64(len(entries)))], total, err
}

func (s *sharded) page(ctx context.Context, b *Leaderboard, from, size int64) (rows, error) {
	if size > maxDepth-from {
		return rows{}, fmt.Errorf("%w: position %d of a sharded board, beyond %d", ErrTooDeep, from+size, maxDepth)
	}
	entries, total, err := s.top(ctx, b, from+size)
	return rows{entries: entries[min(from, int64(len(entries))):], total: total}, err
}

// merge asks every shard for rows and puts them in order; with better, the bounds of what comes before the first of them,
// the ranks are right. It answers all shards' size too.
func (s *sharded) merge(ctx context.Context, b *Leaderboard, better []any, first int64, rows func(home *Leaderboard) []any) ([]Entry, int64, error) {
	var all []*redis.ZSliceCmd
	var cards, before []*redis.IntCmd
	record := s.recorded(ctx)
	_, _ = b.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, home := range s.homes {
			cmd, card := redis.NewZSliceCmd(ctx, rows(home)...), redis.NewIntCmd(ctx, "zcard", home.boxed)
			all, cards = append(all, cmd), append(cards, card)
			_ = p.Process(ctx, cmd)
			_ = p.Process(ctx, card)
			if better != nil {
				count := redis.NewIntCmd(ctx, append([]any{"zcount", home.boxed}, better...)...)
				before = append(before, count)
				_ = p.Process(ctx, count)
			}
		}
		return p.Process(ctx, record)
	})
	total, err := sum(cards)
	if err == nil {
		err = s.verify(record)
	}
	if err != nil {
		return nil, 0, err
	}
	n, err := sum(before)
	if err != nil {
		return nil, 0, err
	}
	var entries []Entry
	for _, cmd := range all {
		if err := cmd.Err(); err != nil {
			return nil, 0, err
		}
		for _, z := range cmd.Val() {
			member, _ := z.Member.(string)
			entries = append(entries, Entry{Member: member, Score: z.Score})
		}
	}
	b.rank(entries, first+n)
	return entries, total, nil
}

// rank sorts rows and ranks them, the first of which has this rank.
func (b *Leaderboard) rank(entries []Entry, first int64) {
	slices.SortFunc(entries, b.compare)
	before := Entry{Score: math.NaN()}
	for i := range entries {
		entries[i].Rank = Competition.rank(before, entries[i].Score, first+int64(i))
		before = entries[i]
	}
}

// between sums a ZCOUNT over the shards.
func (s *sharded) between(ctx context.Context, bounds ...any) (int64, error) {
	counts, record := make([]*redis.IntCmd, len(s.homes)), s.recorded(ctx)
	_, _ = s.homes[0].client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, home := range s.homes {
			counts[i] = redis.NewIntCmd(ctx, append([]any{"zcount", home.boxed}, bounds...)...)
			_ = p.Process(ctx, counts[i])
		}
		return p.Process(ctx, record)
	})
	n, err := sum(counts)
	if err != nil {
		return 0, err
	}
	return n, s.verify(record)
}

// all merges the shards' own All.
func (s *sharded) all(ctx context.Context, b *Leaderboard) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		type head struct {
			Entry
			next func() (Entry, error, bool)
		}
		if err := s.check(ctx, b); err != nil {
			yield(Entry{}, b.wrap("all", err))
			return
		}
		var heads []head
		for _, home := range s.homes {
			next, stop := iter.Pull2(home.All(ctx))
			defer stop()
			e, err, ok := next()
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if ok {
				heads = append(heads, head{e, next})
			}
		}
		before, position := Entry{Score: math.NaN()}, int64(1)
		for ; len(heads) > 0; position++ {
			i := 0
			for k := range heads {
				if b.compare(heads[k].Entry, heads[i].Entry) < 0 {
					i = k
				}
			}
			before = Entry{Rank: Competition.rank(before, heads[i].Score, position), Member: heads[i].Member, Score: heads[i].Score}
			if !yield(before, nil) {
				return
			}
			e, err, ok := heads[i].next()
			switch {
			case err != nil:
				yield(Entry{}, err)
				return
			case ok:
				heads[i].Entry = e
			default:
				heads = slices.Delete(heads, i, i+1)
			}
		}
	}
}

// around looks for the member, then for what lies beside it on every shard, and then for the rank of the first of that.
func (s *sharded) around(ctx context.Context, b *Leaderboard, member string, above, below int) ([]Entry, error) {
	if above+below >= maxDepth {
		return nil, fmt.Errorf("%w: %d neighbours on a sharded board, beyond %d", ErrTooDeep, above+below, maxDepth-1)
	}
	const tries = 3
	for range tries {
		st, err := s.find(ctx, b, member)
		if err != nil {
			return nil, err
		}
		near, position, err := s.beside(ctx, b, st.Entry, int64(above+below))
		if err != nil {
			return nil, err
		}
		at := int64(slices.IndexFunc(near, func(e Entry) bool { return e.Member == member && e.Score == st.Score }))
		if at < 0 {
			continue // it has moved since
		}
		from := max(0, min(position-int64(above), st.Total-1-int64(above+below)))
		start := max(0, at-(position-from))
		entries := near[start:min(start+int64(above+below)+1, int64(len(near)))]
		better, err := s.between(ctx, b.betterThan(formatBound(entries[0].Score))...)
		if err != nil {
			return nil, err
		}
		entries[0].Rank = better + 1
		for i := range entries[1:] {
			entries[i+1].Rank = Competition.rank(entries[i], entries[i+1].Score, from+int64(i)+2)
		}
		return entries, nil
	}
	return nil, errors.New("the member moved at every try")
}

// beside answers the k rows before and after the member on every shard, in order, and how many are before it on all.
func (s *sharded) beside(ctx context.Context, b *Leaderboard, member Entry, k int64) (near []Entry, position int64, err error) {
	cmds := make([]*redis.StringSliceCmd, len(s.homes))
	_, _ = b.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, home := range s.homes { // not by its hash, as a pipeline is not sent again where a script is not known
			cmds[i] = redis.NewStringSliceCmd(ctx, "eval", rowsSource, 1, home.boxed,
				home.settings.order, home.ties, "", "beside", member.Member, formatBound(member.Score), k)
			_ = p.Process(ctx, cmds[i])
		}
		return nil
	})
	for i, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			return nil, 0, err
		}
		r, err := s.homes[i].parseRows(cmd.Val())
		if err != nil {
			return nil, 0, err
		}
		position += r.from
		for _, e := range r.entries {
			if b.compare(e, member) < 0 {
				position++
			}
		}
		near = append(near, r.entries...)
	}
	slices.SortFunc(near, b.compare)
	return near, position, nil
}

// byScore merges what every shard has between two bounds, best first.
func (s *sharded) byScore(ctx context.Context, b *Leaderboard, first, last string, limit int) ([]Entry, error) {
	if limit > maxDepth {
		return nil, fmt.Errorf("%w: %d rows of a sharded board, beyond %d", ErrTooDeep, limit, maxDepth)
	}
	command := "zrevrangebyscore"
	if b.options.Order == Ascending {
		command = "zrangebyscore"
	}
	entries, _, err := s.merge(ctx, b, b.betterThan(first), 1, func(home *Leaderboard) []any {
		return []any{command, home.boxed, first, last, "withscores", "limit", 0, limit}
	})
	return entries[:min(limit, len(entries))], err
}
