package ranking

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/script"
)

var (
	// ErrNotFound means that the member is not on the board. Redis being down is never that.
	ErrNotFound = errors.New("ranking: member not found")
	// ErrScore means that a score is NaN or infinite, or not exact where the board needs it to be, or that a sum would be.
	// Nothing was written.
	ErrScore = errors.New("ranking: invalid score")
	// ErrWindowClosed means that by Redis' clock it is too late, or too early, to write. Nothing was written.
	ErrWindowClosed = errors.New("ranking: window closed")
	// ErrTooDeep means that a page or neighbourhood of a sharded board lies deeper than it reads. See NewSharded.
	ErrTooDeep = errors.New("ranking: too deep")
	// ErrUnsupported means that this kind of board cannot do that, or that the board was written with other options.
	ErrUnsupported = errors.New("ranking: not supported by this board")
	// ErrUnknown means that an Increment was sent and no reply came: it may have been applied, so repeating it might count
	// twice. Reading the member tells. What may simply be repeated, as Set, Best and Remove, has no such error: when no reply
	// came it may have been applied too.
	ErrUnknown = errors.New("ranking: outcome unknown")
)

var errSharded = fmt.Errorf("%w: it is sharded", ErrUnsupported)

// wrap names the operation and the key, in one line.
func (b *Leaderboard) wrap(op string, err error) error {
	if script.Unknown(err) {
		err = fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return fmt.Errorf("ranking: %s %q: %w", op, b.key, err)
}

// refused are the errors that the scripts answer.
var refused = map[string]error{
	"SCORE": ErrScore, "CLOSED": ErrWindowClosed, "UNSUPPORTED": ErrUnsupported, "NOTFOUND": ErrNotFound,
}

// fromScript turns a script's own error into the package's.
func fromScript(err error) error {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return err
	}
	code, reason, _ := strings.Cut(reply.Error(), " ")
	switch sentinel, ok := refused[code]; {
	case !ok:
		return err
	case sentinel == ErrNotFound:
		return sentinel
	default:
		return fmt.Errorf("%w: %s", sentinel, reason)
	}
}
