package script_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/internal/script"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var (
	four  = script.New("return {1, 2, 3, tonumber(ARGV[1])}")
	count = script.New("local n = redis.call('INCR', KEYS[1]); redis.call('PEXPIRE', KEYS[1], 60000); return n")
)

func TestTypedReplies(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx := s.Client(t), context.Background()
		keys := []string{redistest.ID()}

		ints, err := four.Ints(ctx, c, 4, keys, 1<<53-1)
		require.NoError(t, err)
		require.Equal(t, []int64{1, 2, 3, 1<<53 - 1}, ints)

		_, err = four.Ints(ctx, c, 3, keys, 4)
		require.EqualError(t, err, "script answered 4 values, not 3")
		ints, err = four.Ints(ctx, c, script.AnyLength, keys, 4)
		require.NoError(t, err)
		require.Len(t, ints, 4)

		texts, err := script.New("return {'a', 1, false, ARGV[1]}").Strings(ctx, c, 4, keys, "\x00\xff")
		require.NoError(t, err)
		require.Equal(t, []string{"a", "1", "", "\x00\xff"}, texts)

		n, err := script.New("return #KEYS + #ARGV").Int(ctx, c, keys, "x", "y")
		require.NoError(t, err)
		require.EqualValues(t, 3, n)

		_, err = four.Int(ctx, c, keys, 1)
		require.Error(t, err, "a table is no integer")
		_, err = script.New("return redis.error_reply('MINE x')").Int(ctx, c, keys)
		require.True(t, redis.HasErrorPrefix(err, "MINE"), "%v", err)
	})
}

func TestScriptFlushIsHealed(t *testing.T) {
	t.Parallel()
	own, _ := redistest.Own(t) // other tests know their scripts to be there
	for name, s := range map[string]*redistest.Server{"miniredis": redistest.Mini(t), "redis": own} {
		t.Run(name, func(t *testing.T) {
			c, ctx, key := s.Client(t), context.Background(), redistest.ID()
			n := redistest.Count(c)
			for i := range 3 {
				require.NoError(t, c.ScriptFlush(ctx).Err())
				n.Reset()
				got, err := count.Once().Int(ctx, c, []string{key})
				require.NoError(t, err)
				require.EqualValues(t, i+1, got)
				require.Equal(t, []string{"evalsha", "eval"}, n.Commands())
			}
		})
	}
}

// Once runs once and says so: executed, not executed, or unknown.
func TestOnceWithLostReply(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		p, ctx, key := s.Proxy(t), context.Background(), redistest.ID()
		direct := s.Client(t)
		counted := func() int { n, _ := direct.Get(ctx, key).Int(); return n }
		for name, c := range clients(t, p) {
			t.Run(name, func(t *testing.T) {
				direct.Del(ctx, key)
				_, err := count.Once().Int(ctx, c, []string{key})
				require.NoError(t, err)
				p.DropReplies(1, "evalsha")
				_, err = count.Once().Int(ctx, c, []string{key})
				require.Error(t, err)
				require.True(t, script.Unknown(err), "%v", err)
				require.Equal(t, 2, counted(), "executed once, though no reply came")

				p.CloseAfter(1, "evalsha")
				_, err = count.Once().Int(ctx, c, []string{key})
				require.True(t, script.Unknown(err), "%v", err)
				require.Equal(t, 3, counted())

				p.DropReplies(1, "evalsha")
				_, err = count.Int(ctx, c, []string{key})
				require.NoError(t, err, "a script that may run twice is sent again")
				require.Equal(t, 5, counted())
			})
		}
	})
}

func TestQueueInt(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, key := s.Client(t), context.Background(), []string{redistest.ID()}
		own := script.New("return #KEYS + #ARGV -- " + key[0])
		queue := func() (n [2]*redis.IntCmd) {
			_, _ = c.Pipelined(ctx, func(p redis.Pipeliner) error {
				n[0], n[1] = own.QueueInt(ctx, p, script.Keys{key[0]}, "x"), own.QueueInt(ctx, p, script.Keys{key[0]}, "x", "y")
				return nil
			})
			return n
		}
		require.True(t, redis.HasErrorPrefix(queue()[1].Err(), "NOSCRIPT"))
		_, err := own.Int(ctx, c, key, "x")
		require.NoError(t, err)
		n := queue()
		require.EqualValues(t, 2, n[0].Val())
		require.EqualValues(t, 3, n[1].Val())
	})
}

