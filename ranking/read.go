package ranking

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/script"
)

//go:embed get.lua
var getSource string

var getScript = script.New(getSource)

// Get answers where the member stands: rank, score, and how many members there are. ErrNotFound if it is not on the board;
// Total is right even then.
func (b *Leaderboard) Get(ctx context.Context, member string) (Standing, error) {
	s, err := b.get(ctx, member)
	if err != nil {
		return s, b.wrap("get", err)
	}
	return s, nil
}

func (b *Leaderboard) get(ctx context.Context, member string) (Standing, error) {
	if member == "" {
		return Standing{}, errEmptyMember
	}
	if b.shards != nil {
		return b.shards.get(ctx, b, member)
	}
	if b.options.Ties == Ordinal && !b.merges {
		m, args := any(member), make(arguments, 0, 8)
		get := b.newStanding(ctx, &args, args.next(rankCommand[b.options.Order], b.boxed, m))
		get.score = b.newScore(ctx, &args, m)
		get.send(ctx, b.client)
		return get.result(member)
	}
	reply, err := b.ask(ctx, getScript, 3, member)
	if err != nil {
		return Standing{}, err
	}
	var s Standing
	if s.Total, err = strconv.ParseInt(reply[0], 10, 64); err != nil {
		return Standing{}, err
	}
	s.Entry, err = b.entry(member, reply[1], reply[2])
	return s, err
}

// GetMany answers where members stand on the whole board, best first: a player's friends, say. Those that are not on the
// board are left out, and each appears once however often it is given.
func (b *Leaderboard) GetMany(ctx context.Context, members ...string) ([]Entry, error) {
	entries, err := b.getMany(ctx, members)
	if err != nil {
		return nil, b.wrap("get many", err)
	}
	return entries, nil
}

func (b *Leaderboard) getMany(ctx context.Context, members []string) ([]Entry, error) {
	if len(members) == 0 {
		return nil, nil
	}
	if b.shards != nil {
		return nil, errSharded
	}
	if slices.Contains(members, "") {
		return nil, errEmptyMember
	}
	members = slices.Clone(members)
	slices.Sort(members)
	members = slices.Compact(members)
	args := make([]any, len(members))
	for i, member := range members {
		args[i] = member
	}
	reply, err := b.ask(ctx, getScript, 1+2*len(members), args...)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(members))
	for i, member := range members {
		e, err := b.entry(member, reply[1+2*i], reply[2+2*i])
		switch {
		case errors.Is(err, ErrNotFound):
			continue
		case err != nil:
			return nil, err
		}
		entries = append(entries, e)
	}
	if b.options.Order == Descending {
		slices.Reverse(entries) // names descend among equals
	}
	slices.SortStableFunc(entries, func(x, y Entry) int { return cmp.Compare(x.Rank, y.Rank) })
	return entries, nil
}

// Top answers the n best, best first; fewer if there are fewer. None for n < 1.
func (b *Leaderboard) Top(ctx context.Context, n int) ([]Entry, error) {
	var entries []Entry
	var err error
	if b.shards != nil {
		entries, _, err = b.shards.top(ctx, b, int64(n))
	} else {
		entries, err = b.between(ctx, 1, int64(n))
	}
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
	entries, err := b.between(ctx, from, to)
	if err != nil {
		return nil, b.wrap("range", err)
	}
	return entries, nil
}

