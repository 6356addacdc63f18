package main

import (
	"fmt"
	"slices"
	"time"
)

// bound is how many events a limiter may let through within any window of this length, or within one that begins at a
// multiple of its length.
type bound struct {
	window  time.Duration
	most    int64
	aligned bool
}

// admitted is a decision to let n events through, which Redis took at some time between From and To, in nanoseconds.
type admitted struct {
	Limiter, ID string
	From, To    int64
	N           int64
}

// bounds are what the packages state of each limiter of the workers; see limits.go for the limiters.
var bounds = map[string][]bound{
	"fixed":   {{time.Second, limitEvents, true}},
	"sliding": {{time.Second, limitEvents, false}},
	"counter": {{time.Second, limitEvents, true}, {time.Second, 2 * limitEvents, false}},
	"bucket":  {{time.Second, limitEvents + limitBurst, false}, {10 * time.Second, 10*limitEvents + limitBurst, false}},
	"multi": {
		{time.Second, limitEvents + limitBurst, false}, {slowWindow, slowEvents, true}, {slowWindow, 2 * slowEvents, false},
	},
}

// tally is what one limiter has let through for one id.
type tally struct {
	bounds []bound
	events []admitted
}

// check looks at all that was let through so far, and forgets what no later event can share a window with: an event may
// be told late, where its worker is stopped.
func (t *tally) check(now time.Time) error {
	slices.SortFunc(t.events, func(a, b admitted) int { return int(a.From - b.From) })
	for _, b := range t.bounds {
		if err := b.check(t.events); err != nil {
			return err
		}
	}
	old := now.Add(-30 * time.Second).UnixNano()
	t.events = slices.DeleteFunc(t.events, func(e admitted) bool { return e.From < old })
	return nil
}

// check finds a window with more than the bound in it for certain: with events that began and ended in it. They are in the
// order of their beginnings.
func (b bound) check(events []admitted) error {
	length := b.window.Nanoseconds()
	for i, first := range events {
		end := first.From + length
		if b.aligned {
			end = first.From - first.From%length + length
		}
		var sum int64
		for _, e := range events[i:] {
			if e.From >= end {
				break
			}
			if e.To < end {
				sum += e.N
			}
		}
		if sum > b.most {
			kind := "a window"
			if b.aligned {
				kind = "a window at a multiple of its length"
			}
			return fmt.Errorf("%s of %q let %d through in %s of %v, where %d may pass: from %s on", first.Limiter, first.ID, sum, kind,
				b.window, b.most, time.Unix(0, first.From).UTC().Format(time.RFC3339Nano))
		}
	}
	return nil
}
