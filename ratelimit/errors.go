package ratelimit

import (
	"errors"
	"fmt"

	"github.com/redispatterns/redispatterns/internal/script"
)

var (
	// ErrInvalidLimit is a Limit that no limiter can hold: the error says which rule it breaks.
	ErrInvalidLimit = errors.New("ratelimit: invalid limit")
	// ErrInvalidID is an id that cannot be part of a key: empty, over 512 bytes, or ending as the keys of other limiters do.
	ErrInvalidID = errors.New("ratelimit: invalid id")
	// ErrCost is a cost that can never pass, however long one waits.
	ErrCost = errors.New("ratelimit: cost exceeds the limit")
	// ErrUnavailable means that Redis gave no decision. The reason is wrapped.
	ErrUnavailable = errors.New("ratelimit: redis unavailable")
	// ErrUnknown means that the request was sent and no reply came: it may have been counted. It matches ErrUnavailable too.
	ErrUnknown error = unknown{}
)

type unknown struct{}

func (unknown) Error() string { return "ratelimit: outcome unknown" }

func (unknown) Unwrap() error { return ErrUnavailable }

// unavailable classes what came of asking Redis. Where go-redis sends a request again, nobody but the last error tells
// whether one was sent at all.
func unavailable(err error, repeated bool) error {
	if script.Unknown(err) || repeated && !script.Replied(err) && !script.Unsent(err) {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
