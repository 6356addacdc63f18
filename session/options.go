package session

import (
	"fmt"
	"time"
)

const (
	defaultPrefix   = "session:"
	defaultIdle     = 30 * time.Minute
	defaultLifetime = 12 * time.Hour
	defaultMaxBytes = 16 << 10
)

// Options of a [Store]. Nil options and zero fields mean the defaults. What IdleTimeout, Lifetime and Grace set is 1ms to a
// hundred years.
type Options struct {
	// Prefix stands before every session's ID in its key. Defaults to "session:".
	Prefix string

	// IdleTimeout is how long a session lives without being used. Defaults to 30 minutes.
	IdleTimeout time.Duration

	// Lifetime is how long a session lives at the most, however much it is used. A session keeps the lifetime that it was
	// created with. Defaults to 12 hours; negative means no bound.
	Lifetime time.Duration

	// TouchEvery is how often a use renews the idle time at the most, so that most reads write nothing. A session that is
	// used may therefore expire up to TouchEvery before its IdleTimeout. Defaults to a thirtieth of IdleTimeout, at most one
	// minute; negative means that every use renews it.
	TouchEvery time.Duration

	// Grace is how long the token before a Rotate stays good, for requests that were under way. Defaults to 0, which is
	// right where the rights of the session grow: at a login and the like.
	Grace time.Duration

	// UserField turns on an index of each user's sessions, for List and DestroyAll: it is the field of T, by the name in its
	// tag, that names the user. Sessions in which it is zero are nobody's. Every server must set the same, and a change of
	// Lifetime to less must wait until the sessions of before have ended. Defaults to "": no index.
	UserField string

	// MaxBytes is how many bytes the names and values of a session's fields may have together. Defaults to 16 KiB; negative
	// means no bound.
	MaxBytes int
}

// withDefaults is a copy of o, which may be nil, with its zero fields filled, or what is wrong with it.
func (o *Options) withDefaults() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Prefix == "" {
		opts.Prefix = defaultPrefix
	}
	if opts.IdleTimeout == 0 {
		opts.IdleTimeout = defaultIdle
	}
	if opts.Lifetime == 0 {
		opts.Lifetime = defaultLifetime
	}
	if opts.TouchEvery == 0 {
		opts.TouchEvery = min(opts.IdleTimeout/30, time.Minute)
	}
	if opts.MaxBytes == 0 {
		opts.MaxBytes = defaultMaxBytes
	}
	switch {
	case !lasts(opts.IdleTimeout):
		return opts, fmt.Errorf("Options.IdleTimeout is %v, must be %s", opts.IdleTimeout, lengths)
	case opts.Lifetime > 0 && !lasts(opts.Lifetime):
		return opts, fmt.Errorf("Options.Lifetime is %v, must be negative, or %s", opts.Lifetime, lengths)
	case opts.TouchEvery >= opts.IdleTimeout:
		return opts, fmt.Errorf("Options.TouchEvery is %v, must be less than IdleTimeout, %v", opts.TouchEvery, opts.IdleTimeout)
	case opts.Grace != 0 && !lasts(opts.Grace):
		return opts, fmt.Errorf("Options.Grace is %v, must be 0, or %s", opts.Grace, lengths)
	}
	return opts, nil
}

// longest keeps times, and the sums that an index is kept for, within what Redis and time.Duration can say.
const longest = 100 * 365 * 24 * time.Hour

var lengths = fmt.Sprintf("at least 1ms and at most %v", longest)

func lasts(d time.Duration) bool { return time.Millisecond <= d && d <= longest }
