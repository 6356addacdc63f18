package ranking_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ranking"
)

var everyWindow = []ranking.Window{
	{Period: ranking.Hourly}, {Period: ranking.Daily}, {Period: ranking.Weekly}, {Period: ranking.Monthly}, {Period: ranking.AllTime},
}

func newWindows(t *testing.T, c redispatterns.Client, name string, windows []ranking.Window, opts *ranking.Options) *ranking.Windows {
	t.Helper()
	w, err := ranking.NewWindows(c, name, windows, opts)
	require.NoError(t, err)
	return w
}

// steady is the server's time, at least some seconds before the hour ends.
func steady(t *testing.T, s *redistest.Server) time.Time {
	for {
		now := s.Now(t)
		if now.Truncate(time.Hour).Add(time.Hour).Sub(now) > 10*time.Second {
			return now
		}
		s.Advance(t, time.Second)
	}
}

// What is remembered of operations is that of all windows, so none of them takes it away, the one of all time included.
func TestClearOfAWindowForgetsNoOperation(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		w, now := newWindows(t, s.Client(t), redistest.ID(), []ranking.Window{{Period: ranking.Monthly}, {Period: ranking.AllTime}}, nil), steady(t, s)
		_, err := w.IncrementOnce(background, now, "alice", 1, "op")
		require.NoError(t, err)
		for _, p := range []ranking.Period{ranking.AllTime, ranking.Monthly} {
			b, err := w.Board(p, now)
			require.NoError(t, err)
			require.NoError(t, b.Clear(background))
			updates, err := w.IncrementOnce(background, now, "alice", 1, "op")
			if p == ranking.Monthly {
				require.ErrorIs(t, err, ranking.ErrNotFound, "on neither board, and not counted again")
				continue
			}
			require.NoError(t, err)
			require.False(t, updates[0].Changed)
			require.EqualValues(t, 1, updates[0].Score)
			require.Zero(t, updates[1].Rank, "cleared")
		}
	})
}

func TestWindowsWriteAll(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		for kind, opts := range kinds(s, t) {
			c, name, now := s.Client(t), redistest.ID(), steady(t, s)
			w := newWindows(t, c, name, everyWindow, opts)
			n := redistest.Count(c)
			want := func(changed bool, score float64, updates []ranking.Update, err error) {
				t.Helper()
				require.NoError(t, err)
				require.Len(t, updates, len(everyWindow))
				for _, u := range updates {
					require.Equal(t, ranking.Update{Standing: standing(1, "alice", score, 1), Changed: changed}, u, kind)
				}
			}
			u, err := w.Set(background, now, "alice", 5)
			want(true, 5, u, err)
			n.Reset()
			u, err = w.Set(background, now, "alice", 5)
			want(false, 5, u, err)
			u, err = w.Increment(background, now, "alice", 2)
			want(true, 7, u, err)
			better := map[bool]float64{true: 1, false: 9}[kind == "ascending"]
			u, err = w.Best(background, now, "alice", better)
			want(true, better, u, err)
			u, err = w.IncrementOnce(background, now, "alice", 1, "op")
			want(true, better+1, u, err)
			u, err = w.IncrementOnce(background, now, "alice", 1, "op")
			want(false, better+1, u, err)
			require.Equal(t, 5, n.Trips(), kind)

			for _, win := range everyWindow {
				b, err := w.Board(win.Period, now)
				require.NoError(t, err)
				got, err := b.Get(background, "alice")
				require.NoError(t, err)
				require.Equal(t, standing(1, "alice", better+1, 1), got)
				if win.Period != ranking.AllTime {
					b, err = w.Board(win.Period, now.Add(-70*24*time.Hour))
					require.NoError(t, err)
					_, err = b.Get(background, "alice")
					require.ErrorIs(t, err, ranking.ErrNotFound, "who did not play is not there")
				}
			}
			day := "{ranking:" + name + "}~d:" + now.UTC().Format("2006-01-02")
			require.Contains(t, c.Keys(background, "*"+name+"*").Val(), day)
			midnight := now.UTC().Truncate(24 * time.Hour).Add(48 * time.Hour)
			require.InDelta(t, midnight.Sub(now).Seconds(), c.PTTL(background, day).Val().Seconds(), 60, "kept for one more day")

			require.NoError(t, w.Remove(background, "alice", "nobody"))
			for _, key := range c.Keys(background, "*"+name+"*").Val() {
				require.True(t, strings.Contains(key, "~o") || strings.HasSuffix(key, "~e"), "%s is left", key)
			}
		}
	})
}

