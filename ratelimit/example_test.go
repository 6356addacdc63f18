package ratelimit_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/ratelimit"
)

// addr is where the examples find Redis.
var addr string

// startExampleServer starts it: a miniredis whose clock stands still at half a second past noon.
func startExampleServer() {
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		log.Fatal(err)
	}
	m.ClockTTL(true)
	m.SetTime(time.Date(2026, 8, 9, 12, 0, 0, 500_000_000, time.UTC))
	addr = m.Addr()
}

func ExampleNewFixedWindow() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	limiter, err := ratelimit.NewFixedWindow(client, ratelimit.PerMinute(2), &ratelimit.Options{Name: "login"})
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		result, err := limiter.Allow(context.Background(), "user42")
		if err != nil {
			log.Fatal(err) // Redis did not answer: this is no denial
		}
		fmt.Println(result.Allowed, result.Remaining, result.RetryAfter)
	}
	fmt.Println(client.Get(context.Background(), "ratelimit:login:user42:2026-08-09T12:00").Val())
	// Output:
	// true 1 0s
	// true 0 0s
	// false 0 59.5s
	// 2
}

func ExampleNewSlidingWindow() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	limiter, err := ratelimit.NewSlidingWindow(client, ratelimit.Limit{Events: 10, Per: 10 * time.Second}, &ratelimit.Options{Name: "search"})
	if err != nil {
		log.Fatal(err)
	}
	result, err := limiter.Allow(context.Background(), "user42")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Allowed, result.Remaining)
	// Output: true 9
}

func ExampleNewSlidingCounter() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	limiter, err := ratelimit.NewSlidingCounter(client, ratelimit.PerHour(5000), &ratelimit.Options{Name: "api"})
	if err != nil {
		log.Fatal(err)
	}
	result, err := limiter.Allow(context.Background(), "user42")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Allowed, result.Remaining)
	// Output: true 4999
}

func ExampleNewTokenBucket() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	// Three at once, and then one every ten seconds.
	limiter, err := ratelimit.NewTokenBucket(client, ratelimit.PerMinute(6).WithBurst(3), &ratelimit.Options{Name: "sms"})
	if err != nil {
		log.Fatal(err)
	}
	for range 4 {
		result, err := limiter.Allow(context.Background(), "user42")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Allowed, result.Remaining, result.RetryAfter)
	}
	// Output:
	// true 2 0s
	// true 1 0s
	// true 0 0s
	// false 0 10s
}

func ExampleNewMulti() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	// At most 3 at once, 10 a second, and 10 000 a day.
	limiter, err := ratelimit.NewMulti(client, []ratelimit.Rule{
		{Name: "burst", Limit: ratelimit.PerSecond(10).WithBurst(3), Algorithm: ratelimit.TokenBucket},
		{Name: "day", Limit: ratelimit.PerDay(10_000)},
	}, &ratelimit.Options{Name: "orders"})
	if err != nil {
		log.Fatal(err)
	}
	for range 4 {
		result, err := limiter.Allow(context.Background(), "user42")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Allowed, result.Rules[0].Remaining, result.Rules[1].Remaining)
	}
	// Output:
	// true 2 9999
	// true 1 9998
	// true 0 9997
	// false 0 9997
}

func ExampleLimiter_Refund() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	ctx := context.Background()

	limiter, err := ratelimit.NewFixedWindow(client, ratelimit.PerDay(3), &ratelimit.Options{Name: "voucher"})
	if err != nil {
		log.Fatal(err)
	}
	result, err := limiter.Allow(ctx, "user42")
	if err != nil {
		log.Fatal(err)
	}
	if err := limiter.Refund(ctx, result); err != nil { // the voucher could not be printed
		log.Fatal(err)
	}
	result, err = limiter.Peek(ctx, "user42")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Remaining)
	// Output: 3
}

func ExampleLimiter_Wait() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	limiter, err := ratelimit.NewTokenBucket(client, ratelimit.PerMinute(1), &ratelimit.Options{Name: "report"})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for range 2 {
		_, err := limiter.Wait(ctx, "user42")
		fmt.Println(err) // the second would have to wait for a minute, so it is told at once
	}
	// Output:
	// <nil>
	// ratelimit: wait "user42": context deadline exceeded
}

// Plans: each customer's limit is looked up at each call, and a change holds at once.
func ExampleOptions_plans() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	plans := map[string]ratelimit.Limit{"acme": ratelimit.PerHour(100_000), "in-house": ratelimit.Unlimited}
	limiter, err := ratelimit.NewSlidingCounter(client, ratelimit.PerHour(1000), &ratelimit.Options{
		Name: "plans",
		LimitFor: func(_ context.Context, id, _ string) (ratelimit.Limit, error) {
			return plans[id], nil // the zero Limit: the limiter's own
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, id := range []string{"acme", "somebody"} {
		result, err := limiter.Allow(context.Background(), id)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(id, result.Remaining)
	}
	// Output:
	// acme 99999
	// somebody 999
}

func ExampleMiddleware() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	limiter, err := ratelimit.NewFixedWindow(client, ratelimit.PerMinute(1), &ratelimit.Options{Name: "web"})
	if err != nil {
		log.Fatal(err)
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") })
	handler := ratelimit.Middleware(limiter, ratelimit.ClientIP(), nil)(hello) // no proxy stands in front
	for range 2 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Printf("%d %s %q\n", w.Code, w.Header().Get("RateLimit"), w.Header().Get("Retry-After"))
	}
	// Output:
	// 200 "web";r=0;t=60 ""
	// 429 "web";r=0;t=60 "60"
}

func ExampleClientIP() {
	key := ratelimit.ClientIP(netip.MustParsePrefix("10.0.0.0/8")) // our proxies
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "10.0.0.1:4711"
	r.Header.Set("X-Forwarded-For", "6.6.6.6, 203.0.113.7") // the client may have sent the first himself
	id, err := key(r)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(id)
	// Output: 203.0.113.7
}

func ExampleLimiter_AllowN() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	ctx := context.Background()

	limiter, err := ratelimit.NewSlidingWindow(client, ratelimit.PerMinute(10), &ratelimit.Options{Name: "export"})
	if err != nil {
		log.Fatal(err)
	}
	for _, rows := range []int64{8, 5, 2} { // what does not fit is not counted, so something smaller still may
		result, err := limiter.AllowN(ctx, "user42", rows)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(rows, result.Allowed, result.Remaining)
	}
	// Output:
	// 8 true 2
	// 5 false 2
	// 2 true 0
}

func ExampleLimiter_Peek() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	ctx := context.Background()

	limiter, err := ratelimit.NewFixedWindow(client, ratelimit.PerHour(100), &ratelimit.Options{Name: "mail"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := limiter.AllowN(ctx, "user42", 30); err != nil {
		log.Fatal(err)
	}
	result, err := limiter.Peek(ctx, "user42") // takes nothing
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Remaining, "of", result.Limit, "left")
	// Output: 70 of 100 left
}

func ExampleLimiter_Reset() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	ctx := context.Background()

	limiter, err := ratelimit.NewFixedWindow(client, ratelimit.PerDay(3), &ratelimit.Options{Name: "password"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := limiter.AllowN(ctx, "user42", 3); err != nil {
		log.Fatal(err)
	}
	if err := limiter.Reset(ctx, "user42"); err != nil { // the right password was given
		log.Fatal(err)
	}
	result, err := limiter.Allow(ctx, "user42")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Allowed, result.Remaining)
	// Output: true 2
}
