package ranking_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ranking"
)

// lost are the ways in which a reply is lost after the command was executed.
var lost = map[string]func(p *redistest.Proxy, n int, names ...string){
	"dropped": (*redistest.Proxy).DropReplies,
	"closed":  (*redistest.Proxy).CloseAfter,
}

func TestLostReplies(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		for how, lose := range lost {
			t.Run(how, func(t *testing.T) {
				t.Parallel()
				p := s.Proxy(t)
				b, direct := boardsOfOneName(t, p.Client(t), s.Client(t), nil)
				fill(t, direct, scored{"alice", 10}, scored{"bob", 20})
				score := func(member string) float64 {
					got, err := direct.Get(background, member)
					require.NoError(t, err)
					return got.Score
				}

				lose(p, 1, "zadd")
				u, err := b.Set(background, "alice", 30)
				require.NoError(t, err)
				require.Equal(t, standing(1, "alice", 30, 2), u.Standing)
				require.Equal(t, 1, p.Hits())

				lose(p, 1, "zadd")
				u, err = b.Best(background, "bob", 40)
				require.NoError(t, err)
				require.Equal(t, standing(1, "bob", 40, 2), u.Standing)

				for _, delta := range []float64{5, 1e300} {
					command := map[float64]string{5: "zincrby", 1e300: "evalsha"}[delta]
					_, err = direct.Increment(background, "alice", delta) // the script is loaded
					require.NoError(t, err)
					fill(t, direct, scored{"alice", 30})
					lose(p, 1, command)
					_, err = b.Increment(background, "alice", delta)
					require.ErrorIs(t, err, ranking.ErrUnknown)
					require.NotErrorIs(t, err, ranking.ErrNotFound)
					require.LessOrEqual(t, p.Hits(), 1, "sent once")
					if how == "dropped" && p.Hits() == 1 {
						redistest.Eventually(t, func() bool { return score("alice") == 30+delta }, "counted once")
					} else { // the proxy may close before it has passed a pipeline on
						require.Contains(t, []float64{30, 30 + delta}, score("alice"), "counted once, or not at all")
					}
				}

				lose(p, 1, "zrem")
				_, err = b.Remove(background, "bob")
				require.NoError(t, err)
				n, err := direct.Count(background)
				require.NoError(t, err)
				require.EqualValues(t, 1, n)

				for _, command := range []string{"zscore", "zrevrange", "zcard"} {
					lose(p, 1, command)
					require.NoError(t, map[string]func() error{
						"zscore":    func() error { _, err := b.Get(background, "alice"); return err },
						"zrevrange": func() error { _, err := b.Top(background, 1); return err },
						"zcard":     func() error { _, err := b.Count(background); return err },
					}[command](), "a read is sent again")
					require.Equal(t, 1, p.Hits())
				}
			})
		}
	})
}

// The same on every kind of board, with whatever commands or script it needs.
func TestLostRepliesOfEveryKind(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		for kind, opts := range kinds(s, t) {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				p := s.Proxy(t)
				b, direct := boardsOfOneName(t, p.Client(t), s.Client(t), opts)
				for _, op := range of(kind) { // loads the scripts
					fill(t, direct, scored{"alice", 10})
					require.NoError(t, op.do(background, direct))
				}
				better := map[bool]float64{true: 3, false: 30}[kind == "ascending"]
				for _, lose := range lost {
					fill(t, direct, scored{"alice", 10}, scored{"bob", 20})
					same := func(u ranking.Update, err error) {
						t.Helper()
						require.NoError(t, err)
						got, err := direct.Get(background, u.Member)
						require.NoError(t, err)
						require.Equal(t, got, u.Standing)
					}
					lose(p, 1)
					same(b.Set(background, "alice", 12))
					lose(p, 1)
					same(b.Best(background, "alice", better))
					lose(p, 1)
					_, err := b.SetMany(background, ranking.MemberScore{Member: "alice", Score: 7}, ranking.MemberScore{Member: "bob", Score: 7})
					require.NoError(t, err)
					lose(p, 1)
					_, err = b.Remove(background, "bob")
					require.NoError(t, err)
					p.DropReplies(1)
					_, err = b.Increment(background, "alice", 5)
					require.ErrorIs(t, err, ranking.ErrUnknown)
					redistest.Eventually(t, func() bool { got, _ := direct.Get(background, "alice"); return got.Score == 12 }, "counted once")
					all := ranks(t, direct)
					require.Equal(t, map[string]int64{"alice": 1}, all)
				}
			})
		}
	})
}

