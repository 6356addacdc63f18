package ranking

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/script"
)

//go:embed increment.lua
var incrementSource string

var incrementScript = script.New(incrementSource).Once()

// Set makes score the member's score, whatever it was, and answers where the member stands now.
//
// Another process may write between this write and its answer: the rank is of the moment after the write. A member that
// another process removed in that moment is ErrNotFound.
func (b *Leaderboard) Set(ctx context.Context, member string, score float64) (Update, error) {
	u, err := b.set(ctx, member, score, nil)
	if err != nil {
		return u, b.wrap("set", err)
	}
	return u, nil
}

// Best makes score the member's score if it is better than the stored one, or if there is none: higher, or lower on an
// Ascending board. It answers where the member stands now, with the score that holds. However often and in whatever order
// scores arrive, the best of them stays, so Best may always be repeated.
func (b *Leaderboard) Best(ctx context.Context, member string, score float64) (Update, error) {
	u, err := b.set(ctx, member, score, betterFlag[b.order])
	if err != nil {
		return u, b.wrap("best", err)
	}
	return u, nil
}

// Increment adds delta, which may be negative, to the member's score, and answers where the member stands now. A member
// that is not there begins with 0.
//
// It is sent once. If no reply comes, the error is ErrUnknown: it may have been applied, or not.
func (b *Leaderboard) Increment(ctx context.Context, member string, delta float64) (Update, error) {
	u, err := b.increment(ctx, member, delta)
	if err != nil {
		return u, b.wrap("increment", err)
	}
	return u, nil
}

// Remove takes members off the board and answers how many of them were on it; when a reply was lost and the command was
// sent again, that can be too few. Those that are not there are no error. It sends a thousand members at a time.
func (b *Leaderboard) Remove(ctx context.Context, members ...string) (int64, error) {
	for _, member := range members {
		if err := checkMember(member); err != nil {
			return 0, b.wrap("remove", err)
		}
	}
	var removed int64
	for chunk := range slices.Chunk(members, chunkSize) {
		args := make([]any, 0, 2+len(chunk))
		args = append(args, "zrem", b.boxed)
		for _, member := range chunk {
			args = append(args, member)
		}
		cmd := redis.NewIntCmd(ctx, args...)
		_ = b.client.Process(ctx, cmd)
		if err := cmd.Err(); err != nil {
			return removed, b.wrap("remove", err)
		}
		removed += cmd.Val()
	}
	return removed, nil
}

const chunkSize = 1000 // members in one command, so that none of them holds Redis up for long

// set writes a score, and asks for the standing in the same pipeline. It may be sent again: the end is the same.
// With better, a flag of ZADD, only a better score is written.
func (b *Leaderboard) set(ctx context.Context, member string, score float64, better any) (Update, error) {
	if err := checkMember(member); err != nil {
		return Update{}, err
	}
	text, err := formatScore("score", score)
	if err != nil {
		return Update{}, err
	}
	m := any(member)
	var zadd *redis.IntCmd
	if better == nil {
		zadd = redis.NewIntCmd(ctx, "zadd", b.boxed, "ch", text, m)
	} else {
		zadd = redis.NewIntCmd(ctx, "zadd", b.boxed, better, "ch", text, m)
	}
	after := b.newStanding(ctx, m)
	_, _ = b.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		_ = p.Process(ctx, zadd)
		if better != nil {
			_ = p.Process(ctx, after.score)
		}
		return after.queue(ctx, p)
	})
	if err := zadd.Err(); err != nil {
		return Update{}, err
	}
	s, err := after.result(member)
	if better == nil {
		s.Score = score + 0
	}
	return Update{Standing: s, Changed: zadd.Val() == 1}, err
}

// maxSafeDelta is half the distance between the two largest float64: no delta below it makes a finite score infinite.
const maxSafeDelta = 0x1p970

func (b *Leaderboard) increment(ctx context.Context, member string, delta float64) (Update, error) {
	if err := checkMember(member); err != nil {
		return Update{}, err
	}
	text, err := formatScore("delta", delta)
	if err != nil {
		return Update{}, err
	}
	if math.Abs(delta) >= maxSafeDelta {
		return b.incrementByScript(ctx, member, text)
	}
	type attempt struct {
		*standingCmds // the score before, and the place after
		sum           onceFloat
	}
	m := any(member)
	sent, err := script.Sure(ctx, func() (attempt, error) {
		a := attempt{b.newStanding(ctx, m), onceFloat{redis.NewFloatCmd(ctx, "zincrby", b.boxed, text, m)}}
		_, _ = b.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			_ = p.Process(ctx, a.score)
			_ = p.Process(ctx, a.sum)
			return a.queue(ctx, p)
		})
		return a, a.sum.Err()
	})
	if err != nil {
		return Update{}, err
	}
	isNew := errors.Is(sent.score.Err(), redis.Nil)
	u := Update{Changed: isNew || sent.score.Val() != sent.sum.Val()}
	if isNew {
		sent.score.SetErr(nil)
	}
	u.Standing, err = sent.result(member)
	u.Score = sent.sum.Val()
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Update{}, fmt.Errorf("%w: it was applied, and its rank is not known: %w", ErrUnknown, err)
	}
	return u, err
}

// onceFloat keeps go-redis from sending a pipeline again.
type onceFloat struct{ *redis.FloatCmd }

func (onceFloat) NoRetry() bool { return true }

func (b *Leaderboard) incrementByScript(ctx context.Context, member, delta string) (Update, error) {
	reply, err := incrementScript.Strings(ctx, b.client, 4, []string{b.key}, member, delta, rankCommand[b.order])
	switch {
	case redis.HasErrorPrefix(err, "SCORE"):
		return Update{}, fmt.Errorf("%w: the sum is infinite", ErrScore)
	case err != nil:
		return Update{}, err
	}
	var u Update
	u.Member, u.Changed = member, reply[3] == "1"
	if u.Rank, err = strconv.ParseInt(reply[0], 10, 64); err != nil {
		return Update{}, err
	}
	u.Rank++
	if u.Score, err = strconv.ParseFloat(reply[1], 64); err != nil {
		return Update{}, err
	}
	u.Total, err = strconv.ParseInt(reply[2], 10, 64)
	return u, err
}

func checkMember(member string) error {
	if member == "" {
		return errors.New("the member is empty")
	}
	return nil
}

// formatScore writes a score as Redis and its scripts read it on every version: in full, without an exponent.
func formatScore(what string, score float64) (string, error) {
	if math.IsNaN(score) || math.IsInf(score, 0) {
		return "", fmt.Errorf("%w: the %s is %v", ErrScore, what, score)
	}
	return strconv.FormatFloat(score+0, 'f', -1, 64), nil // + 0 makes -0 a 0
}
