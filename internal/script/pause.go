package script

import (
	"context"
	"time"
)

// Pause waits for d; false when the context has ended by then.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
			<-ctx.Done() // whose timer is late
		}
		return ctx.Err() == nil // both at once: an attempt now would only turn "not applied" into "unknown"
	case <-ctx.Done():
		return false
	}
}
