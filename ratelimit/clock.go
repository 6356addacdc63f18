package ratelimit

import (
	"sync/atomic"
	"time"
)

// clock estimates the server's time between the replies that tell it. It decides nothing: it names the window that is
// probably right, which the server checks, and says how long that window still lasts.
type clock struct {
	base    time.Time    // of this process, with its monotonic reading
	offset  atomic.Int64 // the server's time at base, in microseconds since 1970
	learned atomic.Int64 // when the server told its time last, in nanoseconds since base; 0: never
}

// fresh is for how long a told time is good enough: oscillators part by less than a millisecond in it.
const fresh = time.Second

func newClock() *clock {
	c := &clock{base: time.Now()}
	c.offset.Store(c.base.UnixMicro())
	return c
}

func (c *clock) elapsed() time.Duration { return time.Since(c.base) }

// now is the server's time as far as is known, in microseconds since 1970.
func (c *clock) now() int64 { return c.offset.Load() + c.elapsed().Microseconds() }

func (c *clock) stale() bool {
	learned := c.learned.Load()
	return learned == 0 || c.elapsed()-time.Duration(learned) > fresh
}

// learn corrects the estimate by a time that the server told in reply to a request sent at the time sent. The server read
// its clock between then and now, so the offset lies in an interval; the estimate moves into it by as little as it must.
func (c *clock) learn(sent time.Duration, server int64) {
	received := c.elapsed()
	lowest, highest := server-received.Microseconds()-1, server-sent.Microseconds()+1
	for {
		old := c.offset.Load()
		if c.offset.CompareAndSwap(old, min(max(old, lowest), highest)) {
			break
		}
	}
	c.learned.Store(int64(max(received, 1)))
}
