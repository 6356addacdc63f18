package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

// patient is a client that waits too long.
func patient(o *redis.Options) { o.ReadTimeout, o.MaxRetries = 2*time.Second, -1 }

// endless is one that waits far longer than any of these tests: what a decision takes is then Timeout's doing.
func endless(o *redis.Options) { o.ReadTimeout, o.MaxRetries = 20*time.Second, -1 }

// soonEnough is well before an endless client gives up, on a busy machine too.
const soonEnough = 10 * time.Second

// A decision ends within its Timeout, to what timers and goroutines take.
func TestADecisionEndsWithinTheTimeout(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	p, direct := s.Proxy(t), s.Client(t)
	for name, c := range map[string]redispatterns.Client{
		"one that obeys": p.Client(t, endless, func(o *redis.Options) { o.ContextTimeoutEnabled = true }),
		"another":        wrapped{p.Client(t, endless)},
	} {
		for range 4 { // so few failures open no circuit
			l := must(t)(ratelimit.NewTokenBucket(c, ratelimit.PerDay(5), &ratelimit.Options{Timeout: 50 * time.Millisecond}))
			redistest.Eventually(t, func() bool { _, err := l.Peek(ctx, "u"); return err == nil }, "a first answer")
			p.BlackHole(true)
			late := redistest.Lateness(t, direct)
			began := time.Now()
			_, err := l.Allow(ctx, "u")
			took := time.Since(began)
			p.BlackHole(false)
			require.ErrorIs(t, err, os.ErrDeadlineExceeded, name)
			require.LessOrEqual(t, took, 100*time.Millisecond+late(), name)
		}
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, func(t *testing.T, s *redistest.Server, build constructor) {
		p := s.Proxy(t)
		for i, policy := range []ratelimit.FailurePolicy{ratelimit.FailWithError, ratelimit.FailOpen, ratelimit.FailClosed} {
			var c redispatterns.Client = p.Client(t, endless, func(o *redis.Options) { o.ContextTimeoutEnabled = i == int(ratelimit.FailOpen) })
			if i == int(ratelimit.FailClosed) {
				c = wrapped{c}
			}
			var mu sync.Mutex
			var events []ratelimit.Event
			l := must(t)(build(c, ratelimit.PerDay(5), &ratelimit.Options{
				Name: "n", Timeout: 200 * time.Millisecond, OnFailure: policy,
				Observe: func(_ context.Context, e ratelimit.Event) {
					mu.Lock()
					defer mu.Unlock()
					events = append(events, e)
				},
			}))
			redistest.Eventually(t, func() bool { _, err := l.Peek(ctx, "u"); return err == nil }, "a first answer")
			p.BlackHole(true)
			id, began := redistest.ID(), time.Now()
			r, err := l.Allow(ctx, id)
			require.Less(t, time.Since(began), soonEnough)
			p.BlackHole(false)
			switch policy {
			case ratelimit.FailWithError:
				require.ErrorIs(t, err, ratelimit.ErrUnknown)
				require.ErrorIs(t, err, ratelimit.ErrUnavailable)
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
				require.Equal(t, ratelimit.Result{}, r)
			case ratelimit.FailOpen:
				require.NoError(t, err)
				require.True(t, r.Allowed)
				require.Equal(t, ratelimit.ReasonUnavailable, r.Reason)
				require.NoError(t, l.Refund(ctx, r), "nothing was taken")
			case ratelimit.FailClosed:
				require.NoError(t, err)
				require.False(t, r.Allowed)
				require.Equal(t, ratelimit.ReasonUnavailable, r.Reason)
				require.Positive(t, r.RetryAfter)
			}
			mu.Lock()
			last := events[len(events)-1]
			require.Equal(t, "n", last.Name)
			require.Equal(t, id, last.ID)
			require.ErrorIs(t, last.Err, ratelimit.ErrUnavailable, "whatever the policy")
			require.Equal(t, r, last.Result)
			require.GreaterOrEqual(t, last.Took, 150*time.Millisecond)
			mu.Unlock()
			redistest.Eventually(t, func() bool { return ratelimit.Parked(l) == 0 }, "the parked call is given up")
		}
	})
}

// wrapped is a client of which a limiter does not know what it is.
type wrapped struct{ redispatterns.Client }

