package ratelimit_test

import (
	"context"
	"fmt"
	"log"
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