func clients(t *testing.T, p *redistest.Proxy) map[string]redispatterns.Client {
	c := p.Client(t)
	ap, err := p.Client(t).AutoPipeline()
	require.NoError(t, err)
	t.Cleanup(func() { _ = ap.Close() })
	async, err := p.Client(t).AsyncAutoPipeline()
	require.NoError(t, err)
	t.Cleanup(func() { _ = async.Close() })
	return map[string]redispatterns.Client{"client": c, "autopipeliner": ap, "async autopipeliner": async}
}

// replying answers scripts with errors instead of sending them.
type replying struct {
	redispatterns.Client
	errs []error
	sent atomic.Int32
}

func (r *replying) Process(ctx context.Context, cmd redis.Cmder) error {
	if n := int(r.sent.Add(1)); n <= len(r.errs) && r.errs[n-1] != nil {
		cmd.SetErr(r.errs[n-1])
		return r.errs[n-1]
	}
	return r.Client.Process(ctx, cmd)
}

func TestOnceRepeatsWhatWasSurelyNotApplied(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	ctx, base := context.Background(), s.Client(t)
	s.Mini.SetError("TRYAGAIN Multiple keys request during rehashing of slot")
	tryAgain := base.Get(ctx, "x").Err()
	s.Mini.SetError("")
	closed := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	refused := closed.Get(ctx, "x").Err()
	require.NoError(t, closed.Close())
	for name, again := range map[string]error{
		"TRYAGAIN": tryAgain, "refused dial": refused, "full pool": redis.ErrPoolTimeout, "exhausted pool": redis.ErrPoolExhausted,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Error(t, again)
			key := []string{redistest.ID()}
			c := &replying{Client: base, errs: []error{again, again, again}}
			n, err := count.Once().Int(ctx, c, key)
			require.NoError(t, err)
			require.EqualValues(t, 1, n)

			tries := 4
			if name == "TRYAGAIN" { // a slot moves, which takes longer
				tries = 200
				c = &replying{Client: base, errs: []error{again, again}}
				n, err = count.Int(ctx, c, key)
				require.NoError(t, err, "a script that may be repeated is, too")
				require.EqualValues(t, 2, n)
			}
			c = &replying{Client: base}
			for range tries {
				c.errs = append(c.errs, again)
			}
			_, err = count.Once().Int(ctx, c, key)
			require.ErrorIs(t, err, again)
			require.False(t, script.Unknown(err), "surely not applied is not unknown")
			if name == "TRYAGAIN" {
				require.Greater(t, c.sent.Load(), int32(4))
				require.Less(t, c.sent.Load(), int32(tries))
			} else {
				require.EqualValues(t, tries, c.sent.Load())
			}

			c = &replying{Client: base, errs: []error{again, again, again, again}}
			soon, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
			defer cancel()
			_, err = count.Once().Int(soon, c, key)
			require.ErrorIs(t, err, again, "the context bounds the tries")
			require.EqualValues(t, 1, c.sent.Load())
		})
	}
	for name, final := range map[string]error{"own error": errors.New("x"), "reset": fmt.Errorf("read: %w", context.DeadlineExceeded)} {
		c := &replying{Client: base, errs: []error{final}}
		_, err := count.Once().Int(ctx, c, []string{"k"})
		require.ErrorIs(t, err, final, name)
		require.True(t, script.Unknown(err), name)
		require.EqualValues(t, 1, c.sent.Load(), name)
	}
}

// endsUnseen is a context whose end nobody is woken by, as where a timer runs out in the same moment.
type endsUnseen struct {
	context.Context
	ended bool
}

func (c *endsUnseen) Done() <-chan struct{} { return nil }

func (c *endsUnseen) Err() error {
	if c.ended {
		return context.DeadlineExceeded
	}
	return nil
}

// What was surely not applied stays so when the context ends with the pause before the next try.
func TestContextThatEndsWithThePause(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	ctx, tries := &endsUnseen{Context: context.Background()}, 0
	_, err := script.Sure(ctx, func() (struct{}, error) {
		tries++
		if ctx.ended {
			return struct{}{}, ctx.Err() // as go-redis answers
		}
		ctx.ended = true
		return struct{}{}, refused
	})
	require.ErrorIs(t, err, refused)
	require.False(t, script.Unknown(err))
	require.Equal(t, 1, tries)
}

