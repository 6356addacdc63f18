package ratelimit

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// denials remembers, in this process, who was denied what and until when. It holds denials alone, so it can deny late but
// never admit too much: late after a Reset or Refund in another process, or after a limit was raised elsewhere, and for
// longest a second.
//
// It is a table without locks, since a flood reads one place of it from every core: a denial stands in one of the few places
// from its id's hash on, and never changes.
type denials struct {
	base   time.Time
	seed   maphash.Seed
	places []atomic.Pointer[denial]
	epochs [64]atomic.Uint32 // how often an id was forgotten, by its hash
}

// denial is what was denied, and when.
type denial struct {
	id     string
	limits []Limit
	n      int64
	result Result
	at     time.Duration // since base
	sure   atomic.Bool   // not of before the id was forgotten

	asked   atomic.Bool   // somebody asks for it again,
	done    chan struct{} // and has been answered,
	failure error         // or not
}

const (
	denialLife   = time.Second // or RetryAfter, if that is less
	denialPlaces = 8           // that an id can stand in
)

func newDenials(size int) *denials {
	return &denials{base: time.Now(), seed: maphash.MakeSeed(), places: make([]atomic.Pointer[denial], size)}
}

// of are the places that id's denial can stand in.
func (d *denials) of(id string) []atomic.Pointer[denial] {
	n := min(denialPlaces, len(d.places))
	at := int(maphash.String(d.seed, id) % uint64(len(d.places)-n+1))
	return d.places[at : at+n]
}

// epoch tells whether an id was forgotten since: what was asked before that may be of before.
func (d *denials) epoch(id string) *atomic.Uint32 {
	return &d.epochs[maphash.String(d.seed, id)%uint64(len(d.epochs))]
}

// remember keeps a denial that was asked for in an epoch: in the place of the id's last one, in one that is free, or in that
// of the oldest.
func (d *denials) remember(id string, limits []Limit, n int64, r Result, epoch uint32) {
	places := d.of(id)
	best, before, rank := 0, (*denial)(nil), time.Duration(math.MaxInt64)
	for i := range places {
		e := places[i].Load()
		var of time.Duration
		switch {
		case e == nil:
		case e.id == id:
			of = -1
		default:
			of = max(e.at, 1)
		}
		if of < rank {
			best, before, rank = i, e, of
		}
	}
	r.Rules = slices.Clone(r.Rules) // the caller has the others
	e := &denial{id: id, limits: limits, n: n, result: r, at: time.Since(d.base), done: make(chan struct{})}
	places[best].CompareAndSwap(before, e) // unless somebody was quicker to remember something there, or to forget
	if d.epoch(id).Load() != epoch {
		d.drop(e)
		return
	}
	e.sure.Store(true) // whoever forgets id from now on finds it
}

// recall answers from memory, with the times that are left. A denial that has come to its second is asked for again by one
// caller, who gets it as his turn and must end that; the others wait for what he learns, so that a flood of many goroutines
// costs one trip a second. failure is what he learned if that was nothing, and waited how long this one has waited for it.
func (d *denials) recall(ctx context.Context, id string, limits []Limit, n int64) (r Result, known bool, turn *denial, waited time.Duration, failure error) {
	for {
		e := d.find(id)
		if e == nil || !e.sure.Load() || e.n != n || !slices.Equal(e.limits, limits) {
			return Result{}, false, nil, waited, nil
		}
		passed := time.Since(d.base) - e.at
		switch {
		case passed < min(e.result.RetryAfter, denialLife):
			return e.after(passed), true, nil, waited, nil
		case passed >= e.result.RetryAfter:
			d.drop(e)
			return Result{}, false, nil, waited, nil
		case waited > 0:
			return Result{}, false, nil, waited, nil
		case e.asked.CompareAndSwap(false, true):
			return Result{}, false, e, 0, nil
		}
		began := time.Now()
		select {
		case <-e.done:
		case <-ctx.Done(): // and nothing was sent
			return Result{}, false, nil, 0, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
		}
		if e.failure != nil {
			return Result{}, false, nil, 0, fmt.Errorf("%w: another call asks for this one: %v", ErrUnavailable, e.failure)
		}
		waited = max(time.Since(began), 1)
	}
}

// end ends the turn of who asked for e again.
func (d *denials) end(e *denial, failure error) {
	e.failure = failure
	d.drop(e) // unless there is a new one
	close(e.done)
}

func (d *denials) find(id string) *denial {
	places := d.of(id)
	for i := range places {
		if e := places[i].Load(); e != nil && e.id == id {
			return e
		}
	}
	return nil
}

func (d *denials) drop(e *denial) {
	places := d.of(e.id)
	for i := range places {
		places[i].CompareAndSwap(e, nil)
	}
}

// after is the denial when a time has passed.
func (e *denial) after(passed time.Duration) Result {
	r := e.result
	r.Reason = ReasonDenyCache
	r.RetryAfter -= passed
	r.ResetAfter = max(r.ResetAfter-passed, r.RetryAfter)
	if r.Rules != nil {
		r.Rules = slices.Clone(r.Rules)
		for i := range r.Rules {
			r.Rules[i].RetryAfter = max(r.Rules[i].RetryAfter-passed, 0)
			r.Rules[i].ResetAfter = max(r.Rules[i].ResetAfter-passed, 0)
		}
	}
	return r
}

func (d *denials) forget(id string) {
	d.epoch(id).Add(1)
	for e := d.find(id); e != nil; e = d.find(id) {
		d.drop(e)
	}
}
