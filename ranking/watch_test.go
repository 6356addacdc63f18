package ranking_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ranking"
)

func TestWatch(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		b := newBoard(t, s.Client(t), nil)
		fill(t, b, scored{"alice", 10})
		ctx, cancel := context.WithCancel(background)
		var seen [][]ranking.Entry
		done := make(chan struct{})
		go func() {
			defer close(done)
			for top, err := range b.Watch(ctx, 2, time.Second) {
				if err != nil {
					t.Error(err)
				}
				seen = append(seen, top)
			}
		}()
		redistest.Sleep(5500 * time.Millisecond)
		require.Len(t, seen, 1, "nothing changed")
		fill(t, b, scored{"bob", 20}, scored{"carol", 5}, scored{"bob", 30})
		redistest.Sleep(time.Second)
		require.Len(t, seen, 2, "seen as one change")
		fill(t, b, scored{"carol", 6})
		redistest.Sleep(5 * time.Second)
		require.Len(t, seen, 2, "not among the best two")
		require.NoError(t, b.Clear(background))
		redistest.Sleep(time.Second)
		cancel()
		<-done
		require.Equal(t, [][]ranking.Entry{
			{entry(1, "alice", 10)}, {entry(1, "bob", 30), entry(2, "alice", 10)}, {},
		}, seen)
	})
}

// However many watch, and however many entries each wants, one looks for all.
func TestWatchersShareTheLook(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		n := redistest.Count(c)
		b := newBoard(t, c, nil)
		for i := range 20 {
			fill(t, b, scored{fmt.Sprint(i), float64(i)})
		}
		ctx, cancel := context.WithCancel(background)
		var wg sync.WaitGroup
		var changes atomic.Int64
		for i := range 100 {
			wg.Go(func() {
				for top, err := range b.Watch(ctx, 1+i%10, time.Second) {
					if err != nil || len(top) != 1+i%10 {
						t.Errorf("%v, %v", top, err)
					}
					changes.Add(1)
				}
			})
			redistest.Sleep(10 * time.Millisecond)
		}
		redistest.Sleep(3 * time.Second)
		n.Reset()
		changes.Store(0)
		for i := range 20 {
			fill(t, b, scored{"0", float64(100 + i)})
			redistest.Sleep(time.Second)
		}
		require.InDelta(t, 40, n.Trips(), 4, "20 writes and 20 looks")
		require.EqualValues(t, 2000, changes.Load())
		cancel()
		wg.Wait()
	})
}

// Leaderboards that see the same share the look too: the page of a window makes its own at every request.
func TestLeaderboardsOfABoardShareTheLook(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		n := redistest.Count(c)
		name := redistest.ID()
		w := newWindows(t, c, name, []ranking.Window{{Period: ranking.Daily}}, nil)
		now := s.Now(t)
		_, err := w.Set(background, now, "alice", 1)
		require.NoError(t, err)
		fill(t, newBoardNamed(t, c, name, nil), scored{"bob", 2})
		fill(t, newSharded(t, c, name+"s", 3, nil), scored{"carol", 3})
		for what, of := range map[string]struct {
			boards func() *ranking.Leaderboard
			member string
			looks  int
		}{
			"a window":       {func() *ranking.Leaderboard { b, _ := w.Board(ranking.Daily, now); return b }, "alice", 1},
			"a board":        {func() *ranking.Leaderboard { return newBoardNamed(t, c, name, nil) }, "bob", 1},
			"a sharded one":  {func() *ranking.Leaderboard { return newSharded(t, c, name+"s", 3, nil) }, "carol", 1},
			"another client": {func() *ranking.Leaderboard { return newBoardNamed(t, s.Client(t), name, nil) }, "bob", 0},
			"incomparable":   {func() *ranking.Leaderboard { return newBoardNamed(t, incomparable{Client: c}, name, nil) }, "bob", 10},
		} {
			ctx, cancel := context.WithCancel(background)
			var wg sync.WaitGroup
			for range 10 {
				b := of.boards()
				wg.Go(func() {
					for top, err := range b.Watch(ctx, 1, time.Second) {
						if err != nil || len(top) != 1 || top[0].Member != of.member {
							t.Errorf("%s: %v, %v", what, top, err)
						}
					}
				})
			}
			redistest.Sleep(500 * time.Millisecond)
			n.Reset()
			redistest.Sleep(5 * time.Second)
			require.Equal(t, 5*of.looks, n.Trips(), what)
			cancel()
			wg.Wait()
		}

		// What sees another order does not share: each has its own.
		ctx, cancel := context.WithCancel(background)
		var wg sync.WaitGroup
		fill(t, newBoardNamed(t, c, name, nil), scored{"dave", 3})
		for order, best := range map[ranking.Order]string{ranking.Descending: "dave", ranking.Ascending: "bob"} {
			b := newBoardNamed(t, c, name, &ranking.Options{Order: order})
			wg.Go(func() {
				for top, err := range b.Watch(ctx, 1, time.Second) {
					if err != nil || top[0].Member != best {
						t.Errorf("%v, %v", top, err)
					}
				}
			})
		}
		redistest.Sleep(3 * time.Second)
		cancel()
		wg.Wait()
	})
}

