// Package script runs Lua scripts on Redis: EVALSHA, EVAL where the server does not know the script, typed and
// length-checked replies, and a variant for scripts that must not run twice.
package script

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns"
)

// Script is Lua source that Redis caches by its SHA-1. Safe for concurrent use.
type Script struct {
	source, sha any // strings, boxed once rather than at every call
	once        bool
}

// New makes a script that may run twice with the effect of once, so go-redis may send it again when a reply is lost.
func New(source string) *Script {
	sum := sha1.Sum([]byte(source))
	return &Script{source: source, sha: hex.EncodeToString(sum[:])}
}

// Once is the same script for a use that would count twice. Such a run is sent again only where it surely did not
// happen; where it may have happened, Unknown(err) is true.
func (s *Script) Once() *Script {
	return &Script{source: s.source, sha: s.sha, once: true}
}

// Int runs the script and returns the integer that it answers.
func (s *Script) Int(ctx context.Context, c redispatterns.Client, keys []string, args ...any) (int64, error) {
	cmd, err := run(ctx, c, s, s.command(keys, args), newInt, onceInt)
	if err != nil {
		return 0, err
	}
	return cmd.Val(), nil
}

// Ints runs the script and returns the n integers that it answers.
func (s *Script) Ints(ctx context.Context, c redispatterns.Client, n int, keys []string, args ...any) ([]int64, error) {
	cmd, err := run(ctx, c, s, s.command(keys, args), newInts, onceInts)
	if err != nil {
		return nil, err
	}
	return sized(cmd.Val(), n)
}

// Strings runs the script and returns the n strings that it answers; an integer among them arrives in decimal, a nil as "".
func (s *Script) Strings(ctx context.Context, c redispatterns.Client, n int, keys []string, args ...any) ([]string, error) {
	cmd, err := run(ctx, c, s, s.command(keys, args), newStrings, onceStrings)
	if err != nil {
		return nil, err
	}
	return sized(cmd.Val(), n)
}

// AnyLength, as n, accepts a reply of any length.
const AnyLength = -1

func sized[T any](reply []T, n int) ([]T, error) {
	if n != AnyLength && len(reply) != n {
		return nil, fmt.Errorf("script answered %d values, not %d", len(reply), n)
	}
	return reply, nil
}

// run sends EVALSHA, and EVAL where the server has not seen the script. It reads the command's own error, since an
// asynchronous AutoPipeliner's Process returns before the reply is there.
func run[C redis.Cmder](
	ctx context.Context, c redispatterns.Client, s *Script, all []any,
	command func(context.Context, ...any) C, once func(C) redis.Cmder,
) (C, error) {
	if err := ctx.Err(); err != nil {
		var none C
		return none, err // nothing was sent
	}
	send := func() (C, error) {
		cmd := command(ctx, all...)
		if s.once {
			_ = c.Process(ctx, once(cmd))
		} else {
			_ = c.Process(ctx, cmd)
		}
		return cmd, cmd.Err()
	}
	attempt := func() (C, error) {
		cmd, err := send()
		if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
			all[0], all[1] = "eval", s.source
			cmd, err = send()
			all[0], all[1] = "evalsha", s.sha
		}
		return cmd, err
	}
	if !s.once {
		return settled(ctx, attempt)
	}
	return Sure(ctx, attempt)
}

// command is the script as EVALSHA.
func (s *Script) command(keys []string, args []any) []any {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, "evalsha", s.sha, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	return append(all, args...)
}

func newInt(ctx context.Context, args ...any) *redis.IntCmd { return redis.NewIntCmd(ctx, args...) }

func newInts(ctx context.Context, args ...any) *redis.IntSliceCmd {
	return redis.NewIntSliceCmd(ctx, args...)
}

func newStrings(ctx context.Context, args ...any) *redis.StringSliceCmd {
	return redis.NewStringSliceCmd(ctx, args...)
}
