package ranking

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"

	"github.com/redispatterns/redispatterns/internal/rediskey"
	"github.com/redispatterns/redispatterns/internal/script"
)

//go:embed merge.lua
var mergeSource string

var mergeOnce = script.New(mergeSource).Once()

const mergeTries = 4

// Aggregate says which score a member has in a union of boards.
type Aggregate uint8

const (
	Sum Aggregate = iota
	Min
	Max
)

// Merge makes b the union of boards; b's own scores count only if b is among them. On a Redis Cluster all must share a
// slot, as the windows of one name do, or boards with the same {tag} in their names; others are ErrUnsupported, wherever
// Redis runs. So are boards with Ties EarliestFirst, whose scores hold times, and boards without Integers into one with it.
// A window that takes no scores now is ErrWindowClosed.
//
// It reads every member of every board and holds Redis up for that time, which is about what SetMany takes to write the
// union: it is made for the nightly job, not for a request, and beyond a million members for a client with a longer
// ReadTimeout than go-redis' five seconds. When that is over the error is ErrUnknown: Redis goes on, and nothing is sent
// again, as every repetition would hold it up anew. A Sum that b itself is part of would count twice, so any lost reply is
// ErrUnknown there; every other Merge may simply be repeated.
func (b *Leaderboard) Merge(ctx context.Context, agg Aggregate, boards ...*Leaderboard) error {
	if err := b.merge(ctx, agg, boards); err != nil {
		return b.wrap("merge", err)
	}
	return nil
}

func (b *Leaderboard) merge(ctx context.Context, agg Aggregate, boards []*Leaderboard) error {
	switch {
	case b.shards != nil:
		return errSharded
	case agg > Max:
		return fmt.Errorf("aggregate is %d, which is none", agg)
	case len(boards) == 0:
		return errors.New("no boards are given")
	case b.options.Ties == EarliestFirst:
		return fmt.Errorf("%w: its Ties are EarliestFirst", ErrUnsupported)
	}
	keys := []string{b.key, b.companion(unionSuffix), b.companion(scoresSuffix)}
	repeatable := true
	for i, board := range boards {
		switch {
		case board == nil:
			return fmt.Errorf("board %d is nil", i)
		case board.shards != nil:
			return fmt.Errorf("%w: %q is sharded", ErrUnsupported, board.key)
		case board.options.Ties == EarliestFirst:
			return fmt.Errorf("%w: the Ties of %q are EarliestFirst", ErrUnsupported, board.key)
		case b.options.Integers && !board.options.Integers:
			return fmt.Errorf("%w: the scores of %q need not be integers", ErrUnsupported, board.key)
		case rediskey.Slot(board.key) != rediskey.Slot(b.key):
			return fmt.Errorf("%w: %q lies in another slot", ErrUnsupported, board.key)
		case board.key == b.key && agg == Sum:
			repeatable = false
		}
		keys = append(keys, board.key)
	}
	name := [...]string{Sum: "SUM", Min: "MIN", Max: "MAX"}[agg]
	var err error
	for try := 1; ; try++ {
		_, err = mergeOnce.Int(ctx, b.client, keys, name, b.settings.order, b.ties, b.limit, b.size, b.ttl, b.opens, b.closes)
		if !repeatable || !script.Unknown(err) || timedOut(err) || ctx.Err() != nil || try == mergeTries {
			return fromScript(err)
		}
	}
}

// timedOut says whether Redis may still be at it.
func timedOut(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
