package ranking

import (
	"errors"
	"fmt"

	"github.com/redispatterns/redispatterns/internal/script"
)

var (
	// ErrNotFound means that the member is not on the board. Redis being down is never that.
	ErrNotFound = errors.New("ranking: member not found")
	// ErrScore means that a score is NaN or infinite, or would become so. Nothing was written.
	ErrScore = errors.New("ranking: invalid score")
	// ErrUnknown means that an Increment was sent and no reply came: it may have been applied, so repeating it might count
	// twice. Reading the member tells.
	ErrUnknown = errors.New("ranking: outcome unknown")
)

// wrap names the operation and the key, in one line.
func (b *Leaderboard) wrap(op string, err error) error {
	if script.Unknown(err) {
		err = fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return fmt.Errorf("ranking: %s %q: %w", op, b.key, err)
}
