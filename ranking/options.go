package ranking

import "fmt"

const defaultPrefix = "ranking:"

// Order says which end of the scores is the first rank.
type Order uint8

const (
	Descending Order = iota // the highest score is first
	Ascending               // the lowest score is first, as with lap times
)

// Options of a Leaderboard; nil and zero fields mean the defaults. Every process that uses a board gives the same.
type Options struct {
	Prefix string // before the name. Defaults to "ranking:".
	Order  Order  // Defaults to Descending.
}

// complete fills in the defaults and refuses what makes no sense.
func (o *Options) complete() error {
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if o.Order > Ascending {
		return fmt.Errorf("Options.Order is %d, which is no order", o.Order)
	}
	return nil
}

// The commands that depend on the order, boxed once.
var (
	rankCommand  = [...]any{Descending: "zrevrank", Ascending: "zrank"}
	rangeCommand = [...]any{Descending: "zrevrange", Ascending: "zrange"}
	betterFlag   = [...]any{Descending: "gt", Ascending: "lt"}
)
