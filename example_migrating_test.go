package redispatterns_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/lock"
	"github.com/redispatterns/redispatterns/ratelimit"
	"github.com/redispatterns/redispatterns/session"
)

// The examples of docs/migrating.md.

func embedded() (rdb *redis.Client, stop func()) {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	server.ClockTTL(true)
	rdb = redis.NewClient(&redis.Options{Addr: server.Addr()})
	return rdb, func() { _ = rdb.Close(); server.Close() }
}

func ship(_ context.Context, order string, fence int64) error {
	fmt.Println("shipping", order, fence > 0)
	return nil
}

func fromRedsync(ctx context.Context, rdb *redis.Client) error {
	// The key is "order:12345", as of redsync's NewMutex("order:12345") and redislock's Obtain(ctx, "order:12345", …).
	locks, err := lock.New(rdb, &lock.Options{Prefix: "order:", TTL: 8 * time.Second})
	if err != nil {
		return err
	}
	defer locks.Close()
	err = lock.Do(ctx, locks.Mutex("12345").Lock, func(ctx context.Context, lease *lock.Lease) error {
		return ship(ctx, "12345", lease.Fence())
	})
	return err
}

// A lock under a key that an older program uses too.
func Example_fromRedsync() {
	rdb, stop := embedded()
	defer stop()
	fmt.Println(fromRedsync(context.Background(), rdb))
	// Output:
	// shipping 12345 true
	// <nil>
}

func fromRedisRate(ctx context.Context, rdb *redis.Client) error {
	limiter, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerSecond(10), &ratelimit.Options{Name: "api"})
	if err != nil {
		return err
	}
	result, err := limiter.Allow(ctx, "user42")
	switch {
	case err != nil: // no decision: Redis did not answer in time. Options.OnFailure can decide instead
		return err
	case !result.Allowed:
		return fmt.Errorf("come back in %v", result.RetryAfter)
	}
	return nil
}

func Example_fromRedisRate() {
	rdb, stop := embedded()
	defer stop()
	fmt.Println(fromRedisRate(context.Background(), rdb))
	// Output: <nil>
}

type member struct {
	UserID int64 `redis:"user_id"`
}

var (
	sessions *session.Manager[member]
	before   func(*http.Request) (member, bool)
)

// current is the visitor's session. Who has one of before gets one of now.
func current(w http.ResponseWriter, r *http.Request) (*session.Session[member], error) {
	sess, err := sessions.Get(r.Context())
	if !errors.Is(err, session.ErrNotFound) {
		return sess, err
	}
	old, ok := before(r) // as scs has it: oldSessions.GetInt64(r.Context(), "user_id") …
	if !ok {
		return nil, err
	}
	return sessions.Start(w, r, old)
}

// Sessions of an older kind are carried over one by one.
func Example_fromSCS() {
	rdb, stop := embedded()
	defer stop()
	store, err := session.New[member](rdb, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if sessions, err = session.NewManager(store, nil); err != nil {
		fmt.Println(err)
		return
	}
	before = func(r *http.Request) (member, bool) {
		_, err := r.Cookie("session")
		return member{UserID: 42}, err == nil
	}
	handler := sessions.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch sess, err := current(w, r); {
		case errors.Is(err, session.ErrNotFound):
			fmt.Println("nobody")
		case err != nil:
			fmt.Println(err)
		default:
			fmt.Println("user", sess.Data.UserID)
		}
	}))
	visit := func(cookies ...*http.Cookie) []*http.Cookie {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
		for _, c := range cookies {
			r.AddCookie(c)
		}
		handler.ServeHTTP(w, r)
		return w.Result().Cookies()
	}
	visit()
	fresh := visit(&http.Cookie{Name: "session", Value: "of scs"})
	fmt.Println(fresh[0].Name)
	visit(fresh...)
	// Output:
	// nobody
	// user 42
	// __Host-session
	// user 42
}
