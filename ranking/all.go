package ranking

import (
	"context"
	"iter"
)

const batchSize = 500 // members in one round trip of All

// All yields every member, best first, 500 in a round trip. It ends at the first error.
//
// It goes on after the member it yielded last, wherever that would be now, rather than at a position: a member whose score
// does not change meanwhile is yielded exactly once, whatever others do. One that moves past the place where All is can be
// yielded twice, or not at all. Ranks are those at the time of the round trip.
func (b *Leaderboard) All(ctx context.Context) iter.Seq2[Entry, error] {
	if b.shards != nil {
		return b.shards.all(ctx, b)
	}
	return func(yield func(Entry, error) bool) {
		rows, err := b.rows(ctx, "range", 0, batchSize-1)
		for {
			if err != nil {
				yield(Entry{}, b.wrap("all", err))
				return
			}
			for _, e := range rows.entries {
				if !yield(e, nil) {
					return
				}
			}
			n := len(rows.entries)
			if n < batchSize {
				return
			}
			rows, err = b.rows(ctx, "after", rows.entries[n-1].Member, rows.last, batchSize)
		}
	}
}
