// Package migrating holds tests alone: that what docs/migrating.md says of other libraries beside this one is so.
package migrating_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/alexedwards/scs/goredisstore"
	"github.com/alexedwards/scs/v2"
	"github.com/bsm/redislock"
	"github.com/go-redis/redis_rate/v10"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/stretchr/testify/require"
	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
	"github.com/redispatterns/redispatterns/ratelimit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var ctx = context.Background()

// oldSessions is made before TestMain looks which goroutines there are: scs starts one that cannot surely be stopped.
var oldSessions = scs.New()

// peer is one attempt at another library's lock of the name.
type peer func(name string) (release func() error, err error)

func TestOldAndNewLocksExcludeEachOther(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		rs, rl := redsync.New(goredis.NewPool(c)), redislock.New(c)
		for kind, try := range map[string]peer{
			"redsync": func(name string) (func() error, error) {
				m := rs.NewMutex(name)
				return func() error { _, err := m.UnlockContext(ctx); return err }, m.TryLockContext(ctx)
			},
			"redislock": func(name string) (func() error, error) {
				l, err := rl.Obtain(ctx, name, 8*time.Second, nil)
				return func() error { return l.Release(ctx) }, err
			},
			"redislock with metadata": func(name string) (func() error, error) {
				l, err := rl.Obtain(ctx, name, 8*time.Second, &redislock.Options{Metadata: "whose"})
				return func() error { return l.Release(ctx) }, err
			},
		} {
			t.Run(kind, func(t *testing.T) {
				prefix := redistest.ID() + ":"
				locks, err := lock.New(c, &lock.Options{Prefix: prefix})
				require.NoError(t, err)
				defer locks.Close()
				m := locks.Mutex("12345")

				lease, err := m.Lock(ctx)
				require.NoError(t, err)
				_, err = try(prefix + "12345")
				require.Error(t, err, "the new one holds it")
				require.True(t, lease.Held())
				left, err := lease.TTL(ctx)
				require.NoError(t, err)
				require.Positive(t, left, "and still has it")
				require.NoError(t, lease.Release(ctx))

				release, err := try(prefix + "12345")
				require.NoError(t, err)
				_, err = m.TryLock(ctx)
				require.ErrorIs(t, err, lock.ErrNotAcquired, "the old one holds it")
				waiting := make(chan error)
				go func() {
					lease, err := m.Lock(ctx)
					if err == nil {
						err = lease.Release(ctx)
					}
					waiting <- err
				}()
				redistest.Eventually(t, func() bool { return c.Exists(ctx, "{"+prefix+"12345}~q").Val() == 1 }, "the new one waits")
				require.NoError(t, release())
				require.NoError(t, <-waiting, "found by looking")
			})
		}
	})
}

func TestLimitsOfRedisRate(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	s.OnlyOurs(t)
	c := s.Client(t)
	old := redis_rate.NewLimiter(c)
	r, err := old.Allow(ctx, "user42", redis_rate.PerMinute(10))
	require.NoError(t, err)
	require.EqualValues(t, -1, r.RetryAfter, "when allowed")
	r, err = old.AllowN(ctx, "user42", redis_rate.PerMinute(10), 5)
	require.NoError(t, err)
	require.Equal(t, 5, r.Allowed)
	r, err = old.AllowN(ctx, "user42", redis_rate.PerMinute(10), 5)
	require.NoError(t, err)
	require.Zero(t, r.Allowed)
	require.Zero(t, r.Remaining, "though 4 remain")
	r, err = old.AllowN(ctx, "user42", redis_rate.PerMinute(10), 1000)
	require.NoError(t, err)
	require.Positive(t, r.RetryAfter, "though it can never pass")
	require.Equal(t, []string{"rate:user42"}, c.Keys(ctx, "*").Val())

	now, err := ratelimit.NewTokenBucket(c, ratelimit.PerMinute(10), nil)
	require.NoError(t, err)
	n, err := now.AllowN(ctx, "user42", 6)
	require.NoError(t, err)
	require.True(t, n.Allowed, "each counts its own")
	require.Zero(t, n.RetryAfter)
	n, err = now.AllowN(ctx, "user42", 5)
	require.NoError(t, err)
	require.False(t, n.Allowed)
	require.EqualValues(t, 4, n.Remaining)
	_, err = now.AllowN(ctx, "user42", 1000)
	require.ErrorIs(t, err, ratelimit.ErrCost)
}

func TestLimitsOfUlule(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	s.OnlyOurs(t)
	c := s.Client(t)
	store, err := ululeredis.NewStore(c)
	require.NoError(t, err)
	rate, err := limiter.NewRateFromFormatted("2-M")
	require.NoError(t, err)
	old := limiter.New(store, rate)
	for i := range 5 {
		r, err := old.Get(ctx, "user42")
		require.NoError(t, err)
		require.Equal(t, i >= 2, r.Reached)
	}
	require.Equal(t, "5", c.Get(ctx, "limiter:user42").Val(), "what is denied is counted")

	now, err := ratelimit.NewFixedWindow(c, ratelimit.PerDay(2), nil)
	require.NoError(t, err)
	for i := range 5 {
		r, err := now.Allow(ctx, "user42")
		require.NoError(t, err)
		require.Equal(t, i < 2, r.Allowed)
	}
	windows := c.Keys(ctx, "ratelimit:user42:*").Val()
	require.Len(t, windows, 1)
	require.Equal(t, "2", c.Get(ctx, windows[0]).Val(), "and here it is not")
}

// Where scs keeps a session, and what a request that ends after a logout does there.
func TestSessionsOfSCS(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	s.OnlyOurs(t)
	c := s.Client(t)
	m := oldSessions
	m.Store = goredisstore.New(c)
	require.True(t, m.Cookie.Persist)
	visit := func(cookie *http.Cookie, do func(r *http.Request)) *http.Cookie {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
		if cookie != nil {
			r.AddCookie(cookie)
		}
		m.LoadAndSave(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { do(r) })).ServeHTTP(w, r)
		for _, set := range w.Result().Cookies() {
			cookie = set
		}
		return cookie
	}
	cookie := visit(nil, func(r *http.Request) { m.Put(r.Context(), "role", "admin") })
	keys := c.Keys(ctx, "*").Val()
	require.Equal(t, []string{"scs:session:" + cookie.Value}, keys)
	require.Equal(t, "string", c.Type(ctx, keys[0]).Val())
	visit(cookie, func(slow *http.Request) {
		m.Put(slow.Context(), "page", "2")
		visit(cookie, func(r *http.Request) { require.NoError(t, m.Destroy(r.Context())) })
		require.Zero(t, c.Exists(ctx, keys[0]).Val(), "logged out")
	})
	require.EqualValues(t, 1, c.Exists(ctx, keys[0]).Val(), "and back")
}
