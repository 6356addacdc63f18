package ratelimit

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// KeyFunc says whom a request counts against: the id of it.
type KeyFunc func(*http.Request) (string, error)

// MiddlewareOptions of Middleware; nil and zero fields mean the defaults.
type MiddlewareOptions struct {
	// Cost is what a request costs; 0 is free. Defaults to 1.
	Cost func(*http.Request) int64
	// Skip says which requests are not limited at all. Defaults to none.
	Skip func(*http.Request) bool
	// OnLimited answers a denied request, whose headers are set. Defaults to 429 with a problem document (RFC 9457).
	OnLimited func(http.ResponseWriter, *http.Request, Result)
	// OnError answers where there is no decision, and where FailClosed denied: with an error that matches ErrUnavailable. It
	// defaults to 503; 400 for a key function's error and for ErrInvalidID; 429 without Retry-After for ErrCost.
	OnError func(http.ResponseWriter, *http.Request, error)
	// Legacy sets X-RateLimit-Limit, -Remaining and -Reset too, the last in seconds from now.
	Legacy bool
}

// Middleware limits an http.Handler. A request that is denied gets 429 with Retry-After; every answer that a limit decided has
// RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers-10). Where Redis cannot answer, FailOpen lets the
// request through, anything else is 503, never 429. Several of them around one handler add to each other's headers.
func Middleware(l *Limiter, key KeyFunc, opts *MiddlewareOptions) func(http.Handler) http.Handler {
	m := middleware{limiter: l, key: key}
	if opts != nil {
		m.MiddlewareOptions = *opts
	}
	if m.OnLimited == nil {
		m.OnLimited = m.limited
	}
	if m.OnError == nil {
		m.OnError = m.failed
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if m.passes(w, r) {
				next.ServeHTTP(w, r)
			}
		})
	}
}

type middleware struct {
	MiddlewareOptions
	limiter *Limiter
	key     KeyFunc
}

// passes says whether the request goes on; else it has been answered.
func (m *middleware) passes(w http.ResponseWriter, r *http.Request) bool {
	if m.Skip != nil && m.Skip(r) {
		return true
	}
	cost := int64(1)
	if m.Cost != nil {
		if cost = m.Cost(r); cost == 0 {
			return true
		}
	}
	if m.limiter == nil || m.key == nil {
		m.OnError(w, r, errNoMiddleware)
		return false
	}
	id, err := m.key(r)
	if err != nil {
		m.OnError(w, r, &keyError{err})
		return false
	}
	result, err := m.limiter.AllowN(r.Context(), id, cost)
	if err != nil {
		m.OnError(w, r, err)
		return false
	}
	setHeaders(w.Header(), m.limiter.options.Name, result, m.Legacy)
	switch {
	case result.Allowed:
		return true
	case result.Reason == ReasonUnavailable:
		m.OnError(w, r, fmt.Errorf("ratelimit: allow %.64q: %w", id, ErrUnavailable))
	default:
		w.Header().Set("Retry-After", decimal(max(seconds(result.RetryAfter), 1)))
		m.OnLimited(w, r, result)
	}
	return false
}

var errNoMiddleware = errors.New("ratelimit: Middleware has no limiter or no key function")

// keyError is a key function's, which says that the request is bad.
type keyError struct{ error }

func (e *keyError) Error() string { return "ratelimit: key function: " + e.error.Error() }

func (e *keyError) Unwrap() error { return e.error }

// problem is a problem document.
type problem struct {
	Type     string   `json:"type,omitempty"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Violated []string `json:"violated-policies,omitempty"`
}

func (m *middleware) limited(w http.ResponseWriter, _ *http.Request, r Result) {
	name := m.limiter.options.Name
	p := problem{Type: quotaExceeded, Title: "Request quota exceeded", Status: http.StatusTooManyRequests}
	for _, rule := range r.Rules {
		if rule.RetryAfter > 0 {
			p.Violated = append(p.Violated, policyName(name, rule.Name))
		}
	}
	if p.Violated == nil {
		p.Violated = []string{policyName(name, "")}
	}
	p.write(w)
}

func (m *middleware) failed(w http.ResponseWriter, _ *http.Request, err error) {
	var key *keyError
	p := problem{Title: "Service Unavailable", Status: http.StatusServiceUnavailable}
	switch {
	case errors.As(err, &key) || errors.Is(err, ErrInvalidID):
		p = problem{Title: "Bad Request", Status: http.StatusBadRequest}
	case errors.Is(err, ErrCost):
		p = problem{Type: quotaExceeded, Title: "Request exceeds the quota", Status: http.StatusTooManyRequests}
	}
	p.write(w)
}

func (p problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client has gone: nobody to tell
}