// After every write each key of a window has its expiry, also one that had lost it.
func TestWindowsExpireWhateverTheWrite(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		for kind, opts := range kinds(s, t) {
			c, name, now := s.Client(t), redistest.ID(), steady(t, s)
			w := newWindows(t, c, name, everyWindow, opts)
			day, err := w.Board(ranking.Daily, now)
			require.NoError(t, err)
			hour, err := w.Board(ranking.Hourly, now)
			require.NoError(t, err)
			base, dayKey := "{ranking:"+name+"}", "{ranking:"+name+"}~d:"+now.UTC().Format("2006-01-02")
			many := []ranking.MemberScore{{Member: "alice", Score: 8}, {Member: "bob", Score: 8}}
			for _, write := range []struct {
				what, keys string // how those begin that it writes
				do         func() error
			}{
				{"Set", base, func() error { _, err := w.Set(background, now, "alice", 5); return err }},
				{"Increment", base, func() error { _, err := w.Increment(background, now, "alice", 2); return err }},
				{"Best", base, func() error { _, err := w.Best(background, now, "alice", 2); return err }},
				{"IncrementOnce", base, func() error { _, err := w.IncrementOnce(background, now, "alice", 1, "op"); return err }},
				{"Set of the same", base, func() error { _, err := w.Set(background, now, "bob", 5); return err }},
				{"Set after Remove", base, func() error {
					if err := w.Remove(background, "alice", "bob"); err != nil {
						return err
					}
					_, err := w.Set(background, now, "alice", 5)
					return err
				}},
				{"the day's Set", dayKey, func() error { _, err := day.Set(background, "alice", 1); return err }},
				{"the day's Best", dayKey, func() error { _, err := day.Best(background, "bob", 2); return err }},
				{"the day's Increment", dayKey, func() error { _, err := day.Increment(background, "bob", 2); return err }},
				{"the day's SetMany", dayKey, func() error { _, err := day.SetMany(background, many...); return err }},
				{"the day's BestMany", dayKey, func() error { _, err := day.BestMany(background, many...); return err }},
				{"the day's SetMany after Remove", dayKey, func() error {
					if _, err := day.Remove(background, "alice", "bob"); err != nil {
						return err
					}
					_, err := day.SetMany(background, many...)
					return err
				}},
				{"the day's Merge", dayKey, func() error { return day.Merge(background, ranking.Max, day, hour) }},
				{"the day's Merge of others", dayKey, func() error { return day.Merge(background, ranking.Max, hour) }},
			} {
				if kind == "earliest first" && strings.Contains(write.what, "Merge") {
					continue
				}
				keys := func() []string {
					return slices.DeleteFunc(c.Keys(background, "*"+name+"*").Val(), func(key string) bool {
						return !strings.HasPrefix(key, write.keys) || strings.Contains(key, "~o") // operations have a time of their own
					})
				}
				for _, key := range keys() {
					require.NoError(t, c.Persist(background, key).Err())
				}
				require.NoError(t, write.do(), "%s of kind %s", write.what, kind)
				written := keys()
				require.Contains(t, written, dayKey)
				for _, key := range written {
					if rest := strings.TrimPrefix(key, base); rest == "~r" || rest == "~e" { // of all time
						continue
					}
					require.Positive(t, c.PTTL(background, key).Val(), "%s after %s of kind %s", key, write.what, kind)
				}
			}
			for _, key := range c.Keys(background, base+"~o*").Val() {
				require.Positive(t, c.PTTL(background, key).Val(), key)
			}
		}
	})
}

