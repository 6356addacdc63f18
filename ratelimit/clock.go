package ratelimit

import (
	"sync"
	"sync/atomic"
	"time"
)

// clock estimates the server's time between the replies that tell it. It decides nothing: it names the window that is
// probably right, which the server checks, and says how long that window still lasts.
type clock struct {
	base    time.Time    // of this process, with its monotonic reading
	offset  atomic.Int64 // the server's time at base, in microseconds since 1970
	learned atomic.Int64 // when the server told its time last, in nanoseconds since base; 0: never
	near    atomic.Int64 // when it did so within a millisecond: what it tells is as old as its reply was long on the way
	spread  atomic.Int64 // by how much the estimate may be ahead of the server's time since then, in microseconds

	mu     sync.Mutex
	since  time.Duration // from when on what the server told agrees with
	agreed int64         // this offset
	steady atomic.Bool   // for long enough
}

const (
	fresh       = time.Second            // for so long a told time is good enough: oscillators part by less than
	apart       = 1000                   // microseconds in it
	steadyAfter = 100 * time.Millisecond // in which a clock that stands still, as a test's, shows that it does
)

func newClock() *clock {
	c := &clock{base: time.Now()}
	c.offset.Store(c.base.UnixMicro())
	return c
}

func (c *clock) elapsed() time.Duration { return time.Since(c.base) }

// now is the server's time as far as is known, in microseconds since 1970.
func (c *clock) now() int64 { return c.offset.Load() + c.elapsed().Microseconds() }

func (c *clock) stale() bool { return c.over(&c.learned) }

// over says whether it is too long since an event.
func (c *clock) over(event *atomic.Int64) bool {
	at := event.Load()
	return at == 0 || c.elapsed()-time.Duration(at) > fresh
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

	c.mu.Lock()
	defer c.mu.Unlock()
	now, near := c.offset.Load(), highest-lowest <= apart
	if near {
		c.spread.Store(now - lowest)
		c.near.Store(int64(max(received, 1)))
	}
	switch d := now - c.agreed; {
	case d < -apart || d > apart:
		c.since, c.agreed = received, now
		c.steady.Store(false)
	case near && received-c.since >= steadyAfter: // a slow reply agrees with anything
		c.steady.Store(true)
	}
}

// earliest is the server's time at the earliest, where it is known well enough to say for how long a window lasts.
func (c *clock) earliest() (now int64, known bool) {
	return c.now() - c.spread.Load(), c.steady.Load() && !c.over(&c.near)
}
