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

// Options of a Leaderboard; nil and zero fields mean the defaults. Every process that uses a board gives the same.
type Options struct {
	Prefix   string        // before the name. Defaults to "ranking:".
	Order    Order         // Defaults to Descending.
	Ties     Ties          // how equal scores rank. Defaults to Ordinal.
	Integers bool          // scores are integers that stay exact, of a magnitude up to 2^53 - 1; anything else is ErrScore
	Earliest *Earliest     // of Ties EarliestFirst, which needs it
	MaxSize  int64         // only this many of the best stay; a member below the cut loses its score. Defaults to all.
	TTL      time.Duration // the board disappears this long after the last score was written. Defaults to never; at least 1ms.
	OnceFor  time.Duration // how long IncrementOnce remembers an operation, at least. Defaults to 24h; at least 1s.
}

// complete fills in the defaults and refuses what makes no sense.
func (o *Options) complete() error {
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if o.Ties == DefaultTies {
		o.Ties = Ordinal
	}
	if o.OnceFor == 0 {
		o.OnceFor = defaultOnceFor
	}
	switch {
	case o.Order > Ascending:
		return fmt.Errorf("Options.Order is %d, which is no order", o.Order)
	case o.Ties > EarliestFirst:
		return fmt.Errorf("Options.Ties is %d, which is no rule", o.Ties)
	case o.MaxSize < 0:
		return fmt.Errorf("Options.MaxSize is %d, below 0", o.MaxSize)
	case o.TTL != 0 && o.TTL < time.Millisecond:
		return fmt.Errorf("Options.TTL is %v, below 1ms", o.TTL)
	case o.OnceFor < time.Second:
		return fmt.Errorf("Options.OnceFor is %v, below 1s", o.OnceFor)
	case o.Earliest != nil && o.Ties != EarliestFirst:
		return errors.New("Options.Earliest is of Ties EarliestFirst alone")
	}
	return nil
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
