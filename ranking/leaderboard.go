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
	o, err := opts.withDefaults()
	if err != nil {
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
