package ratelimit

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/script"
)

//go:embed fixedwindow.lua
var fixedWindowSource string

//go:embed fixedreset.lua
var fixedResetSource string

//go:embed refund.lua
var refundSource string

var (
	fixedWindowScript = script.New(fixedWindowSource)
	fixedWindowOnce   = fixedWindowScript.Once() // a repeated count would count twice
	fixedResetScript  = script.New(fixedResetSource)
	refundOnce        = script.New(refundSource).Once()
)

// NewFixedWindow limits events in windows that begin at multiples of limit.Per since 1970, in UTC: with PerMinute, on the
// minute. It is the cheapest algorithm: one counter per id and window, with a key as readable as
// ratelimit:user42:2026-08-09T12:00 and gone when the window ends. Around that end it lets up to twice the limit through
// in quick succession, once from each side.
//
// A request whose reply is lost is not sent again, since it might count twice: its error is [ErrUnknown].
func NewFixedWindow(client redispatterns.Client, limit Limit, opts *Options) (*Limiter, error) {
	return newLimiter(client, one(limit), opts, func(k keys) algorithm {
		return &fixedWindow{keys: k, clock: newClock(), limit: box(limit), full: newFullWindows()}
	})
}

type fixedWindow struct {
	keys
	clock *clock
	limit boxed
	last  atomic.Pointer[window]
	full  *fullWindows
}

// window is one window of time, and how it is written.
type window struct {
	per        time.Duration
	start, end int64 // milliseconds
	label      string
	endArg     any // end and length, boxed once
	lengthArg  any
}

const (
	forcedTry = 3  // from which on a window may begin early: another node of the cluster says that it has begun
	lastTry   = 10 // only windows shorter than a round trip come to this
)

func (f *fixedWindow) check(_ int, limit Limit) error { return limit.check() }

func (f *fixedWindow) most(_ int, limit Limit) int64 { return limit.Events }

func (f *fixedWindow) take(ctx context.Context, id string, limits []Limit, n int64) (result Result, err error) {
	limit := limits[0]
	err = f.inWindow(limit.Per, func(w *window, length any) (other int64, err error) {
		key, sent := f.prefix+id+w.label, f.clock.elapsed()
		if n > 0 && f.full.has(key) {
			if denied, ok, err := f.stillFull(ctx, key, n, limit, w); ok || err != nil {
				result = denied
				return 0, err
			}
		}
		verdict, used, now, err := f.count(ctx, key, n, limit, w, length)
		if err != nil {
			return 0, keyed(key, err)
		}
		if now == 0 {
			now = f.clock.now()
		} else {
			f.clock.learn(sent, now)
		}
		if verdict == otherWindow {
			return now, nil
		}
		now = min(max(now, w.start*1000), w.end*1000-1) // on a cluster, nodes may see it otherwise
		result = decided(fixedStanding(limit, wanted(n, verdict == counted && n > 0), used, now), n, verdict == counted)
		switch {
		case n == 0:
		case result.Allowed:
			result.taken = &taken{key: key}
		case result.Remaining == 0: // what is too much for n alone says nothing of the next call
			f.full.add(key)
		}
		return 0, nil
	})
	return result, err
}

// The verdicts of fixedwindow.lua.
const (
	counted     = 1
	tooMuch     = 0
	otherWindow = -1
)

// count runs the script. An integer in reply is cheaper than a table and says all there is to say of a denied cost of 1:
// nothing remains. now is 0 where the script did not ask for the time.
func (f *fixedWindow) count(ctx context.Context, key string, n int64, limit Limit, w *window, length any) (verdict, used, now int64, err error) {
	events := f.limit.of(limit).events
	if n != 1 || f.clock.stale() {
		reply, err := sent(fixedWindowScript, fixedWindowOnce, n).Ints(ctx, f.client, 3, []string{key}, events, w.endArg, length, n)
		if err != nil {
			return 0, 0, 0, err
		}
		return reply[0], reply[1], reply[2], nil
	}
	reply, err := fixedWindowOnce.Int(ctx, f.client, []string{key}, events, w.endArg, length)
	switch {
	case err != nil:
		return 0, 0, 0, err
	case reply > 0:
		return counted, reply, 0, nil
	case w.holds(-reply) || length != w.lengthArg && -reply < w.start*1000:
		return tooMuch, limit.Events, -reply, nil
	}
	return otherWindow, 0, -reply, nil
}