// An AutoPipeliner sends the commands of many callers together: an increment among them is sent once even so.
func TestLostRepliesThroughAnAutoPipeliner(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	for face, open := range map[string]func(c *redis.Client) (*redis.AutoPipeliner, error){
		"blocking": (*redis.Client).AutoPipeline, "async": (*redis.Client).AsyncAutoPipeline,
	} {
		for how, lose := range lost {
			t.Run(face+" "+how, func(t *testing.T) {
				t.Parallel()
				p, name := s.Proxy(t), redistest.ID()
				ap, err := open(p.Client(t))
				require.NoError(t, err)
				defer ap.Close()
				b, direct := newBoardNamed(t, ap, name, nil), newBoardNamed(t, s.Client(t), name, nil)
				_, err = direct.Increment(background, "0", 0) // loads the script
				require.NoError(t, err)
				lose(p, 2, "evalsha")
				const callers, each = 8, 5
				var applied, unknown [callers]int
				var wg sync.WaitGroup
				for i := range callers {
					wg.Go(func() {
						for range each {
							switch _, err := b.Increment(background, fmt.Sprint(i), 1); {
							case err == nil:
								applied[i]++
							case errors.Is(err, ranking.ErrUnknown):
								unknown[i]++
							default:
								t.Errorf("%v", err)
							}
							_, _ = b.Best(background, fmt.Sprint("best", i), 1) // may be sent again, beside others that may not
						}
					})
				}
				wg.Wait()
				require.Positive(t, p.Hits())
				for i := range callers {
					got, err := direct.Get(background, fmt.Sprint(i))
					if applied[i] > 0 {
						require.NoError(t, err)
					}
					require.GreaterOrEqual(t, got.Score, float64(applied[i]))
					require.LessOrEqual(t, got.Score, float64(applied[i]+unknown[i]))
				}
			})
		}
	}
}

// A request that never arrived is an unknown outcome too: the client cannot tell.
func TestLostRequest(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		p := s.Proxy(t)
		b, direct := boardsOfOneName(t, p.Client(t), s.Client(t), nil)
		fill(t, direct, scored{"alice", 10})
		p.CloseBefore(1, "zincrby")
		_, err := b.Increment(background, "alice", 5)
		require.ErrorIs(t, err, ranking.ErrUnknown)
		got, err := direct.Get(background, "alice")
		require.NoError(t, err)
		require.EqualValues(t, 10, got.Score)
	})
}

// boardsOfOneName are the same board through two clients.
func boardsOfOneName(t *testing.T, a, b *redis.Client, opts *ranking.Options) (*ranking.Leaderboard, *ranking.Leaderboard) {
	t.Helper()
	name := redistest.ID()
	first, err := ranking.New(a, name, opts)
	require.NoError(t, err)
	second, err := ranking.New(b, name, opts)
	require.NoError(t, err)
	return first, second
}

func requireBroken(t *testing.T, err error, name string) {
	t.Helper()
	require.Error(t, err, name)
	require.NotErrorIs(t, err, ranking.ErrNotFound, name)
	require.NotErrorIs(t, err, ranking.ErrScore, name)
	require.NotErrorIs(t, err, redis.Nil, name)
	require.NotContains(t, err.Error(), "\n", name)
}

