package ranking

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/script"
)

var (
	//go:embed remove.lua
	removeSource string
	removeScript = script.New(removeSource)

	//go:embed clear.lua
	clearSource string
	clearScript = script.New(clearSource)
)

const (
	chunkSize = 1000   // members in one command, so that none of them holds Redis up for long
	trimSize  = 50_000 // members that one command removes
)

// SetMany is Set of many members without their standings, a thousand in a round trip; of a member given twice, the last
// score counts. It answers how many members are new or have another score than before. If a round trip fails, those before
// it are applied, and changed counts them.
func (b *Leaderboard) SetMany(ctx context.Context, scores ...MemberScore) (changed int64, err error) {
	return b.many(ctx, set, "set many", scores)
}

// BestMany is Best of many members without their standings, a thousand in a round trip. It answers how many members are new
// or better than before. If a round trip fails, those before it are applied, and changed counts them.
func (b *Leaderboard) BestMany(ctx context.Context, scores ...MemberScore) (changed int64, err error) {
	return b.many(ctx, best, "best many", scores)
}

// many checks all scores before it sends any.
func (b *Leaderboard) many(ctx context.Context, v verb, op string, scores []MemberScore) (changed int64, err error) {
	kept, at := make([]MemberScore, 0, len(scores)), make(map[string]int, len(scores))
	for _, s := range scores {
		if _, err := b.check(s.Member, "score of "+strconv.Quote(s.Member), s.Score); err != nil {
			return 0, b.wrap(op, err)
		}
		k, again := at[s.Member]
		switch {
		case !again:
			at[s.Member] = len(kept)
			kept = append(kept, s)
		case v == set || b.better(s.Score, kept[k].Score):
			kept[k] = s
		}
	}
	if b.shards != nil {
		changed, err = b.shards.many(ctx, b, v, kept)
		if err != nil {
			return changed, b.wrap(op, err)
		}
		return changed, nil
	}
	for chunk := range slices.Chunk(kept, chunkSize) {
		n, err := b.putMany(ctx, v, chunk)
		if err != nil {
			return changed, b.wrap(op, err)
		}
		changed += n
	}
	return changed, nil
}

func (b *Leaderboard) better(x, y float64) bool {
	if b.options.Order == Descending {
		return x > y
	}
	return x < y
}

func (b *Leaderboard) putMany(ctx context.Context, v verb, scores []MemberScore) (int64, error) {
	pairs := make([]any, 0, 4+2*len(scores))
	if b.plain() {
		pairs = append(pairs, "zadd", b.boxed, "ch")
		if v == best {
			pairs = append(pairs, betterFlag[b.options.Order])
		}
		for _, s := range scores {
			pairs = append(pairs, formatScore(s.Score), s.Member)
		}
		return b.int(ctx, pairs...)
	}
	for _, s := range scores {
		pairs = append(pairs, s.Member, formatScore(s.Score))
	}
	n := 1
	if len(scores) == 1 {
		n = 4 // one is answered with its standing, and whether it changed comes last
	}
	reply, err := b.script(ctx, []*Leaderboard{b}, v, "", n, pairs...)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(reply[n-1], 10, 64)
}

// Remove takes members off the board and answers how many of them were on it; when a reply was lost and the command was
// sent again, that can be too few. Those that are not there are no error. It sends a thousand members at a time.
func (b *Leaderboard) Remove(ctx context.Context, members ...string) (int64, error) {
	if slices.Contains(members, "") {
		return 0, b.wrap("remove", errEmptyMember)
	}
	var removed int64
	for chunk := range slices.Chunk(members, chunkSize) {
		n, err := b.remove(ctx, chunk)
		if err != nil {
			return removed, b.wrap("remove", err)
		}
		removed += n
	}
	return removed, nil
}

func (b *Leaderboard) remove(ctx context.Context, members []string) (int64, error) {
	if b.shards != nil {
		return b.shards.remove(ctx, b, members)
	}
	args := make([]any, 0, 3+len(members))
	if b.options.Ties == Dense {
		args = append(args, b.settings.order, "", "")
	} else {
		args = append(args, "zrem", b.boxed)
	}
	for _, member := range members {
		args = append(args, member)
	}
	if b.options.Ties == Dense {
		return removeScript.Int(ctx, b.client, []string{b.key, b.scores()}, args...)
	}
	return b.int(ctx, args...)
}

// Trim removes all but the keep best, and answers how many it removed, 50 000 in a round trip; when a reply was lost and the
// command was sent again, that can be too few. Where members tie at the cut, Redis' order decides. A keep below 1 is an error;
// see Clear. If a round trip fails, those before it are applied.
func (b *Leaderboard) Trim(ctx context.Context, keep int64) (int64, error) {
	if keep < 1 {
		return 0, b.wrap("trim", fmt.Errorf("keep is %d, below 1", keep))
	}
	n, err := b.trim(ctx, keep)
	if err != nil {
		return n, b.wrap("trim", err)
	}
	return n, nil
}

func (b *Leaderboard) trim(ctx context.Context, keep int64) (removed int64, err error) {
	if b.shards != nil {
		return 0, errSharded
	}
	for {
		n, err := removeScript.Int(ctx, b.client, []string{b.key, b.scores()}, b.settings.order, keep, trimSize)
		if removed += n; err != nil || n < trimSize {
			return removed, err
		}
	}
}

// Clear removes the board and everything beside it: its members, and the operations that IncrementOnce remembers, but for
// those of Windows, which all of them share.
func (b *Leaderboard) Clear(ctx context.Context) error {
	if b.shards != nil {
		if err := b.shards.clear(ctx, b); err != nil {
			return b.wrap("clear", err)
		}
		return nil
	}
	keys := []string{b.key, b.companion(scoresSuffix), b.companion(recordSuffix)}
	if !b.shares {
		keys = append(keys, b.memory[:]...)
	}
	if _, err := clearScript.Int(ctx, b.client, keys); err != nil {
		return b.wrap("clear", err)
	}
	return nil
}

// int runs a command that answers an integer.
func (b *Leaderboard) int(ctx context.Context, args ...any) (int64, error) {
	if err := ctx.Err(); err != nil { // which an AutoPipeliner would send
		return 0, err
	}
	cmd := redis.NewIntCmd(ctx, args...)
	_ = b.client.Process(ctx, cmd)
	if err := cmd.Err(); err != nil { // Process of an asynchronous AutoPipeliner returns nil too early
		return 0, err
	}
	return cmd.Val(), nil
}
