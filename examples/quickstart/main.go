package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/lock"
	"github.com/redispatterns/redispatterns/ranking"
	"github.com/redispatterns/redispatterns/ratelimit"
	"github.com/redispatterns/redispatterns/session"
)

type user struct {
	ID string `redis:"user_id"`
}

func main() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR"), ContextTimeoutEnabled: true})
	defer rdb.Close()

	sessions := must(session.New[user](rdb, nil))
	sess := must(sessions.Create(ctx, user{ID: "user42"})) // its Token() is the cookie
	fmt.Println("logged in:", must(sessions.Load(ctx, sess.Token())).Data.ID)

	limiter := must(ratelimit.NewSlidingWindow(rdb, ratelimit.PerMinute(100), nil))
	fmt.Println("allowed:", must(limiter.Allow(ctx, "user42")).Allowed) // if not: 429

	board := must(ranking.New(rdb, "game", nil))
	fmt.Println("rank:", must(board.Set(ctx, "player:alice", 1500)).Rank)

	locks := must(lock.New(rdb, nil))
	defer locks.Close()
	lease := must(locks.Mutex("order:12345").Lock(ctx)) // waits for its turn, and renews until Release
	fmt.Println("held:", lease.Held())
	lease.Release(ctx)
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
