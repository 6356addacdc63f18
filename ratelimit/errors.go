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
	// ErrUnknown means that the request was sent and no reply came: it may have been counted. It matches ErrUnavailable too. A
	// sliding window's request may be sent several times and still counts once; only its last try is known, so an error that is
	// not ErrUnknown does not prove that no earlier try was counted.
	ErrUnknown error = unknown{}
)

type unknown struct{}

func (unknown) Error() string { return "ratelimit: outcome unknown" }

func (unknown) Unwrap() error { return ErrUnavailable }

// unavailable classes what came of asking Redis. Where go-redis sends a request again, nobody but the last error tells
// whether one was sent at all.
func unavailable(err error, repeated bool) error {
	if looked, ok := errors.AsType[*lookError](err); ok {
		return fmt.Errorf("%w: %w", ErrUnavailable, looked)
	}
	if script.Unknown(err) || repeated && !script.Replied(err) && !script.Unsent(err) {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// lookError is the failure of what has counted nothing, whatever became of it.
type lookError struct{ error }

func (e *lookError) Unwrap() error { return e.error }