func TestWindowsOpenAndClose(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		for _, opts := range []*ranking.Options{nil, {Ties: ranking.Dense}, {Ties: ranking.EarliestFirst}} {
			c, name, now := s.Client(t), redistest.ID(), steady(t, s)
			hours := []ranking.Window{{Period: ranking.Hourly, Keep: 100 * time.Minute}, {Period: ranking.Daily}}
			w := newWindows(t, c, name, hours, opts)
			start := now.Truncate(time.Hour)
			write := map[string]func(at time.Time) error{
				"set":       func(at time.Time) error { _, err := w.Set(background, at, "a", 1); return err },
				"best":      func(at time.Time) error { _, err := w.Best(background, at, "a", 2); return err },
				"increment": func(at time.Time) error { _, err := w.Increment(background, at, "a", 1); return err },
				"once": func(at time.Time) error {
					_, err := w.IncrementOnce(background, at, "a", 1, redistest.ID())
					return err
				},
			}
			for what, write := range write {
				for _, at := range []time.Time{start.Add(-3 * time.Hour), start.Add(2 * time.Hour), start.Add(-1000 * time.Hour), start.Add(1000 * time.Hour)} {
					require.ErrorIs(t, write(at), ranking.ErrWindowClosed, "%s at %v", what, at.Sub(now))
					require.Empty(t, c.Keys(background, "*"+name+"*").Val(), "nothing is written to any window")
				}
				require.NoError(t, write(start.Add(-time.Nanosecond)), "late, and within Keep")
				if opts == nil || opts.Ties != ranking.EarliestFirst { // whose time has not begun
					require.NoError(t, write(start.Add(time.Hour)), "early, by less than a period")
				}
				require.NoError(t, w.Remove(background, "a"))
				for _, key := range c.Keys(background, "*"+name+"*").Val() {
					c.Del(background, key)
				}
			}
			east := time.FixedZone("", 9*60*60) // where 1970 begins before Redis' time does
			for _, at := range []time.Time{{}, time.Unix(-1, 0), time.Unix(-2*60*60, 0).In(east), time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)} {
				for _, w := range []*ranking.Windows{w, newWindows(t, c, name, []ranking.Window{{Period: ranking.Hourly}}, opts)} {
					_, err := w.Set(background, at, "a", 1)
					require.ErrorContains(t, err, "the time is of the year", at)
				}
			}
			require.Empty(t, c.Keys(background, "*"+name+"*").Val())
		}
	})
}

// A union for a window that is over, or far ahead, is refused as a score is.
func TestMergeIntoAWindow(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		for _, ties := range []ranking.Ties{ranking.Ordinal, ranking.Competition, ranking.Dense} {
			c, now := s.Client(t), steady(t, s)
			w := newWindows(t, c, redistest.ID(), []ranking.Window{{Period: ranking.Hourly}, {Period: ranking.AllTime}}, &ranking.Options{Ties: ties})
			all, err := w.Board(ranking.AllTime, now)
			require.NoError(t, err)
			fill(t, all, scored{"a", 1}, scored{"b", 2})
			for hours, open := range map[time.Duration]bool{-100: false, -2: false, -1: true, 0: true, 1: true, 2: false, 100: false} {
				hour, err := w.Board(ranking.Hourly, now.Add(hours*time.Hour))
				require.NoError(t, err)
				err = hour.Merge(background, ranking.Max, all)
				n, failed := hour.Count(background)
				require.NoError(t, failed)
				if open {
					require.NoError(t, err, "%d hours on", hours)
					require.EqualValues(t, 2, n)
					continue
				}
				require.ErrorIs(t, err, ranking.ErrWindowClosed, "%d hours on", hours)
				require.Zero(t, n)
			}
		}
	})
}

func TestWindowsExpire(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	c := s.Client(t)
	w := newWindows(t, c, "game", everyWindow, &ranking.Options{Ties: ranking.Dense})
	now := steady(t, s)
	_, err := w.Set(background, now, "alice", 1)
	require.NoError(t, err)
	for range 10 {
		s.Advance(t, 24*time.Hour)
		at := s.Now(t)
		_, err := w.Set(background, at, "alice", 1)
		require.NoError(t, err)
	}
	s.Advance(t, 70*24*time.Hour)
	require.ElementsMatch(t, []string{"ranking:game", "{ranking:game}~r"}, c.Keys(background, "*").Val())
}