// A caller's own deadline and cancellation end a decision too.
func TestContextEndsADecision(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(*redis.Client) redispatterns.Client{
		"client":      func(c *redis.Client) redispatterns.Client { return c },
		"one to obey": func(c *redis.Client) redispatterns.Client { c.Options().ContextTimeoutEnabled = true; return c },
		"another":     func(c *redis.Client) redispatterns.Client { return wrapped{c} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := redistest.Mini(t).Proxy(t)
			c := wrap(p.Client(t, endless))
			asked := func() {}
			l := must(t)(ratelimit.NewFixedWindow(c, ratelimit.PerDay(5), &ratelimit.Options{
				OnFailure: ratelimit.FailOpen, Timeout: 700 * time.Millisecond,
				LimitFor: func(context.Context, string, string) (ratelimit.Limit, error) { asked(); return ratelimit.Limit{}, nil },
			}))
			p.BlackHole(true)
			defer p.BlackHole(false)

			soon, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
			defer cancel()
			began := time.Now()
			r, err := l.Allow(soon, "u")
			require.NoError(t, err, "Redis did not answer: the policy decides")
			require.True(t, r.Allowed)

			cancelled, cancelNow := context.WithCancel(ctx)
			asked = cancelNow // when nothing can be refused any more
			_, err = l.Allow(cancelled, "u")
			require.ErrorIs(t, err, ratelimit.ErrUnavailable)
			require.ErrorIs(t, err, context.Canceled, "nobody wants a decision any more")
			require.Less(t, time.Since(began), soonEnough)
		})
	}
}

// Once Redis is known to be silent, a decision costs nothing; when it answers again, it is asked again.
func TestCircuit(t *testing.T) {
	t.Parallel()
	p := redistest.Mini(t).Proxy(t)
	l := must(t)(ratelimit.NewTokenBucket(wrapped{p.Client(t, patient)}, ratelimit.PerDay(1_000_000), &ratelimit.Options{Timeout: 20 * time.Millisecond}))
	redistest.Eventually(t, func() bool { _, err := l.Allow(ctx, "u"); return err == nil }, "a first answer")
	p.BlackHole(true)
	redistest.Eventually(t, func() bool {
		began := time.Now()
		for range 1000 {
			_, err := l.Allow(ctx, "u")
			require.ErrorIs(t, err, ratelimit.ErrUnavailable)
		}
		return time.Since(began) < 200*time.Millisecond
	}, "a thousand decisions in no time")
	_, err := l.Allow(ctx, "u")
	// Whoever was to wait for a connection, or to make one, was told by the client.
	require.Regexp(t, "no reply within 20ms|context deadline exceeded", err.Error(), "the cause")
	require.LessOrEqual(t, ratelimit.Parked(l), int64(64+1))
	p.BlackHole(false)
	redistest.Eventually(t, func() bool { _, err := l.Allow(ctx, "u"); return err == nil }, "answered again")
}

// An error that Redis answers costs no wait, so it opens no circuit: one id's broken key harms no other.
func TestErrorRepliesOpenNoCircuit(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	c := s.Client(t)
	l := must(t)(ratelimit.NewSlidingWindow(c, ratelimit.PerDay(5), calm))
	require.NoError(t, c.Set(ctx, "ratelimit:broken", "x", 0).Err())
	sent := redistest.Count(c)
	for range 50 {
		_, err := l.Allow(ctx, "broken")
		require.ErrorIs(t, err, ratelimit.ErrUnavailable)
	}
	require.GreaterOrEqual(t, sent.Trips(), 50)
	require.True(t, take(t, l, "fine", 1).Allowed)
}

