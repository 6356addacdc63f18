package script

import (
	"context"

	"github.com/redispatterns/redispatterns"
)

// Keys are keys, strings, that are used again and again and so boxed once rather than at every call.
type Keys []any

// IntOf is Int for Keys.
func (s *Script) IntOf(ctx context.Context, c redispatterns.Client, keys Keys, args ...any) (int64, error) {
	cmd, err := run(ctx, c, s, s.commandOf(keys, args), newInt, onceInt)
	if err != nil {
		return 0, err
	}
	return cmd.Val(), nil
}

// StringsOf is Strings for Keys.
func (s *Script) StringsOf(ctx context.Context, c redispatterns.Client, n int, keys Keys, args ...any) ([]string, error) {
	cmd, err := run(ctx, c, s, s.commandOf(keys, args), newStrings, onceStrings)
	if err != nil {
		return nil, err
	}
	return sized(cmd.Val(), n)
}

func (s *Script) commandOf(keys Keys, args []any) []any {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, "evalsha", s.sha, len(keys))
	return append(append(all, keys...), args...)
}
