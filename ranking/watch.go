package ranking

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"sync"
	"time"
)

// Watch yields the n best: at once, and then whenever they have changed, a change of rank or score included. It looks at
// most once per every, and what happened between two looks is seen as one change. All watchers of a board in a process share
// the looks, so a thousand of them cost Redis no more than one: those of one Leaderboard, and those of any that were made
// with the same client, name and options, as [Windows.Board] makes them.
//
// It ends with ctx, or when the loop is left, or at once with the error of an n below 1, of an n that is ErrTooDeep, or of an
// every below 1ms. A look that fails is yielded as an error, and the next one follows after every: leave the loop, or go on.
// It starts no goroutine and holds no connection.
func (b *Leaderboard) Watch(ctx context.Context, n int, every time.Duration) iter.Seq2[[]Entry, error] {
	return func(yield func([]Entry, error) bool) {
		if n < 1 || every < time.Millisecond {
			yield(nil, b.wrap("watch", fmt.Errorf("n is %d and every is %v, below 1 or 1ms", n, every)))
			return
		}
		if b.shards != nil && n > maxDepth { // which would fail for all watchers
			yield(nil, b.wrap("watch", fmt.Errorf("%w: %d rows of a sharded board, beyond %d", ErrTooDeep, n, maxDepth)))
			return
		}
		w := b.joinWatchers(n)
		defer b.leaveWatchers(w, n)
		var before []Entry
		for first := true; ; {
			seen := w.look(ctx, b, n, every)
			if ctx.Err() != nil {
				return
			}
			top := seen.top[:min(n, len(seen.top))]
			switch {
			case seen.err != nil:
				if !yield(nil, seen.err) {
					return
				}
			case first || !slices.Equal(top, before):
				before, first = top, false
				if !yield(slices.Clone(top), nil) {
					return
				}
			}
			timer := time.NewTimer(time.Until(seen.at.Add(every)))
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return
			}
		}
	}
}

// watched is what the watchers of a board share: who looks does it for all.
type watched struct {
	looking  chan struct{} // holds a token while somebody looks
	watchers int           // guarded by watching.mu

	mu   sync.Mutex
	wide map[int]int // how many watchers want how many entries
	last look
}

// watching is every board that somebody in this process watches.
var watching = struct {
	mu     sync.Mutex
	boards map[sight]*watched
}{boards: map[sight]*watched{}}

// sight is what two Leaderboards have in common that see the same.
type sight struct {
	client any
	key    string
	shards int
	order  Order
	ties   Ties
	record string
}

func (b *Leaderboard) sight() sight {
	s := sight{client: b.client, key: b.key, order: b.options.Order, ties: b.options.Ties, record: b.record}
	if !reflect.ValueOf(b.client).Comparable() { // a client of a type of the caller's
		s.client = b
	}
	if b.shards != nil {
		s.shards = len(b.shards.homes)
	}
	return s
}

// look is what was seen, and when the answer came.
type look struct {
	top []Entry
	err error
	n   int // how many entries were asked for
	at  time.Time
}

func (b *Leaderboard) joinWatchers(n int) *watched {
	at := b.sight()
	watching.mu.Lock()
	defer watching.mu.Unlock()
	w := watching.boards[at]
	if w == nil {
		w = &watched{looking: make(chan struct{}, 1), wide: map[int]int{}}
		watching.boards[at] = w
	}
	w.watchers++
	w.want(n, 1)
	return w
}

func (b *Leaderboard) leaveWatchers(w *watched, n int) {
	watching.mu.Lock()
	defer watching.mu.Unlock()
	w.want(n, -1)
	if w.watchers--; w.watchers == 0 {
		delete(watching.boards, b.sight())
	}
}

// want counts a watcher of n entries in or out.
func (w *watched) want(n, by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wide[n] += by; w.wide[n] == 0 {
		delete(w.wide, n)
	}
}

// fresh is the last look if it is wide enough and not older than every, else the width that all watchers need.
func (w *watched) fresh(n int, every time.Duration) (last look, ok bool, width int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k := range w.wide {
		width = max(width, k)
	}
	return w.last, w.last.n >= n && time.Since(w.last.at) < every, width
}

func (w *watched) look(ctx context.Context, b *Leaderboard, n int, every time.Duration) look {
	select {
	case w.looking <- struct{}{}:
		defer func() { <-w.looking }()
	case <-ctx.Done():
		return look{}
	}
	last, ok, width := w.fresh(n, every)
	if ok {
		return last
	}
	seen := look{n: width}
	seen.top, seen.err = b.Top(ctx, width)
	if ctx.Err() != nil {
		return look{} // which is no failure of the others
	}
	seen.at = time.Now() // and not before: a look that takes longer than every would be old to all who waited for it
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = seen
	return seen
}