// between needs no script where ranks are positions, or begin with the first.
func (b *Leaderboard) between(ctx context.Context, from, to int64) ([]Entry, error) {
	if b.shards != nil {
		return nil, errSharded
	}
	if to < from {
		return nil, nil
	}
	t := b.options.Ties
	if t == EarliestFirst || from > 1 && t != Ordinal {
		rows, err := b.rows(ctx, "range", from-1, to-1)
		return rows.entries, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cmd := redis.NewZSliceCmd(ctx, rangeCommand[b.options.Order], b.boxed, from-1, to-1, "withscores")
	_ = b.client.Process(ctx, cmd)
	if err := cmd.Err(); err != nil {
		return nil, err
	}
	entries := make([]Entry, len(cmd.Val()))
	before := Entry{Score: math.NaN()} // equals none
	for i, z := range cmd.Val() {
		member, _ := z.Member.(string)
		before = Entry{Rank: t.rank(before, z.Score, from+int64(i)), Member: member, Score: z.Score}
		entries[i] = before
	}
	return entries, nil
}

// Page answers a page of size members, how many members there are, and how many pages. Page 1 is the first; one past the
// end has no entries. A page or size below 1 is an error.
func (b *Leaderboard) Page(ctx context.Context, page, size int) (Page, error) {
	p, err := b.page(ctx, page, size)
	if err != nil {
		return Page{}, b.wrap("page", err)
	}
	return p, nil
}

func (b *Leaderboard) page(ctx context.Context, page, size int) (Page, error) {
	switch {
	case page < 1:
		return Page{}, fmt.Errorf("page is %d, and pages begin with 1", page)
	case size < 1:
		return Page{}, fmt.Errorf("size is %d, below 1", size)
	}
	from := int64(math.MaxInt32) * math.MaxInt32 // past the end of any board
	if int64(page-1) <= from/int64(size) {
		from = int64(page-1) * int64(size)
	}
	var r rows
	var err error
	if b.shards != nil {
		r, err = b.shards.page(ctx, b, from, int64(size))
	} else {
		r, err = b.rows(ctx, "range", from, from+min(int64(size), math.MaxInt32)-1)
	}
	if err != nil {
		return Page{}, err
	}
	pages := r.total / int64(size)
	if r.total%int64(size) > 0 {
		pages++
	}
	return Page{Entries: r.entries, Total: r.total, Pages: int(pages)}, nil
}

// Around answers the member with its neighbours, best first: as many above it and below it as asked for, or more on one
// side where the board ends on the other, so that there are above + 1 + below if the board has as many. ErrNotFound if the
// member is not on the board; an above or below under 0 is an error.
func (b *Leaderboard) Around(ctx context.Context, member string, above, below int) ([]Entry, error) {
	var err error
	switch {
	case member == "":
		err = errEmptyMember
	case above < 0 || below < 0:
		err = fmt.Errorf("above is %d and below is %d, and neither may be under 0", above, below)
	}
	if err != nil {
		return nil, b.wrap("around", err)
	}
	above, below = min(above, math.MaxInt32), min(below, math.MaxInt32)
	if b.shards != nil {
		entries, err := b.shards.around(ctx, b, member, above, below)
		if err != nil {
			return nil, b.wrap("around", err)
		}
		return entries, nil
	}
	rows, err := b.rows(ctx, "around", member, above, below)
	if err != nil {
		return nil, b.wrap("around", err)
	}
	return rows.entries, nil
}

// ByScore answers members with scores from min to max, both included, best first, and at most limit of them. Infinite
// bounds are none. A limit below 1 is an error, NaN is ErrScore, and min > max is empty.
func (b *Leaderboard) ByScore(ctx context.Context, min, max float64, limit int) ([]Entry, error) {
	low, high, err := b.bounds(min, max)
	if err == nil && limit < 1 {
		err = fmt.Errorf("limit is %d, below 1", limit)
	}
	if err != nil {
		return nil, b.wrap("by score", err)
	}
	if b.options.Order == Descending {
		low, high = high, low
	}
	if b.shards != nil {
		entries, err := b.shards.byScore(ctx, b, low, high, limit)
		if err != nil {
			return nil, b.wrap("by score", err)
		}
		return entries, nil
	}
	rows, err := b.rows(ctx, "score", low, high, limit)
	if err != nil {
		return nil, b.wrap("by score", err)
	}
	return rows.entries, nil
}

// Count answers how many members there are.
func (b *Leaderboard) Count(ctx context.Context) (int64, error) {
	n, err := b.countBetween(ctx, "-inf", "+inf")
	if err != nil {
		return 0, b.wrap("count", err)
	}
	return n, nil
}

// CountBetween answers how many members have scores from min to max, both included. Infinite bounds are none; NaN is
// ErrScore.
func (b *Leaderboard) CountBetween(ctx context.Context, min, max float64) (int64, error) {
	low, high, err := b.bounds(min, max)
	if err != nil {
		return 0, b.wrap("count between", err)
	}
	n, err := b.countBetween(ctx, low, high)
	if err != nil {
		return 0, b.wrap("count between", err)
	}
	return n, nil
}

func (b *Leaderboard) countBetween(ctx context.Context, low, high string) (int64, error) {
	switch {
	case b.shards != nil:
		return b.shards.between(ctx, low, high)
	case low == "-inf" && high == "+inf":
		return b.int(ctx, "zcard", b.boxed)
	}
	return b.int(ctx, "zcount", b.boxed, low, high)
}

// bounds are what is stored of the scores from low to high.
func (b *Leaderboard) bounds(low, high float64) (string, string, error) {
	if math.IsNaN(low) || math.IsNaN(high) {
		return "", "", fmt.Errorf("%w: a bound is NaN", ErrScore)
	}
	return formatBound(b.least(low)), formatBound(b.most(high)), nil
}

// formatBound writes infinities with their sign, which not every server takes for granted.
func formatBound(score float64) string {
	switch {
	case math.IsInf(score, 1):
		return "+inf"
	case math.IsInf(score, -1):
		return "-inf"
	}
	return formatScore(score)
}
