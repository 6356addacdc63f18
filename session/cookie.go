package session

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"
)

// ManagerOptions of a [Manager]. Nil options and zero fields mean the defaults: a cookie that no script can read, that is
// sent over HTTPS alone and to this host alone, that other sites' forms do not carry, and that ends with the browser.
type ManagerOptions struct {
	// Cookie is the cookie's name. Defaults to "__Host-session", which browsers accept only with Secure, without Domain
	// and for the whole host; to "session" where Insecure, Domain or Path rule that out.
	Cookie string

	// Domain sends the cookie to the domain's subdomains too. Defaults to none: this host alone.
	Domain string

	// Path is the part of the site that the cookie is sent to; it begins with a slash. Defaults to "/".
	Path string

	// SameSite defaults to http.SameSiteLaxMode.
	SameSite http.SameSite

	// Insecure leaves out the Secure attribute: for http://localhost alone.
	Insecure bool

	// Persistent gives the cookie the session's Lifetime as its Max-Age, so that it outlives the browser.
	Persistent bool

	// OnMissing answers a request that Require lets not pass since it has no session. Defaults to 401.
	OnMissing func(http.ResponseWriter, *http.Request)

	// OnError answers a request of which Require cannot know, since Redis does not answer. Defaults to 503.
	OnError func(http.ResponseWriter, *http.Request, error)
}

const hostPrefix, securePrefix = "__Host-", "__Secure-"

// withDefaults is a copy of o, which may be nil, with its zero fields filled.
func (o *ManagerOptions) withDefaults() ManagerOptions {
	var opts ManagerOptions
	if o != nil {
		opts = *o
	}
	if opts.Path == "" {
		opts.Path = "/"
	}
	if opts.Cookie == "" {
		opts.Cookie = "session"
		if !opts.Insecure && opts.Domain == "" && opts.Path == "/" {
			opts.Cookie = hostPrefix + opts.Cookie
		}
	}
	if opts.SameSite == 0 {
		opts.SameSite = http.SameSiteLaxMode
	}
	if opts.OnMissing == nil {
		opts.OnMissing = func(w http.ResponseWriter, _ *http.Request) { fail(w, http.StatusUnauthorized) }
	}
	if opts.OnError == nil {
		opts.OnError = func(w http.ResponseWriter, _ *http.Request, _ error) { fail(w, http.StatusServiceUnavailable) }
	}
	return opts
}

func fail(w http.ResponseWriter, status int) { http.Error(w, http.StatusText(status), status) }

// cookie is what all cookies of a Manager have in common, or the reason why no browser would keep it.
func (o *ManagerOptions) cookie(lifetime time.Duration) (http.Cookie, error) {
	c := http.Cookie{
		Name: o.Cookie, Domain: o.Domain, Path: o.Path, SameSite: o.SameSite, Secure: !o.Insecure, HttpOnly: true,
	}
	switch {
	case strings.HasPrefix(o.Cookie, hostPrefix) && (o.Insecure || o.Domain != "" || o.Path != "/"):
		return c, fmt.Errorf("ManagerOptions.Cookie is %q, must not begin with %s beside Insecure, a Domain or a Path: browsers refuse it", o.Cookie, hostPrefix)
	case strings.HasPrefix(o.Cookie, securePrefix) && o.Insecure:
		return c, fmt.Errorf("ManagerOptions.Cookie is %q, must not begin with %s beside Insecure: browsers refuse it", o.Cookie, securePrefix)
	case o.SameSite == http.SameSiteNoneMode && o.Insecure:
		return c, errors.New("ManagerOptions.SameSite is None, must be another beside Insecure: browsers refuse it")
	case o.Path[0] != '/':
		return c, fmt.Errorf("ManagerOptions.Path is %q, must begin with /: browsers take each request's directory instead", o.Path)
	case o.Persistent && lifetime < 0:
		return c, errors.New("ManagerOptions.Persistent is true, must be false where the store's Lifetime has no bound to last for")
	}
	if o.Persistent {
		c.MaxAge = int(min(max(lifetime/time.Second, 1), math.MaxInt32)) // no browser keeps one for so long
	}
	if err := c.Valid(); err != nil {
		return c, fmt.Errorf("ManagerOptions: %w", err)
	}
	return c, nil
}

// setCookie puts a cookie into the response, in place of an earlier one of its name, and keeps caches from handing it on.
func setCookie(w http.ResponseWriter, c *http.Cookie) {
	const name = "Set-Cookie"
	h := w.Header()
	others := h[name][:0:0]
	for _, line := range h[name] {
		if !strings.HasPrefix(line, c.Name+"=") {
			others = append(others, line)
		}
	}
	h[name] = append(others, c.String())
	h.Set("Cache-Control", "no-store")
}
