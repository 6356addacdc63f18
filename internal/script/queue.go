package script

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// QueueInt puts the script into a pipeline, where nothing runs it again: a server that has not seen it answers NOSCRIPT,
// after which Int runs it.
func (s *Script) QueueInt(ctx context.Context, p redis.Pipeliner, keys Keys, args ...any) *redis.IntCmd {
	cmd := newInt(ctx, s.commandOf(keys, args)...)
	_ = p.Process(ctx, cmd)
	return cmd
}

// StringsCmd is a command to be put into a pipeline, as QueueInt does, of a script that answers strings. How many, the caller
// looks at.
func (s *Script) StringsCmd(ctx context.Context, keys Keys, args ...any) *redis.StringSliceCmd {
	return newStrings(ctx, s.commandOf(keys, args)...)
}
