package contenders_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
	_ "github.com/redispatterns/redispatterns/internal/peerbench/contenders"
	"github.com/redispatterns/redispatterns/internal/redistest"
)

var server bench.Conn

func TestMain(m *testing.M) {
	p, err := redistest.StartRedis()
	if err != nil {
		panic(err)
	}
	server = bench.Conn{Addr: p.Addr, Size: 4, DB: 3}
	code := m.Run()
	p.Stop()
	os.Exit(code)
}

func TestLocks(t *testing.T) {
	t.Parallel()
	for _, c := range bench.UncontendedLocks {
		t.Run("uncontended/"+c.Name, func(t *testing.T) {
			t.Parallel()
			l, err := c.New(bench.LockConfig{Conn: server, TTL: 8 * time.Second})
			require.NoError(t, err)
			defer l.Close()
			for range 2 {
				held, err := l.Lock(context.Background(), "job:"+c.Name)
				require.NoError(t, err)
				require.NoError(t, held.Unlock(context.Background()))
			}
		})
	}
	for _, c := range bench.HandoffLocks {
		t.Run("handoff/"+c.Name, func(t *testing.T) {
			t.Parallel()
			var lockers [2]bench.Locker
			for i := range lockers {
				l, err := c.New(bench.LockConfig{Conn: server, TTL: 8 * time.Second})
				require.NoError(t, err)
				defer l.Close()
				lockers[i] = l
			}
			ctx, key := context.Background(), "excl:"+c.Name
			if p, ok := lockers[0].(bench.KeyPreparer); ok {
				require.NoError(t, p.PrepareKey(ctx, key))
			}
			held, err := lockers[0].Lock(ctx, key)
			require.NoError(t, err)
			short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
			defer cancel()
			_, err = lockers[1].Lock(short, key)
			require.Error(t, err, "two holders")
			require.NoError(t, held.Unlock(ctx))
			held, err = lockers[1].Lock(ctx, key)
			require.NoError(t, err)
			require.NoError(t, held.Unlock(ctx))
		})
	}
}

func TestLimiters(t *testing.T) {
	t.Parallel()
	for _, c := range bench.Limiters {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			// A day: a window or a bucket hardly moves in a test.
			l, err := c.New(bench.LimiterConfig{Conn: server, Limit: 5, Period: 24 * time.Hour})
			require.NoError(t, err)
			defer l.Close()
			for i := range 10 {
				ok, err := l.Allow(context.Background(), "limit:"+redistest.ID())
				require.NoError(t, err)
				require.True(t, ok)
				ok, err = l.Allow(context.Background(), "limit of "+c.Name)
				require.NoError(t, err)
				require.Equal(t, i < 5, ok, "request %d", i+1)
			}
		})
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	for _, family := range [][]bench.Contender[bench.SessionConfig, bench.SessionStore]{bench.SessionRequests, bench.SessionReads} {
		for _, c := range family {
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				store, err := c.New(bench.SessionConfig{Conn: server, TTL: 20 * time.Minute})
				require.NoError(t, err)
				defer store.Close()
				require.NoError(t, bench.CheckSessions(store))
			})
		}
	}
}

func TestBoards(t *testing.T) {
	t.Parallel()
	for _, c := range bench.Boards {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			b, err := c.New(bench.BoardConfig{Conn: server, Name: "board of " + c.Name})
			require.NoError(t, err)
			defer b.Close()
			ctx := context.Background()
			names := []string{"a", "b", "c"}
			require.NoError(t, b.Fill(ctx, 3, func(i int) bench.Entry { return bench.Entry{Member: names[i], Score: float64(i)} }))

			s, err := b.Add(ctx, "a", 10)
			require.NoError(t, err)
			require.Equal(t, bench.Standing{Rank: 1, Score: 10, Total: 3}, s)
			s, err = b.Set(ctx, "c", 1.5)
			require.NoError(t, err)
			require.Equal(t, bench.Standing{Rank: 2, Score: 1.5, Total: 3}, s)
			s, err = b.Get(ctx, "b")
			require.NoError(t, err)
			require.Equal(t, bench.Standing{Rank: 3, Score: 1, Total: 3}, s)
			top, err := b.Top(ctx, 2)
			require.NoError(t, err)
			require.Equal(t, []bench.Entry{{Member: "a", Score: 10}, {Member: "c", Score: 1.5}}, top)
		})
	}
}
