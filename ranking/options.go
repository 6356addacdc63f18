package ranking

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

const (
	defaultPrefix  = "ranking:"
	defaultOnceFor = 24 * time.Hour
	maxInteger     = 1<<53 - 1 // beyond it, float64 skips integers
)

// Order says which end of the scores is the first rank.
type Order uint8

const (
	Descending Order = iota // the highest score is first
	Ascending               // the lowest score is first, as with lap times
)

// Options of a Leaderboard; nil and zero fields mean the defaults. Every process that writes to a board gives the same.
type Options struct {
	// Prefix stands before the name in every key. Defaults to "ranking:".
	Prefix string

	// Order says which end of the scores is the first rank. Defaults to Descending.
	Order Order

	// Ties says how equal scores rank. Defaults to Ordinal, and to Competition on a sharded board, which has no other.
	Ties Ties

	// Integers makes every score an integer that stays exact, of a magnitude up to 2^53 - 1: anything else is ErrScore, and so
	// is an increment beyond that. Defaults to false: any finite float64.
	Integers bool

	// Earliest is the room for the time beside each score. Ties EarliestFirst needs it, but in Windows without AllTime, and
	// nothing else may have it.
	Earliest *Earliest

	// MaxSize is how many of the best stay: a member below the cut loses its score. A sharded board has none. Defaults to 0,
	// all; it must not be negative.
	MaxSize int64

	// TTL is how long after the last score was written the board disappears, in whole milliseconds. In Windows it is AllTime's.
	// Defaults to 0, never; at least 1 ms.
	TTL time.Duration

	// OnceFor is how long IncrementOnce remembers an operation at least; twice that at most. Defaults to 24 hours; at least 1 s.
	OnceFor time.Duration
}

// withDefaults is a copy of o, which may be nil, with its zero fields filled, or what is wrong with it.
func (o *Options) withDefaults() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Earliest != nil {
		e := *opts.Earliest
		opts.Earliest = &e
	}
	if opts.Prefix == "" {
		opts.Prefix = defaultPrefix
	}
	if opts.Ties == DefaultTies {
		opts.Ties = Ordinal
	}
	if opts.OnceFor == 0 {
		opts.OnceFor = defaultOnceFor
	}
	switch {
	case opts.Order > Ascending:
		return opts, fmt.Errorf("Options.Order is %d, must be Descending or Ascending", opts.Order)
	case opts.Ties > EarliestFirst:
		return opts, fmt.Errorf("Options.Ties is %d, must be one of the rules from Ordinal to EarliestFirst", opts.Ties)
	case opts.MaxSize < 0:
		return opts, fmt.Errorf("Options.MaxSize is %d, must not be negative", opts.MaxSize)
	case opts.TTL != 0 && opts.TTL < time.Millisecond:
		return opts, fmt.Errorf("Options.TTL is %v, must be at least 1ms", opts.TTL)
	case opts.OnceFor < time.Second:
		return opts, fmt.Errorf("Options.OnceFor is %v, must be at least 1s", opts.OnceFor)
	case opts.Earliest != nil && opts.Ties != EarliestFirst:
		return opts, errors.New("Options.Earliest is set, must be nil without Ties EarliestFirst")
	}
	return opts, nil
}

// settings is what the scripts take of the options, boxed once.
type settings struct {
	order, ties, ranks, limit, size, ttl, onceFor any
}

func (o *Options) settings() settings {
	s := settings{
		order: [...]string{Descending: "desc", Ascending: "asc"}[o.Order], ties: tiesName[o.Ties], limit: "0",
		size: strconv.FormatInt(o.MaxSize, 10), ttl: millis(o.TTL), onceFor: millis(o.OnceFor),
	}
	s.ranks = s.order // of Competition, how one.lua ranks
	if o.Ties == Ordinal {
		s.ranks = rankCommand[o.Order]
	}
	if o.Integers {
		s.limit = strconv.FormatInt(maxInteger, 10)
	}
	return s
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// The commands that depend on the order, boxed once.
var (
	rankCommand  = [...]any{Descending: "zrevrank", Ascending: "zrank"}
	rangeCommand = [...]any{Descending: "zrevrange", Ascending: "zrange"}
	betterFlag   = [...]any{Descending: "gt", Ascending: "lt"}
)