// fixedStanding is what used events of now's window mean for who wants n more.
func fixedStanding(limit Limit, n, used, now int64) RuleResult {
	per := limit.Per.Microseconds()
	left := time.Duration(per-now%per) * time.Microsecond
	var retry, reset time.Duration
	if used > 0 {
		reset = left
	}
	if n > 0 && used+n > limit.Events {
		retry = left
	}
	return standing(limit, used, retry, reset)
}

func (f *fixedWindow) refund(ctx context.Context, t *taken) error {
	f.full.drop(t.key)
	_, err := refundOnce.Int(ctx, f.client, []string{t.key}, t.n)
	return keyed(t.key, err)
}

func (f *fixedWindow) reset(ctx context.Context, id string, limits []Limit) error {
	if limits[0] == Unlimited {
		return nil
	}
	return f.inWindow(limits[0].Per, func(w *window, length any) (other int64, err error) {
		key, sent := f.prefix+id+w.label, f.clock.elapsed()
		f.full.drop(key)
		now, err := fixedResetScript.Int(ctx, f.client, []string{key}, w.endArg, length)
		if err != nil {
			return 0, keyed(key, err)
		}
		if now != 0 {
			f.clock.learn(sent, now)
		}
		return now, nil
	})
}

// holds says whether now, in microseconds, is in the window.
func (w *window) holds(now int64) bool { return now >= w.start*1000 && now < w.end*1000 }

// inWindow asks in the window of now, as far as the clock knows, and then in that of the time which the server answers, if
// that is another. On a cluster the windows of one id lie on nodes whose clocks differ, so it never goes back behind a window
// that some node has reported; else it would be sent to and fro for as long as the clocks are apart.
func (f *fixedWindow) inWindow(per time.Duration, ask func(w *window, length any) (other int64, err error)) error {
	now := f.clock.now()
	var reported int64
	for try := 1; try <= lastTry; try++ {
		w := f.window(per, now)
		length := w.lengthArg
		if try >= forcedTry {
			length = w.endArg
		}
		other, err := ask(w, length)
		if other == 0 || err != nil {
			return err
		}
		reported = max(reported, other)
		now = reported
	}
	return errNoWindow
}

// errNoWindow counts nothing: each window took its count back.
var errNoWindow error = &lookError{fmt.Errorf("windows ended faster than Redis answered, %d times", lastTry)}

// window is the window that now, in microseconds, lies in. The last one is kept, since nearly every call wants it.
func (f *fixedWindow) window(per time.Duration, now int64) *window {
	ms := per.Milliseconds()
	start := now / 1000 / ms * ms
	w := f.last.Load()
	if w == nil || w.start != start || w.per != per {
		w = &window{per: per, start: start, end: start + ms, label: ":" + label(start, per), endArg: start + ms, lengthArg: ms}
		f.last.Store(w)
	}
	return w
}

// label is how a window's key ends. Its width follows the unit, and a window that is not one whole unit adds its length,
// so that no two windows of one id, of whatever lengths, have the same.
func label(start int64, per time.Duration) string {
	const layout = "2006-01-02T15:04:05.000"
	unit, width := time.Millisecond, 23
	for _, u := range []struct {
		unit  time.Duration
		width int
	}{{time.Second, 19}, {time.Minute, 16}, {time.Hour, 13}, {24 * time.Hour, 10}} {
		if per%u.unit == 0 {
			unit, width = u.unit, u.width
		}
	}
	s := time.UnixMilli(start).UTC().Format(layout[:width])
	if per == unit && unit != time.Millisecond {
		return s
	}
	length := per.String() // of 1h30m0s the end says nothing
	if t := strings.TrimSuffix(length, "m0s"); t != length {
		length = t + "m"
	}
	if t := strings.TrimSuffix(length, "h0m"); t != length {
		length = t + "h"
	}
	return s + "/" + length
}

// endsInLabel says whether id ends as a window's key does.
func endsInLabel(id string) bool {
	if i := strings.LastIndexByte(id, '/'); i >= 0 {
		if _, err := time.ParseDuration(id[i+1:]); err == nil {
			id = id[:i]
		}
	}
	const shape = "0000-00-00T00:00:00.000"
	for _, width := range []int{10, 13, 16, 19, 23} {
		if from := len(id) - width; from >= 0 && (from == 0 || id[from-1] == ':') && shaped(id[from:], shape[:width]) {
			return true
		}
	}
	return false
}

// shaped says whether s has a digit wherever shape has a 0, and the same byte elsewhere.
func shaped(s, shape string) bool {
	for i := range len(shape) {
		if c := s[i]; shape[i] == '0' && (c < '0' || c > '9') || shape[i] != '0' && c != shape[i] {
			return false
		}
	}
	return true
}
