package ratelimit

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The fields of draft-ietf-httpapi-ratelimit-headers-10: lists of Structured Fields (RFC 9651), an item for each limit, named
// after it. All that a newer draft changes is in this file.
//
//	RateLimit-Policy: "burst";q=20;w=2, "day";q=10000;w=86400
//	RateLimit: "burst";r=0;t=1, "day";r=812

const (
	headerPolicy  = "RateLimit-Policy"
	headerLimit   = "RateLimit"
	quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"
)

// setHeaders tells how a client stands. Several limiters of one request add to each other's fields.
func setHeaders(h http.Header, name string, r Result, legacy bool) {
	if r.Reason == ReasonUnavailable {
		return // nobody knows
	}
	rules := r.Rules
	if rules == nil {
		rules = []RuleResult{{Limit: r.Limit, Remaining: r.Remaining, RetryAfter: r.RetryAfter, ResetAfter: r.ResetAfter, window: r.window}}
	}
	var policy, limit []string
	for _, rule := range rules {
		if rule.Limit == math.MaxInt64 {
			continue
		}
		item := quoted(policyName(name, rule.Name))
		p := item + ";q=" + decimal(rule.Limit)
		if rule.window >= time.Second {
			p += ";w=" + decimal(seconds(rule.window))
		}
		policy = append(policy, p)
		l := item + ";r=" + decimal(rule.Remaining)
		switch {
		case rule.RetryAfter > 0:
			l += ";t=" + decimal(seconds(rule.RetryAfter))
		case r.Allowed && rule.ResetAfter > 0: // of a denied request only the rules that denied it, or Retry-After would be too early
			l += ";t=" + decimal(seconds(rule.ResetAfter))
		}
		limit = append(limit, l)
	}
	if policy == nil {
		return
	}
	h.Add(headerPolicy, strings.Join(policy, ", "))
	h.Add(headerLimit, strings.Join(limit, ", "))
	if legacy && tighter(h, r) {
		h.Set("X-RateLimit-Limit", decimal(r.Limit))
		h.Set("X-RateLimit-Remaining", decimal(r.Remaining))
		h.Set("X-RateLimit-Reset", decimal(seconds(r.ResetAfter)))
	}
}

// tighter says whether r leaves less than what another limiter has written: these fields can tell of one alone.
func tighter(h http.Header, r Result) bool {
	other, err := strconv.ParseInt(h.Get("X-RateLimit-Remaining"), 10, 64)
	return err != nil || r.Remaining < other
}

// policyName is what a client sees of a limiter's name and of a rule's, either of which may be missing.
func policyName(name, rule string) string {
	switch {
	case name == "" && rule == "":
		return "default"
	case name == "":
		return rule
	case rule == "":
		return name
	}
	return name + "/" + rule
}

// seconds rounds up, so that nobody comes too early.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// decimal is n as a Structured Field's Integer, which has at most 15 digits.
func decimal(n int64) string { return strconv.FormatInt(min(n, 999_999_999_999_999), 10) }

// quoted is s as a Structured Field's String: printable ASCII. Whatever else is in it is written in percent.
func quoted(s string) string {
	const hex = "0123456789ABCDEF"
	b := []byte{'"'}
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c > '~':
			b = append(b, '%', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}
