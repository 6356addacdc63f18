package ratelimit

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/script"
)

//go:embed multi.lua
var multiSource string

var (
	multiScript = script.New(multiSource)
	multiOnce   = multiScript.Once()
)

// Rule is one of the limits of a limiter that has several.
type Rule struct {
	Name      string // unique, not empty
	Limit     Limit
	Algorithm Algorithm
}

// Algorithm is how a rule counts.
type Algorithm uint8

const (
	SlidingCounter Algorithm = iota // as NewSlidingCounter
	TokenBucket                     // as NewTokenBucket
	FixedWindow                     // as NewFixedWindow
)

// maxRules keeps a script short.
const maxRules = 100

// NewMulti checks several limits of one id, all or nothing, in one round trip: 20 at once, 10 a second and 10 000 a day, say.
// What one rule denies is not counted by the others either. The rules' counts of an id are in one hash. A Result tells how
// the id stands with each rule; its own Limit and Remaining are those of the rule with the least Remaining, RetryAfter and
// ResetAfter are the longest.
//
// A request whose reply is lost is not sent again, since it might count twice: its error is [ErrUnknown].
func NewMulti(client redispatterns.Client, rules []Rule, opts *Options) (*Limiter, error) {
	if len(rules) == 0 || len(rules) > maxRules {
		return nil, fmt.Errorf("ratelimit: there are %d rules, must be 1 to %d", len(rules), maxRules)
	}
	seen := map[string]bool{}
	for _, r := range rules {
		switch {
		case r.Name == "":
			return nil, errors.New("ratelimit: the name of a rule is empty")
		case seen[r.Name]:
			return nil, fmt.Errorf("ratelimit: two rules are named %q", r.Name)
		case r.Algorithm > FixedWindow:
			return nil, fmt.Errorf("ratelimit: the algorithm of rule %q is %d, which is none", r.Name, r.Algorithm)
		}
		seen[r.Name] = true
	}
	rules = slices.Clone(rules)
	return newLimiter(client, rules, opts, func(k keys) algorithm {
		m := &multi{keys: k, rules: make([]boxedRule, len(rules))}
		for i, r := range rules {
			m.rules[i] = boxRule(r)
		}
		return m
	})
}

type multi struct {
	keys
	rules []boxedRule
}

// boxedRule is a rule as the script takes it. A rate belongs to a bucket alone.
type boxedRule struct {
	Rule
	rate rate
	args [5]any
}

func boxRule(r Rule) boxedRule {
	b := boxedRule{Rule: r}
	switch r.Algorithm {
	case TokenBucket:
		b.rate, _ = newRate(r.Limit) // a limit that cannot be is refused by check
		b.args = [5]any{r.Name, "b", b.rate.args[0], b.rate.args[1], b.rate.args[2]}
	case FixedWindow:
		b.args = [5]any{r.Name, "f", r.Limit.Events, r.Limit.Per.Milliseconds(), 0}
	default:
		b.args = [5]any{r.Name, "c", r.Limit.Events, r.Limit.Per.Milliseconds(), 0}
	}
	return b
}

// of is the rule with another limit.
func (b boxedRule) of(limit Limit) boxedRule {
	if limit != b.Limit {
		b.Rule.Limit = limit
		return boxRule(b.Rule)
	}
	return b
}

// standing is what the script's two numbers mean at now for who wants n more; 0: has got them.
func (b boxedRule) standing(n, first, second, now int64) RuleResult {
	var r RuleResult
	switch b.Algorithm {
	case TokenBucket:
		r = b.rate.standing(n, first)
	case FixedWindow:
		r = fixedStanding(b.Limit, n, first, now)
	default:
		r = counterStanding(b.Limit, n, first, second, now)
	}
	r.Name = b.Name
	return r
}

func (m *multi) check(rule int, limit Limit) error {
	if m.rules[rule].Algorithm == TokenBucket {
		_, err := newRate(limit)
		return err
	}
	return limit.check()
}

func (m *multi) most(_ int, limit Limit) int64 { return limit.burst() }

func (m *multi) take(ctx context.Context, id string, limits []Limit, n int64) (Result, error) {
	key := m.key(id)
	reply, err := m.run(ctx, sent(multiScript, multiOnce, n), key, limits, n, 0)
	if err != nil {
		return Result{}, err
	}
	counted, now := reply == nil || reply[0] == 1, int64(0)
	if reply != nil {
		now, reply = reply[1], reply[2:]
	}
	rules := make([]RuleResult, len(limits))
	all := unlimited
	for i, limit := range limits {
		if limit == Unlimited {
			rules[i] = unlimited
			rules[i].Name = m.rules[i].Name
			continue
		}
		r := m.rules[i].of(limit).standing(wanted(n, counted && n > 0), reply[0], reply[1], now)
		rules[i], reply = r, reply[2:]
		if r.Remaining < all.Remaining {
			all.Limit, all.Remaining, all.window = r.Limit, r.Remaining, r.window
		}
		all.RetryAfter, all.ResetAfter = max(all.RetryAfter, r.RetryAfter), max(all.ResetAfter, r.ResetAfter)
	}
	result := decided(all, n, counted)
	result.Rules = rules
	if counted && now > 0 && n > 0 {
		result.taken = &taken{at: now}
	}
	return result, nil
}

func (m *multi) refund(ctx context.Context, t *taken) error {
	_, err := m.run(ctx, multiOnce, m.key(t.id), t.limits, -t.n, t.at/1000)
	return err
}

func (m *multi) reset(ctx context.Context, id string, _ []Limit) error { return m.del(ctx, m.key(id)) }

// run asks about the rules that limit. There is nothing to ask where none does: then the reply is nil.
func (m *multi) run(ctx context.Context, s *script.Script, key string, limits []Limit, n, at int64) ([]int64, error) {
	args := make([]any, 0, 2+5*len(limits))
	args = append(args, n, at)
	for i, limit := range limits {
		if limit != Unlimited {
			rule := m.rules[i].of(limit).args
			args = append(args, rule[:]...)
		}
	}
	if len(args) == 2 {
		return nil, nil
	}
	reply, err := s.Ints(ctx, m.client, 2+(len(args)-2)/5*2, []string{key}, args...)
	return reply, keyed(key, err)
}

func (m *multi) key(id string) string { return m.prefix + id + "~m" }