func TestWindowsRefuseAsOne(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		for _, opts := range []*ranking.Options{{Integers: true}, {}, {Integers: true, Ties: ranking.Dense}} {
			c, name, now := s.Client(t), redistest.ID(), steady(t, s)
			w := newWindows(t, c, name, everyWindow, opts)
			most := math.MaxFloat64
			if opts.Integers {
				most = 1<<53 - 1
			}
			all, err := w.Board(ranking.AllTime, now)
			require.NoError(t, err)
			_, err = all.Set(background, "alice", most)
			require.NoError(t, err)
			day, err := w.Board(ranking.Daily, now)
			require.NoError(t, err)
			_, err = day.Set(background, "alice", 3)
			require.NoError(t, err)
			_, err = w.Increment(background, now, "alice", most)
			require.ErrorIs(t, err, ranking.ErrScore)
			_, err = w.IncrementOnce(background, now, "alice", most, "op")
			require.ErrorIs(t, err, ranking.ErrScore)
			got, err := day.Get(background, "alice")
			require.NoError(t, err)
			require.Equal(t, standing(1, "alice", 3, 1), got)
			hour, err := w.Board(ranking.Hourly, now)
			require.NoError(t, err)
			_, err = hour.Get(background, "alice")
			require.ErrorIs(t, err, ranking.ErrNotFound)
			u, err := w.IncrementOnce(background, now, "alice", -1, "op")
			require.NoError(t, err, "an operation that was refused is not remembered")
			require.True(t, u[0].Changed)
		}
	})
}

func TestWindowsMaxSize(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		now := steady(t, s)
		w := newWindows(t, s.Client(t), redistest.ID(), []ranking.Window{{Period: ranking.Daily}, {Period: ranking.AllTime}}, &ranking.Options{MaxSize: 1})
		all, err := w.Board(ranking.AllTime, now)
		require.NoError(t, err)
		_, err = all.Set(background, "bob", 100)
		require.NoError(t, err)
		u, err := w.Set(background, now, "alice", 5)
		require.NoError(t, err)
		require.Equal(t, standing(1, "alice", 5, 1), u[0].Standing)
		require.Zero(t, u[1].Rank)
		require.EqualValues(t, 1, u[1].Total)
		u, err = w.Set(background, now, "carol", 1)
		require.ErrorIs(t, err, ranking.ErrNotFound)
		require.Len(t, u, 2)
	})
}

func TestWindowsBadInput(t *testing.T) {
	t.Parallel()
	c := redistest.Mini(t).Client(t)
	for reason, windows := range map[string][]ranking.Window{
		"no windows are given": nil,
		"window 0: Period is 9, must be one from Hourly to AllTime": {{Period: 9}},
		"window 1: Period is 1, must not be that of another":        {{Period: ranking.Daily}, {Period: ranking.Daily, Keep: time.Hour}},
		"window 0: Keep is -1s, must not be negative":               {{Period: ranking.Daily, Keep: -time.Second}},
	} {
		_, err := ranking.NewWindows(c, "game", windows, nil)
		require.ErrorContains(t, err, reason)
	}
	_, err := ranking.NewWindows(c, "game", everyWindow, &ranking.Options{Ties: ranking.EarliestFirst})
	require.ErrorContains(t, err, "Options.Earliest is nil, must be set", "of all time")
	_, err = ranking.NewWindows(c, "a}b", everyWindow, nil)
	require.ErrorContains(t, err, "ranking: new windows")
	n := redistest.Count(c)
	w := newWindows(t, c, "game", []ranking.Window{{Period: ranking.Daily}}, nil)
	_, err = w.Board(ranking.Weekly, time.Now())
	require.ErrorContains(t, err, "there is no window of Period 2")
	_, err = w.Set(background, time.Now(), "", 1)
	require.ErrorContains(t, err, "the member is empty")
	_, err = w.Set(background, time.Now(), "a", math.NaN())
	require.ErrorIs(t, err, ranking.ErrScore)
	_, err = w.IncrementOnce(background, time.Now(), "a", 1, "")
	require.ErrorContains(t, err, "the operation is empty")
	require.ErrorContains(t, w.Remove(background, ""), "the member is empty")
	require.NoError(t, w.Remove(background))
	require.Zero(t, n.Trips())
}

