package script

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// NoRetry keeps go-redis from sending the command again.
type (
	intOnce     struct{ *redis.IntCmd }
	intsOnce    struct{ *redis.IntSliceCmd }
	stringsOnce struct{ *redis.StringSliceCmd }
)

func (intOnce) NoRetry() bool     { return true }
func (intsOnce) NoRetry() bool    { return true }
func (stringsOnce) NoRetry() bool { return true }

func onceInt(c *redis.IntCmd) redis.Cmder             { return intOnce{c} }
func onceInts(c *redis.IntSliceCmd) redis.Cmder       { return intsOnce{c} }
func onceStrings(c *redis.StringSliceCmd) redis.Cmder { return stringsOnce{c} }

// unknownError is a failure after which nobody can say whether the command was executed.
type unknownError struct{ error }

func (e unknownError) Unwrap() error { return e.error }

// Unknown says whether err, of a Once script, leaves open if the script was executed.
func Unknown(err error) bool {
	var u unknownError
	return errors.As(err, &u)
}

const (
	onceTries = 4

	movingFor      = 3 * time.Second // how long a slot that moves is waited for
	movingPause    = 50 * time.Millisecond
	onceMinBackoff = 10 * time.Millisecond
	onceMaxBackoff = time.Second
)

// Sure repeats what go-redis would have repeated of a command that it may not repeat blindly: an attempt that
// surely was not executed. It stops at a result, at an outcome that is unknown, and with the context. A Once script runs
// by it; a pipeline with a command that says NoRetry can too, with that command's error as the attempt's.
func Sure[C any](ctx context.Context, attempt func() (C, error)) (C, error) {
	if err := ctx.Err(); err != nil {
		var none C
		return none, err // nothing was sent
	}
	backoff, began := onceMinBackoff, time.Now()
	for try := 1; ; try++ {
		cmd, err := attempt()
		if err != nil && moving(err) {
			backoff = min(backoff, movingPause)
		}
		switch {
		case err == nil || Replied(err) && !refused(err):
			return cmd, err
		case !refused(err) && !Unsent(err):
			return cmd, unknownError{err}
		case errors.Is(err, redis.ErrClosed) || enough(err, try, began) || !Pause(ctx, backoff+rand.N(backoff)):
			return cmd, err
		}
		backoff = min(backoff*4, onceMaxBackoff/2)
	}
}

// Replied says whether err is the server's own answer: it read the command, and said no.
func Replied(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// refused says whether the server declined to execute the command now and may accept it soon.
func refused(err error) bool {
	return redis.IsLoadingError(err) || redis.IsClusterDownError(err) ||
		redis.IsMasterDownError(err) || redis.IsReadOnlyError(err) || redis.IsMaxClientsError(err) ||
		redis.IsNoReplicasError(err) || moving(err)
}

// moving says whether the slot is on its way from one server to another. Until it has arrived each of them refuses a script
// with several keys of which it has not all, also where no server has them; and go-redis follows three redirections, which
// may not be enough when a slot moves on.
func moving(err error) bool {
	_, moved := redis.IsMovedError(err)
	_, ask := redis.IsAskError(err)
	return moved || ask || redis.IsTryAgainError(err)
}

// enough says whether an attempt that was refused is the last.
func enough(err error, try int, began time.Time) bool {
	if moving(err) {
		return time.Since(began) > movingFor
	}
	return try >= onceTries
}

// settled repeats an attempt that may be repeated until its slot has arrived, for longer than go-redis does.
func settled[C any](ctx context.Context, attempt func() (C, error)) (C, error) {
	for began := time.Now(); ; {
		cmd, err := attempt()
		if err == nil || !moving(err) || enough(err, 0, began) || !Pause(ctx, movingPause/2+rand.N(movingPause)) {
			return cmd, err
		}
	}
}

// Unsent says whether err means that no byte of the command left this process.
func Unsent(err error) bool {
	if errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, redis.ErrClosed) {
		return true
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