// No more than 64 calls are parked, but for those under way when so many are: each has its decision in time nevertheless.
func TestParkedCallsAreBounded(t *testing.T) {
	t.Parallel()
	for _, callers := range []int64{8, 500} {
		t.Run(fmt.Sprint(callers), func(t *testing.T) {
			t.Parallel()
			c := &silent{}
			c.released, c.release = context.WithCancel(ctx)
			l := must(t)(ratelimit.NewSlidingCounter(c, ratelimit.PerDay(5), &ratelimit.Options{Timeout: 5 * time.Millisecond}))
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for range 50 {
						if _, err := l.Allow(ctx, "u"); !errors.Is(err, ratelimit.ErrUnavailable) {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			require.LessOrEqual(t, ratelimit.Parked(l), 64+callers)
			redistest.Eventually(t, func() bool { return ratelimit.Parked(l) == c.asked.Load() },
				"none ended, so each that was begun is parked") // a goroutine may come to ask, or not to, after its caller left
			c.release()
			redistest.Eventually(t, func() bool { return ratelimit.Parked(l) == 0 }, "none stays")
		})
	}
	_, err := ratelimit.NewSlidingCounter(redistest.Mini(t).Client(t), ratelimit.PerDay(5), &ratelimit.Options{OnFailure: 3})
	require.EqualError(t, err, "ratelimit: new: Options.OnFailure is 3, must be FailWithError, FailOpen or FailClosed")
}

// silent is a client that answers nothing, whatever becomes of the context, until it is released.
type silent struct {
	redispatterns.Client
	asked    atomic.Int64
	released context.Context
	release  func()
}

func (c *silent) Process(_ context.Context, cmd redis.Cmder) error {
	c.asked.Add(1)
	<-c.released.Done()
	cmd.SetErr(redis.ErrClosed)
	return redis.ErrClosed
}

// A failure may open the circuit just after the answer of another call has closed it. The next answer closes it again.
func TestCircuitThatOpensBesideAnAnswer(t *testing.T) {
	t.Parallel()
	l := must(t)(ratelimit.NewTokenBucket(redistest.Mini(t).Client(t), ratelimit.PerDay(5), calm))
	ratelimit.OpenLate(l)
	for range 3 {
		require.True(t, take(t, l, "u", 1).Allowed)
	}
}

// Callers with deadlines that no Redis could meet open the circuit for nobody.
func TestHastyCallersOpenNoCircuit(t *testing.T) {
	t.Parallel()
	for _, obeys := range []bool{true, false} {
		t.Run(fmt.Sprint("obeys ", obeys), func(t *testing.T) {
			t.Parallel()
			p := redistest.Mini(t).Proxy(t)
			c := p.Client(t, func(o *redis.Options) { o.ContextTimeoutEnabled = obeys })
			l := must(t)(ratelimit.NewTokenBucket(c, ratelimit.PerDay(1), &ratelimit.Options{Timeout: time.Minute, OnFailure: ratelimit.FailOpen}))
			require.True(t, take(t, l, "u", 1).Allowed)
			p.Delay(5 * time.Millisecond)
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					for began := time.Now(); time.Since(began) < 300*time.Millisecond; {
						soon, cancel := context.WithTimeout(ctx, 2*time.Millisecond)
						_, _ = l.Allow(soon, "v")
						cancel()
					}
				})
			}
			wg.Wait()
			for range 10 {
				r := take(t, l, "u", 1)
				require.False(t, r.Allowed)
				require.NotEqual(t, ratelimit.ReasonUnavailable, r.Reason)
			}
		})
	}
}

// Where nobody has a later deadline, callers with near ones find out that Redis is back.
func TestHastyCallersCloseTheCircuit(t *testing.T) {
	t.Parallel()
	redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
		c := &broken{Client: s.Client(t)}
		l := must(t)(ratelimit.NewTokenBucket(c, ratelimit.PerDay(1000), nil))
		c.is.Store(true)
		hasty := func() error {
			soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			_, err := l.Allow(soon, "u")
			return err
		}
		for range 30 {
			require.ErrorIs(t, hasty(), ratelimit.ErrUnavailable)
			redistest.Sleep(10 * time.Millisecond)
		}
		c.is.Store(false)
		require.ErrorContains(t, hasty(), "not asked", "the circuit is open")
		for range 50 {
			redistest.Sleep(10 * time.Millisecond)
			if hasty() == nil {
				return
			}
		}
		t.Fatal("half a second later nobody has tried Redis")
	})
}

// broken is a client whose connections break, while it is.
type broken struct {
	redispatterns.Client
	is atomic.Bool
}

func (c *broken) Process(ctx context.Context, cmd redis.Cmder) error {
	if c.is.Load() {
		cmd.SetErr(io.EOF)
		return io.EOF
	}
	return c.Client.Process(ctx, cmd)
}
