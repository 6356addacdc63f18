package script

import (
	"context"
	"time"
)

const (
	cleanupBound    = 5 * time.Second
	cleanupTries    = 3
	cleanupInterval = 100 * time.Millisecond
)

// Cleanup runs undo after an operation whose context has ended or whose outcome is unknown: without that context's end,
// at most three times, and for at most five seconds. It blocks; what it could not undo lives one TTL.
func Cleanup(ctx context.Context, undo func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupBound)
	defer cancel()
	for try := 1; ; try++ {
		err := undo(ctx)
		if err == nil || try == cleanupTries || !Pause(ctx, cleanupInterval) {
			return err
		}
	}
}
