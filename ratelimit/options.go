package ratelimit

import (
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
	errNoLimiter = errors.New("ratelimit: a Limiter must come from its constructor")
)