func TestRealFullPoolAndLoading(t *testing.T) {
	t.Parallel()
	s, p := redistest.Own(t)
	ctx := context.Background()
	c := s.Client(t, func(o *redis.Options) { o.PoolSize, o.PoolTimeout = 1, time.Millisecond })
	held := c.Conn() // the only connection
	require.NoError(t, held.Ping(ctx).Err())
	began := make(chan struct{})
	go func() {
		<-began
		_ = held.Close()
	}()
	close(began)
	n, err := count.Once().Int(ctx, c, []string{"k"})
	require.NoError(t, err)
	require.EqualValues(t, 1, n)

	p.Stop()
	down := s.Client(t, func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 })
	_, err = count.Once().Int(ctx, down, []string{"k"})
	require.Error(t, err)
	require.False(t, script.Unknown(err), "a refused dial is not unknown: %v", err)
}

func TestEndedContextSendsNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	c := s.Client(t)
	n := redistest.Count(c)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, sc := range []*script.Script{count, count.Once()} {
		_, err := sc.Int(ctx, c, []string{"k"})
		require.ErrorIs(t, err, context.Canceled)
		require.False(t, script.Unknown(err))
	}
	require.Zero(t, n.Trips())
}

func TestCleanup(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	tries := 0
	require.NoError(t, script.Cleanup(ctx, func(ctx context.Context) error {
		tries++
		if tries < 3 {
			return errors.New("not yet")
		}
		_, bounded := ctx.Deadline()
		require.True(t, bounded)
		return ctx.Err()
	}))
	require.Equal(t, 3, tries)
	require.EqualError(t, script.Cleanup(ctx, func(context.Context) error { return errors.New("never") }), "never")
}

func TestThroughEveryClient(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	cluster := redistest.ThreeMasters(t).Client(t)
	real := redistest.Real(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": redistest.Mini(t).Options().Addr, "b": redistest.Mini(t).Options().Addr}})
	t.Cleanup(func() { _ = ring.Close() })
	clusterAP, err := cluster.AutoPipeline()
	require.NoError(t, err)
	t.Cleanup(func() { _ = clusterAP.Close() })
	for name, c := range map[string]redispatterns.Client{
		"client": real.Client(t), "cluster": cluster, "ring": ring, "autopipelined cluster": clusterAP,
	} {
		t.Run(name, func(t *testing.T) {
			for range 30 { // over all masters
				key := []string{redistest.ID()}
				n, err := count.Int(ctx, c, key)
				require.NoError(t, err)
				require.EqualValues(t, 1, n)
				n, err = count.Once().Int(ctx, c, key)
				require.NoError(t, err)
				require.EqualValues(t, 2, n)
			}
		})
	}
}

// The bounds are what Process costs by hand; the runner adds nothing but a Once script's wrapper.
func TestAllocations(t *testing.T) {
	if redistest.Race {
		t.Skip("allocations are not counted under the race detector")
	}
	c, ctx, key := redistest.Real(t).Client(t), context.Background(), redistest.ID()
	keys, counting := script.Keys{key}, count.Once()
	texts := script.New("return {'a', 'b'}")
	for name, tt := range map[string]struct {
		run    func() error
		allocs float64
	}{
		"Ints":      {func() error { _, err := four.Ints(ctx, c, 4, []string{key}, "4"); return err }, 7},
		"Strings":   {func() error { _, err := texts.Strings(ctx, c, 2, []string{key}); return err }, 9},
		"Int":       {func() error { _, err := count.Int(ctx, c, []string{key}); return err }, 6},
		"IntOf":     {func() error { _, err := count.IntOf(ctx, c, keys); return err }, 5},
		"Int, once": {func() error { _, err := counting.Int(ctx, c, []string{key}); return err }, 9},
	} {
		allocs := redistest.Allocs(t, tt.run)
		t.Logf("%s: %v allocations", name, allocs)
		require.LessOrEqual(t, allocs, tt.allocs, name)
	}
}

// A script that the server knows takes one round trip.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx, key := s.Client(t), context.Background(), redistest.ID()
		n := redistest.Count(c)
		for name, sc := range map[string]*script.Script{"repeatable": count, "once": count.Once()} {
			_, err := sc.Int(ctx, c, []string{key})
			require.NoError(t, err)
			n.Reset()
			_, err = sc.Int(ctx, c, []string{key})
			require.NoError(t, err)
			require.Equal(t, []string{"evalsha"}, n.Commands(), name)
			require.Equal(t, 1, n.Trips(), name)
		}
	})
}

func BenchmarkInts(b *testing.B) {
	c, ctx, key := redistest.Real(b).Client(b), context.Background(), redistest.ID()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := four.Ints(ctx, c, 4, []string{key}, "4"); err != nil {
			b.Fatal(err)
		}
	}
}
