package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/ratelimit"
)

func ExampleLimiter_WaitN() {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	limiter, err := ratelimit.NewTokenBucket(client, ratelimit.PerMinute(60), &ratelimit.Options{Name: "upload"})
	if err != nil {
		log.Fatal(err)
	}
	result, err := limiter.WaitN(context.Background(), "user42", 50) // 50 megabytes
	fmt.Println(result.Remaining, err)

	// Twenty more would take ten seconds: there is no sense in waiting for them with a deadline of one.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err = limiter.WaitN(ctx, "user42", 20)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output:
	// 10 <nil>
	// true
}
