package ranking_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/ranking"
)

// addr is a Redis for the examples.
var addr = func() string {
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		panic(err)
	}
	return m.Addr()
}()

func ExampleNew() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	board, err := ranking.New(client, "game", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, player := range []string{"player:alice", "player:bob", "player:carol"} {
		if _, err := board.Increment(ctx, player, float64(100*len(player))); err != nil {
			fmt.Println(err)
			return
		}
	}
	top, err := board.Top(ctx, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range top {
		fmt.Println(e.Rank, e.Member, e.Score)
	}
	// Output:
	// 1 player:carol 1200
	// 2 player:alice 1200
}

func ExampleLeaderboard_Set() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	board, err := ranking.New(client, "quiz", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(board.Set(ctx, "alice", 1500))
	fmt.Println(board.Set(ctx, "bob", 1600))
	// Output:
	// {{{1 alice 1500} 1} true} <nil>
	// {{{1 bob 1600} 2} true} <nil>
}

// The best lap counts, and the fastest is first.
func ExampleLeaderboard_Best() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	laps, err := ranking.New(client, "laps", &ranking.Options{Order: ranking.Ascending})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, seconds := range []float64{92.5, 88.25, 90} {
		u, err := laps.Best(ctx, "alice", seconds)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(u.Score, u.Changed)
	}
	// Output:
	// 92.5 true
	// 88.25 true
	// 88.25 false
}

func ExampleLeaderboard_Increment() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	board, err := ranking.New(client, "coins", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	u, err := board.Increment(ctx, "alice", 200)
	switch {
	case errors.Is(err, ranking.ErrUnknown):
		fmt.Println("it may have counted, or not: ask again before repeating it")
	case err != nil:
		fmt.Println(err)
	default:
		fmt.Printf("%s has %v and is number %d of %d\n", u.Member, u.Score, u.Rank, u.Total)
	}
	// Output: alice has 200 and is number 1 of 1
}

func ExampleLeaderboard_Get() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	board, err := ranking.New(client, "chess", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = board.Get(ctx, "nobody")
	fmt.Println(errors.Is(err, ranking.ErrNotFound))
	// Output: true
}