func TestWindowsLostReply(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		p, name, now := s.Proxy(t), redistest.ID(), steady(t, s)
		w, direct := newWindows(t, p.Client(t), name, everyWindow, nil), newWindows(t, s.Client(t), name, everyWindow, nil)
		_, err := direct.Set(background, now, "alice", 1) // loads the script
		require.NoError(t, err)
		for _, lose := range lost {
			lose(p, 1, "evalsha")
			u, err := w.IncrementOnce(background, now, "alice", 1, redistest.ID())
			require.NoError(t, err)
			score := u[0].Score
			lose(p, 1, "evalsha")
			_, err = w.Increment(background, now, "alice", 1)
			require.ErrorIs(t, err, ranking.ErrUnknown)
			for _, win := range everyWindow {
				b, err := direct.Board(win.Period, now)
				require.NoError(t, err)
				redistest.Eventually(t, func() bool { got, _ := b.Get(background, "alice"); return got.Score == score+1 }, "counted once")
			}
		}
		ctx, cancel := context.WithCancel(background)
		cancel()
		_, err = w.Increment(ctx, now, "alice", 1)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, ranking.ErrUnknown)
		p.BlackHole(true)
		impatient := newWindows(t, p.Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled, o.ReadTimeout = true, time.Minute }), name, everyWindow, nil)
		ctx, cancel = context.WithTimeout(background, 50*time.Millisecond)
		defer cancel()
		_, err = impatient.Set(ctx, now, "alice", 1)
		requireBroken(t, err, "set")
		require.NotErrorIs(t, err, ranking.ErrWindowClosed)
		requireBroken(t, impatient.Remove(ctx, "alice"), "remove")
	})
}

func TestWindowsThroughEveryClient(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range clients(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range 3 {
				w := newWindows(t, c, fmt.Sprint(redistest.ID(), i), everyWindow, &ranking.Options{Ties: ranking.Dense})
				at := now
				if name == "ring" {
					at = time.Now()
				}
				_, err := w.Set(background, at, "alice", 1)
				require.NoError(t, err)
				u, err := w.IncrementOnce(background, at, "alice", 1, "op")
				require.NoError(t, err)
				require.EqualValues(t, 2, u[4].Score)
				require.NoError(t, w.Remove(background, "alice"))
			}
		})
	}
}

// A window whose key is of another type refuses the write for all, so that its repetition does not count twice.
func TestWindowsRefuseAnotherTypeAsOne(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		for _, ties := range []ranking.Ties{ranking.Ordinal, ranking.Competition, ranking.Dense, ranking.EarliestFirst} {
			c, name, now := s.Client(t), redistest.ID(), steady(t, s)
			w := newWindows(t, c, name, []ranking.Window{{Period: ranking.Hourly}, {Period: ranking.Daily}}, &ranking.Options{Ties: ties})
			_, err := w.Set(background, now, "alice", 1)
			require.NoError(t, err)
			hour, err := w.Board(ranking.Hourly, now)
			require.NoError(t, err)
			key := "{ranking:" + name + "}~d:" + now.UTC().Format(time.DateOnly)
			require.EqualValues(t, 1, c.Del(background, key).Val())
			require.NoError(t, c.Set(background, key, "x", 0).Err())
			for name, write := range map[string]func() ([]ranking.Update, error){
				"set":            func() ([]ranking.Update, error) { return w.Set(background, now, "alice", 5) },
				"best":           func() ([]ranking.Update, error) { return w.Best(background, now, "alice", 5) },
				"increment":      func() ([]ranking.Update, error) { return w.Increment(background, now, "alice", 1) },
				"increment once": func() ([]ranking.Update, error) { return w.IncrementOnce(background, now, "alice", 1, "op") },
			} {
				_, err = write()
				require.ErrorContains(t, err, "WRONGTYPE", name)
				got, err := hour.Get(background, "alice")
				require.NoError(t, err)
				require.Equal(t, 1., got.Score, "%s, ties %d", name, ties)
			}
			require.NoError(t, c.Del(background, key).Err())
		}
	})
}
