package ranking

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/script"
)

var (
	//go:embed write.lua
	writeSource string
	writeScript = script.New(writeSource)
	writeOnce   = writeScript.Once()

	//go:embed one.lua
	oneSource string
	oneScript = script.New(oneSource)
	oneOnce   = oneScript.Once()
)

// verb is what write.lua does with a score.
type verb string

const (
	set  verb = "set"
	best verb = "best"
	add  verb = "add"
)

// Set makes score the member's score, whatever it was, and answers where the member stands now.
//
// On a board with MaxSize a member that is not among the best afterwards is ErrNotFound, with Total. So is a member that
// another process removed in the moment after the write.
func (b *Leaderboard) Set(ctx context.Context, member string, score float64) (Update, error) {
	u, err := b.put(ctx, set, member, score)
	if err != nil {
		return u, b.wrap("set", err)
	}
	return u, nil
}

// Best makes score the member's score if it is better than the stored one, or if there is none: higher, or lower on an
// Ascending board. It answers where the member stands now, with the score that holds. However often and in whatever order
// scores arrive, the best of them stays, so Best may always be repeated.
func (b *Leaderboard) Best(ctx context.Context, member string, score float64) (Update, error) {
	u, err := b.put(ctx, best, member, score)
	if err != nil {
		return u, b.wrap("best", err)
	}
	return u, nil
}

// Increment adds delta, which may be negative, to the member's score, and answers where the member stands now. A member
// that is not there begins with 0.
//
// A member that another process removed in that moment is ErrNotFound, though delta was added.
//
// It is sent once. If no reply comes, the error is ErrUnknown: it may have been applied, or not. Where events carry an id,
// IncrementOnce is the better one.
func (b *Leaderboard) Increment(ctx context.Context, member string, delta float64) (Update, error) {
	u, err := b.increment(ctx, member, delta)
	if err != nil {
		return u, b.wrap("increment", err)
	}
	return u, nil
}

// IncrementOnce is Increment that a repetition of the operation op does not apply again: for events that may be delivered
// more than once, and for lost replies, after which it may be called again. A repetition answers where the member stands
// now, with Changed false; ErrNotFound if it was removed since. One that was refused is not remembered.
//
// An operation belongs to the board, whatever its member and delta; on a sharded board to the member's shard, so it has to be
// repeated for the same member. It is remembered for OnceFor at least and twice that at most, beside the board and whatever
// the board's TTL.
func (b *Leaderboard) IncrementOnce(ctx context.Context, member string, delta float64, op string) (Update, error) {
	u, err := b.incrementOnce(ctx, member, delta, op)
	if err != nil {
		return u, b.wrap("increment once", err)
	}
	return u, nil
}

func (b *Leaderboard) put(ctx context.Context, v verb, member string, score float64) (Update, error) {
	text, err := b.check(member, "score", score)
	if err != nil {
		return Update{}, err
	}
	switch s := b.shards; {
	case s != nil && v == set:
		return s.set(ctx, b, member, score, text)
	case s != nil:
		return s.write(ctx, b, member, func(home *Leaderboard) (Update, error) { return home.put(ctx, v, member, score) })
	}
	switch {
	case b.plain() && !b.merges && (v == set || b.options.Ties == Ordinal):
		return b.putPlain(ctx, v, member, score, text)
	case b.alone():
		return b.one(ctx, v, member, text)
	}
	return b.run(ctx, v, "", member, text)
}

func (b *Leaderboard) increment(ctx context.Context, member string, delta float64) (Update, error) {
	text, err := b.check(member, "delta", delta)
	if err != nil {
		return Update{}, err
	}
	if s := b.shards; s != nil {
		u, err := s.write(ctx, b, member, func(home *Leaderboard) (Update, error) { return home.increment(ctx, member, delta) })
		if err != nil && u.Member != "" {
			err = unplaced(err)
		}
		return u, err
	}
	if !b.options.Integers && math.Abs(delta) < maxSafeDelta {
		switch {
		case b.plain() && !b.merges && b.options.Ties == Ordinal:
			return b.addPlain(ctx, member, text)
		case b.alone():
			return b.one(ctx, add, member, text)
		}
	}
	return b.run(ctx, add, "", member, text)
}

func (b *Leaderboard) incrementOnce(ctx context.Context, member string, delta float64, op string) (Update, error) {
	text, err := b.check(member, "delta", delta)
	if err != nil {
		return Update{}, err
	}
	if op == "" {
		return Update{}, errEmptyOperation
	}
	if s := b.shards; s != nil {
		return s.write(ctx, b, member, func(home *Leaderboard) (Update, error) {
			return home.incrementOnce(ctx, member, delta, op)
		})
	}
	return b.run(ctx, add, op, member, text)
}

// run writes one score by the script.
func (b *Leaderboard) run(ctx context.Context, v verb, op, member, score string) (Update, error) {
	reply, err := b.script(ctx, []*Leaderboard{b}, v, op, 4, member, score)
	if err != nil {
		return Update{}, err
	}
	return b.update(member, reply)
}

// script runs write.lua on boards that share b's options, with pairs of member and score; n values answer it. An add
// without an operation is sent once, as a repetition would count twice.
func (b *Leaderboard) script(ctx context.Context, boards []*Leaderboard, v verb, op string, n int, pairs ...any) ([]string, error) {
	keys := make([]string, 0, 2*len(boards)+len(b.memory))
	args := make([]any, 0, 9+3*len(boards)+len(pairs))
	args = append(args, string(v), b.settings.order, b.ties, b.limit, b.size, b.ttl, op, b.onceFor, len(boards))
	for _, board := range boards {
		keys = append(keys, board.key)
		if board.beside != board.key {
			keys = append(keys, board.beside)
		}
		args = append(args, board.opens, board.closes, board.record)
	}
	if op != "" {
		keys = append(keys, b.memory[:]...)
	}
	args = append(args, pairs...)
	s := writeScript
	if v == add && op == "" {
		s = writeOnce
	}
	reply, err := s.Strings(ctx, b.client, n, keys, args...)
	return reply, fromScript(err)
}

