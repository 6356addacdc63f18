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

// QueueStrings is QueueInt for a script that answers strings.
func (s *Script) QueueStrings(ctx context.Context, p redis.Pipeliner, keys Keys, args ...any) *redis.StringSliceCmd {
	cmd := newStrings(ctx, s.commandOf(keys, args)...)
	_ = p.Process(ctx, cmd)
	return cmd
}
