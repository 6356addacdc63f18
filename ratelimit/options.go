package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Options of a Limiter; nil and zero fields mean the defaults.
type Options struct {
	// Name names the limiter in its keys. It holds no colon. Give each limiter of an application its own: limiters of
	// different names never share a key, whatever the ids. Defaults to none.
	Name string
	// Prefix stands before every id. Defaults to "ratelimit:", or "ratelimit:<Name>:" where Name is set.
	Prefix string
	// LimitFor answers the limit of an id, its plan say: [Unlimited], or the zero Limit where the limiter's own holds. It is
	// asked at every call before anything is sent, of NewMulti's limiter once for each rule by its name, so it must be
	// quick. Its error is returned, wrapped. A limit that changes holds at once. Of a counter or a log what was taken stays
	// taken; a bucket counts in time, and who has used half of it has used half of the new one as well. A fixed window of
	// another length begins anew.
	LimitFor func(ctx context.Context, id, rule string) (Limit, error)
}

func (o *Options) withDefaults() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if strings.Contains(opts.Name, ":") {
		return Options{}, fmt.Errorf("ratelimit: Options.Name is %q, must hold no colon", opts.Name)
	}
	if opts.Prefix == "" {
		opts.Prefix = "ratelimit:"
		if opts.Name != "" {
			opts.Prefix += opts.Name + ":"
		}
	}
	return opts, nil
}

var (
	errNoClient  = errors.New("ratelimit: client is nil")
	errNoLimiter = errors.New("a Limiter must come from its constructor")
	errForeign   = errors.New("ratelimit: refund: the result is another limiter's")
)
