package lock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redispatterns/redispatterns/internal/script"
)

const (
	minPoll = 10 * time.Millisecond
	maxPoll = 200 * time.Millisecond
)

// poll asks until it gets a lease, at random intervals that grow: how readers, permits and a quorum wait, which have no queue.
func (m *Mutex) poll(ctx context.Context, attempt func(context.Context) (*Lease, *HeldError, error)) (*Lease, int, error) {
	lease, held, err := attempt(ctx)
	if held == nil {
		return lease, 1, err
	}
	over, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(m.locker.closing, func() { cancel(ErrClosed) })()
	failing, trouble := time.Time{}, error(nil) // since when there are errors, and the last
	for attempts, pause := 1, minPoll; ; pause = min(2*pause, maxPoll) {
		if !script.Pause(over, min(pause/2+rand.N(pause), m.locker.opts.PollInterval)) {
			if ctx.Err() == nil {
				return nil, attempts, failed(ctx, "acquire", m.name, ErrClosed)
			}
			if trouble != nil { // whether it is held, nobody knows
				return nil, attempts, failed(ctx, "acquire", m.name, trouble)
			}
			held.Err = ended(ctx)
			return nil, attempts, held
		}
		sent := time.Now()
		attempts++
		lease, refusal, err := attempt(ctx)
		switch {
		case lease != nil:
			return lease, attempts, nil
		case refusal != nil:
			held, failing, trouble = refusal, time.Time{}, nil
		case ctx.Err() != nil && trouble == nil && !unanswered(sent):
			held.Err = ended(ctx)
			return nil, attempts, held
		case ctx.Err() != nil || !failing.IsZero() && time.Since(failing) > m.ttl:
			return nil, attempts, err
		case failing.IsZero():
			failing, trouble = sent, errors.Unwrap(err)
		default:
			trouble = errors.Unwrap(err)
		}
	}
}

// patience is how long an answer is awaited before it counts as missing, and what was seen before it as old.
const patience = 250 * time.Millisecond

// unanswered says whether what was asked then, and has had no answer, has waited too long for one.
func unanswered(asked time.Time) bool { return !asked.IsZero() && time.Since(asked) > patience }