func TestRedisStopped(t *testing.T) {
	t.Parallel()
	s, process := redistest.Own(t)
	b := newBoard(t, s.Client(t, func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 }), nil)
	fill(t, b, scored{"alice", 1})
	process.Stop()
	for _, op := range operations {
		ctx, cancel := context.WithTimeout(background, 5*time.Second)
		requireBroken(t, op.do(ctx, b), op.name) // the pool notices that its connections are dead
		err := op.do(ctx, b)
		requireBroken(t, err, op.name)
		require.NotErrorIs(t, err, ranking.ErrUnknown, "a refused dial leaves nothing open: %s", op.name)
		cancel()
	}
}

func TestBlackHole(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		p := s.Proxy(t)
		b := newBoard(t, p.Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled, o.ReadTimeout = true, time.Minute }), nil)
		fill(t, b, scored{"alice", 1})
		p.BlackHole(true)
		for _, op := range operations {
			t.Run(op.name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
				defer cancel()
				began := time.Now()
				err := op.do(ctx, b)
				requireBroken(t, err, op.name)
				require.Less(t, time.Since(began), 10*time.Second)
				var timeout interface{ Timeout() bool }
				require.True(t, errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout(), "%v", err)
			})
		}
	})
}

func TestEndedContextSendsNothing(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		b := newBoard(t, c, nil)
		fill(t, b, scored{"alice", 1})
		ctx, cancel := context.WithCancel(background)
		cancel()
		for _, op := range operations {
			err := op.do(ctx, b)
			requireBroken(t, err, op.name)
			require.ErrorIs(t, err, context.Canceled, op.name)
			require.NotErrorIs(t, err, ranking.ErrUnknown, op.name)
		}
		got, err := b.Get(background, "alice")
		require.NoError(t, err)
		require.Equal(t, standing(1, "alice", 1, 1), got)
	})
}

func TestKeyOfAnotherType(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, name := s.Client(t), redistest.ID()
		require.NoError(t, c.Set(background, "ranking:"+name, "precious", time.Minute).Err())
		for kind, opts := range kinds(s, t) {
			b, err := ranking.New(c, name, opts)
			require.NoError(t, err)
			for _, op := range of(kind) {
				err := op.do(background, b)
				requireBroken(t, err, op.name)
				require.NotErrorIs(t, err, ranking.ErrUnknown, op.name)
				require.ErrorContains(t, err, fmt.Sprintf("%q", "ranking:"+name), op.name)
				require.ErrorContains(t, err, "WRONGTYPE", "%s of a board of kind %s", op.name, kind)
			}
		}
		require.Equal(t, "precious", c.Get(background, "ranking:"+name).Val())
	})
}

func TestScriptFlush(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		if s.IsReal() {
			s, _ = redistest.Own(t) // the scripts of other tests are not to be flushed
		}
		c := s.Client(t)
		for kind, opts := range kinds(s, t) {
			b := newBoard(t, c, opts)
			fill(t, b, scored{"alice", 1})
			for _, op := range of(kind) {
				require.NoError(t, c.ScriptFlush(background).Err())
				require.NoError(t, op.do(background, b), op.name)
			}
		}
	})
}

// A server that declines to work now has not counted: the increment is sent again, within the context.
func TestIncrementIsRepeatedWhereItWasRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	c := s.Client(t)
	sent := redistest.Count(c)
	b := newBoard(t, c, nil)
	fill(t, b, scored{"alice", 1})
	sent.Reset()
	s.Mini.SetError("LOADING Redis is loading the dataset in memory")
	done := make(chan error)
	go func() {
		_, err := b.Increment(background, "alice", 1)
		done <- err
	}()
	redistest.Eventually(t, func() bool { return sent.Trips() > 1 }, "sent again")
	s.Mini.SetError("")
	require.NoError(t, <-done)
	got, err := b.Get(background, "alice")
	require.NoError(t, err)
	require.Equal(t, standing(1, "alice", 2, 1), got)
}