// one writes one score by the script for boards that are alone; a delta makes no score infinite.
func (b *Leaderboard) one(ctx context.Context, v verb, member, score string) (Update, error) {
	s, how := oneScript, any("set")
	switch v {
	case best:
		how = betterFlag[b.options.Order]
	case add:
		s, how = oneOnce, "add"
	}
	reply, err := s.StringsOf(ctx, b.client, 4, b.only, how, member, score, b.ranks, b.ttl)
	if err != nil {
		return Update{}, err
	}
	return b.update(member, reply)
}

// alone says whether the board is one key, which keeps all members and expires after its TTL or never.
func (b *Leaderboard) alone() bool {
	return b.options.Ties <= Competition && b.options.MaxSize == 0 && b.closes == 0
}

// plain says whether a command without a script leaves the board right.
func (b *Leaderboard) plain() bool { return b.alone() && b.options.TTL == 0 }

// putPlain writes a score, and asks for the standing in the same pipeline. It may be sent again: the end is the same.
func (b *Leaderboard) putPlain(ctx context.Context, v verb, member string, score float64, text string) (Update, error) {
	m, args := any(member), make(arguments, 0, 16)
	var zadd *redis.IntCmd
	if v == set {
		zadd = redis.NewIntCmd(ctx, args.next("zadd", b.boxed, "ch", text, m)...)
	} else {
		zadd = redis.NewIntCmd(ctx, args.next("zadd", b.boxed, betterFlag[b.options.Order], "ch", text, m)...)
	}
	var better []any
	switch { // of Competition the score is known, and the rank is how many are better
	case b.options.Ties == Ordinal:
		better = args.next(rankCommand[b.options.Order], b.boxed, m)
	case b.options.Order == Descending:
		better = args.next("zcount", b.boxed, "("+text, "+inf")
	default:
		better = args.next("zcount", b.boxed, "-inf", "("+text)
	}
	after := b.newStanding(ctx, &args, better)
	if v == best {
		after.score = b.newScore(ctx, &args, m)
	}
	after.send(ctx, b.client, zadd)
	if err := zadd.Err(); err != nil {
		return Update{}, err
	}
	s, err := after.result(member)
	if v == set {
		s.Score = score + 0
	}
	return Update{Standing: s, Changed: zadd.Val() == 1}, err
}

// maxSafeDelta is half the distance between the two largest float64: no delta below it makes a finite score infinite.
const maxSafeDelta = 0x1p970

// addPlain adds to a score and asks for the standing in one pipeline, which is sent once.
func (b *Leaderboard) addPlain(ctx context.Context, member, text string) (Update, error) {
	type attempt struct {
		before *redis.FloatCmd
		sum    *redis.FloatCmd
		after  standingCmds
	}
	sent, err := script.Sure(ctx, func() (attempt, error) {
		m, args := any(member), make(arguments, 0, 16)
		a := attempt{
			b.newScore(ctx, &args, m), redis.NewFloatCmd(ctx, args.next("zincrby", b.boxed, text, m)...),
			b.newStanding(ctx, &args, args.next(rankCommand[b.options.Order], b.boxed, m)),
		}
		a.after.send(ctx, b.client, a.before, onceFloat{a.sum})
		return a, a.sum.Err()
	})
	if err != nil {
		return Update{}, err
	}
	u := Update{Changed: sent.before.Err() != nil || sent.before.Val() != sent.sum.Val()} // an error but Nil is the sum's too
	u.Standing, err = sent.after.result(member)
	u.Score = sent.sum.Val()
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Update{}, unplaced(err)
	}
	return u, err
}

// unplaced is the error of an increment that must not be repeated, though only what followed it has failed.
func unplaced(err error) error {
	return fmt.Errorf("%w: it was applied, and its rank is not known: %w", ErrUnknown, err)
}

// onceFloat keeps go-redis from sending a pipeline again.
type onceFloat struct{ *redis.FloatCmd }

func (onceFloat) NoRetry() bool { return true }

// check refuses what cannot be stored, and formats the rest.
func (b *Leaderboard) check(member, what string, score float64) (string, error) {
	switch {
	case member == "":
		return "", errEmptyMember
	case math.IsNaN(score) || math.IsInf(score, 0):
		return "", fmt.Errorf("%w: the %s is %v", ErrScore, what, score)
	case (b.options.Integers || b.record != "") && score != math.Trunc(score):
		return "", fmt.Errorf("%w: the %s is %v, and the board's scores are integers", ErrScore, what, score)
	case b.options.Integers && math.Abs(score) > maxInteger:
		return "", fmt.Errorf("%w: the %s is %.0f, beyond 2^53 - 1", ErrScore, what, score)
	case b.record != "" && !b.room(score):
		return "", fmt.Errorf("%w: the %s is %.0f, beyond what Earliest leaves room for", ErrScore, what, score)
	}
	return formatScore(score), nil
}

// formatScore writes a score as Redis and its scripts read it on every version: in full, without an exponent.
func formatScore(score float64) string {
	return strconv.FormatFloat(score+0, 'f', -1, 64) // + 0 makes -0 a 0
}

var (
	errEmptyMember    = errors.New("the member is empty")
	errEmptyOperation = errors.New("the operation is empty")
)