// incomparable is a client that cannot be the key of a map.
type incomparable struct {
	redispatterns.Client
	_ []int
}

// slow is a client whose every answer takes three seconds.
type slow struct {
	redispatterns.Client
	asked atomic.Int64
}

func (s *slow) Process(ctx context.Context, cmd redis.Cmder) error {
	s.asked.Add(1)
	time.Sleep(3 * time.Second)
	return s.Client.Process(ctx, cmd)
}

// A look that takes longer than the interval is shared all the same: no watcher waits for the looks of all others.
func TestWatchersShareASlowLook(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		name, c := redistest.ID(), &slow{Client: s.Client(t)}
		fill(t, newBoardNamed(t, s.Client(t), name, nil), scored{"alice", 1})
		b := newBoardNamed(t, c, name, nil)
		ctx, cancel := context.WithCancel(background)
		var wg sync.WaitGroup
		var saw atomic.Int64
		for range 100 {
			wg.Go(func() {
				for range b.Watch(ctx, 1, time.Second) {
					saw.Add(1)
				}
			})
		}
		redistest.Sleep(13 * time.Second)
		seen, asked := saw.Load(), c.asked.Load()
		cancel()
		wg.Wait()
		require.EqualValues(t, 100, seen)
		require.EqualValues(t, 4, asked, "three seconds each, and one between them")
	})
}

// Who wants more of a sharded board than it reads spoils no other's watch.
func TestWatchTooDeep(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		b := newSharded(t, s.Client(t), redistest.ID(), 3, nil)
		fill(t, b, scored{"alice", 1})
		ctx, cancel := context.WithCancel(background)
		var wg sync.WaitGroup
		wg.Go(func() {
			for top, err := range b.Watch(ctx, 1, time.Second) {
				if err != nil || len(top) != 1 {
					t.Errorf("%v, %v", top, err)
				}
			}
		})
		wg.Go(func() {
			for _, err := range b.Watch(ctx, 1001, time.Second) {
				if !errors.Is(err, ranking.ErrTooDeep) {
					t.Errorf("%v", err)
				}
			}
		})
		redistest.Sleep(5 * time.Second)
		cancel()
		wg.Wait()
	})
}

func TestWatchErrorsAndEnd(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		b := newBoard(t, s.Client(t), nil)
		fill(t, b, scored{"alice", 1})
		var failures, tops int
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		for top, err := range b.Watch(ctx, 3, time.Second) {
			switch {
			case err != nil:
				requireBroken(t, err, "watch")
				if failures++; failures == 3 {
					s.Mini.SetError("")
					fill(t, b, scored{"bob", 2})
				}
			case tops == 0:
				tops++
				s.Mini.SetError("ERR broken")
			default:
				require.Len(t, top, 2, "it goes on after failures")
				tops++
			}
			if tops == 2 {
				break
			}
		}
		require.Equal(t, 3, failures)
		for range b.Watch(ctx, 3, time.Second) {
			cancel()
		}
		for range b.Watch(ctx, 3, time.Second) {
			t.Error("the context has ended")
		}
		for _, bad := range []func() (int, time.Duration){func() (int, time.Duration) { return 0, time.Second }, func() (int, time.Duration) { return 1, 0 }} {
			n, every := bad()
			got := errors.New("none")
			for _, err := range b.Watch(background, n, every) {
				got = err
			}
			require.ErrorContains(t, got, "below 1 or 1ms")
		}
		synctest.Wait()
	})
}

func TestWatchOnRealRedis(t *testing.T) {
	t.Parallel()
	b := newBoard(t, redistest.Real(t).Client(t), &ranking.Options{Ties: ranking.Competition})
	ctx, cancel := context.WithTimeout(background, time.Minute)
	defer cancel()
	i := 0
	for top, err := range b.Watch(ctx, 3, time.Millisecond) {
		require.NoError(t, err)
		require.Len(t, top, min(i, 3))
		if i++; i > 5 {
			break
		}
		fill(t, b, scored{fmt.Sprint(i), 7})
	}
}
