package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/ranking"
)

// fenceRetention is how long a lock's fence outlives its last use, in this run.
const fenceRetention = 5 * time.Second

// final looks at what is left when the workers have ended: every board equals its model, each session that lives is in its
// user's list, and of the keys only the boards stay.
func (o *oracle) final(c *redis.Client) {
	o.mu.Lock()
	defer o.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	boards, err := newBoards(c)
	if err != nil {
		o.report.violate("board", "%v", err)
		return
	}
	for name, b := range boards {
		if err := o.finalBoard(ctx, name, b); err != nil {
			o.report.violate("board", "in the end: %v", err)
		}
	}
	if err := o.finalSessions(ctx, c); err != nil {
		o.report.violate("session", "in the end: %v", err)
	}
	if err := finalKeys(ctx, c); err != nil {
		o.report.violate("keys", "in the end: %v", err)
	}
}

func (o *oracle) finalBoard(ctx context.Context, name string, b *ranking.Leaderboard) error {
	var entries []ranking.Entry
	seen := map[string]bool{}
	for e, err := range b.All(ctx) {
		if err != nil {
			return err
		}
		entries = append(entries, e)
		seen[e.Member] = true
		if err := o.ledger.span(name, e.Member).check(e.Score); err != nil {
			return fmt.Errorf("score of %s on %s: %w", e.Member, name, err)
		}
	}
	for member, low := range o.ledger.lows(name) {
		if low > 0 && !seen[member] {
			return fmt.Errorf("%s is not on %s, where it has at least %d", member, name, low)
		}
	}
	return ranked(name, entries)
}

// finalSessions ends all sessions by their users' lists, after a look at whether all are on them.
func (o *oracle) finalSessions(ctx context.Context, c *redis.Client) error {
	store, err := newStore(c)
	if err != nil {
		return err
	}
	for i := range o.slots {
		list, err := store.List(ctx, userOf(i))
		if err != nil {
			return err
		}
		listed := map[string]bool{}
		for _, sess := range list {
			listed[sess.ID] = true
		}
		keys, err := c.Keys(ctx, "session:*").Result()
		if err != nil {
			return err
		}
		for _, key := range keys {
			id := strings.TrimPrefix(key, "session:")
			if strings.HasPrefix(id, "user:") || listed[id] {
				continue
			}
			if user, err := c.HGet(ctx, key, "user").Result(); err == nil && user == userOf(i) {
				return fmt.Errorf("session %s of %s lives and is not in its list", id, user)
			}
		}
		if _, err := store.DestroyAll(ctx, userOf(i)); err != nil {
			return err
		}
	}
	return nil
}

// finalKeys waits until only those keys are left that live on: the boards, which have no TTL, what IncrementOnce remembers
// beside them, and the lists of users of whom a session ended without Destroy. All but the boards have a TTL.
func finalKeys(ctx context.Context, c *redis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var forever error
	err := until(ctx, "the keys are gone", func() error {
		keys, err := c.Keys(ctx, "*").Result()
		if err != nil {
			return err
		}
		var left []string
		for _, key := range keys {
			ttl, err := c.PTTL(ctx, key).Result()
			if err != nil {
				return err
			}
			board := strings.HasPrefix(key, "ranking:") || strings.HasPrefix(key, "{ranking:")
			switch {
			case ttl == -1 && board, ttl > 0 && strings.HasPrefix(key, "session:user:"),
				ttl > 0 && ttl <= 2*onceFor && board && (strings.HasSuffix(key, "~o0") || strings.HasSuffix(key, "~o1")):
			case ttl == -1:
				forever = fmt.Errorf("%s has no TTL", key)
				return nil
			default:
				left = append(left, fmt.Sprintf("%s (TTL %v)", key, ttl))
			}
		}
		if len(left) > 0 {
			slices.Sort(left)
			return errors.New(strings.Join(left, "\n"))
		}
		return nil
	})
	return cmp.Or(forever, err)
}
