// Package ranking keeps leaderboards whose ranks are right the moment a score is written: who is first, where a player
// stands, and what an update did to that, each in one round trip.
//
// [New] makes a [Leaderboard]. [Leaderboard.Set] replaces a score, [Leaderboard.Increment] adds to it, and
// [Leaderboard.Best] keeps the better of two, which is what a high score is; each answers the rank, the score and how many
// members there are. Most readers call [Leaderboard.Top] for the head of the list and [Leaderboard.Get] for one member.
//
// A board is one sorted set, ranking:<name>, with members and scores as redis-cli shows them. Ranks begin with 1, and a
// member that is not there is [ErrNotFound], never rank 0 or score 0.
//
// [NewWindows] keeps a board per hour, day, week or month beside the one of all time, and writes to all of them at once.
// [NewSharded] spreads a board that is too large for one node. [Leaderboard.Watch] shows the top as it changes.
//
// # Ties
//
// How equal scores rank is an option: [Ordinal] (1 2 3 4, by name), which is the fastest; [Competition] (1 2 2 4), where a
// rank depends on the score alone, as in sports; [Dense] (1 2 2 3); and [EarliestFirst] (1 2 3 4), where who reached the score
// first is ahead. All reads and all writes of a board agree on every member's rank.
//
// # Scores
//
// Scores are float64, stored and read back bit for bit; a negative zero is stored as 0. NaN and infinities are [ErrScore],
// and so is an Increment whose sum would be infinite, unless another program made the score so. Sums of fractions drift as float64 does (0.1 + 0.2 is not 0.3):
// count in integers, such as cents, where that matters. Integers are exact up to 2^53.
//
// # Failure
//
// Set and Best may be sent again by go-redis when a reply is lost, with the same result. An Increment is sent once: if no
// reply comes, the error is [ErrUnknown]. [Leaderboard.IncrementOnce] names the operation, counts it once however often it is
// sent, and may always be repeated. Redis being down is an error that wraps what go-redis reported.
package ranking

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/rediskey"
	"github.com/redispatterns/redispatterns/internal/script"
)

// Leaderboard is one board. It holds no state but its settings, so any number of processes can use the same board.
// Safe for concurrent use. Ranks begin with 1 everywhere.
type Leaderboard struct {
	client  redispatterns.Client
	key     string
	boxed   any         // key, boxed once rather than at every call
	only    script.Keys // key alone
	reads   script.Keys // key, and the companion that Ties has
	beside  string      // the companion that Ties needs, or key
	memory  [2]string   // of operations, as write.lua takes them
	opens   int64       // when a window opens and closes, in ms; 0 for never
	closes  int64
	shares  bool     // memory, with all windows of its name
	shards  *sharded // nil where one key holds all
	merges  bool     // the client sends the commands of many calls in one round trip, but no pipelines
	options Options
	settings
	packing
}

// New makes a Leaderboard of this name. It does no I/O. The caller keeps the client and closes it.
//
// A name may hold anything but what Redis Cluster cannot keep companion keys beside: a "}" without a {tag} before it, and
// an ending such as "~d", which is how companion keys end.
func New(client redispatterns.Client, name string, opts *Options) (*Leaderboard, error) {
	b, err := newBoard(client, name, opts)
	if err == nil {
		err = b.pack()
	}
	if err != nil {
		return nil, fmt.Errorf("ranking: new %q: %w", name, err)
	}
	return b, nil
}

func newBoard(client redispatterns.Client, name string, opts *Options) (*Leaderboard, error) {
	if client == nil {
		return nil, errors.New("the client is nil")
	}
	if name == "" {
		return nil, errors.New("the name is empty")
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Earliest != nil {
		e := *o.Earliest
		o.Earliest = &e
	}
	if err := o.complete(); err != nil {
		return nil, err
	}
	b := &Leaderboard{client: client, key: o.Prefix + name, options: o, settings: o.settings()}
	if err := rediskey.Check(b.key); err != nil {
		return nil, err
	}
	_, b.merges = client.(*redis.AutoPipeliner)
	b.setKeys()
	return b, nil
}

// pack prepares what Ties EarliestFirst needs.
func (b *Leaderboard) pack() (err error) {
	if b.options.Ties == EarliestFirst {
		b.packing, err = b.options.Earliest.packing()
	}
	return err
}

// The companion keys of a board.
const (
	scoresSuffix = "~r" // Dense: each score once
	recordSuffix = "~e" // EarliestFirst: how scores are packed
	unionSuffix  = "~u" // Merge, while it runs
)

var memorySuffix = [...]string{"~o0", "~o1"} // IncrementOnce: the operations of even and of odd periods

func (b *Leaderboard) companion(suffix string) string { return rediskey.Companion(b.key, suffix) }

// scores is the companion that removals take care of, or the board again.
func (b *Leaderboard) scores() string {
	if b.options.Ties == Dense {
		return b.beside
	}
	return b.key
}

// setKeys derives all keys from b.key.
func (b *Leaderboard) setKeys() {
	b.boxed = b.key
	b.only = script.Keys{b.boxed}
	b.reads = b.only
	b.beside = b.key
	switch b.options.Ties {
	case Dense:
		b.beside = b.companion(scoresSuffix)
	case EarliestFirst:
		b.beside = b.companion(recordSuffix)
	}
	if b.beside != b.key {
		b.reads = script.Keys{b.boxed, b.beside}
	}
	b.memory = [2]string{b.companion(memorySuffix[1]), b.companion(memorySuffix[0])}
}
