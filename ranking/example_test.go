package ranking_test

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// An event that is delivered twice counts once.
func ExampleLeaderboard_IncrementOnce() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	board, err := ranking.New(client, "orders", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		u, err := board.IncrementOnce(ctx, "alice", 200, "order:12345")
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(u.Score, u.Changed)
	}
	// Output:
	// 200 true
	// 200 false
}

// Two who are second, and none who is third.
func ExampleLeaderboard_Page() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	board, err := ranking.New(client, "exam", &ranking.Options{Ties: ranking.Competition})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = board.SetMany(ctx,
		ranking.MemberScore{Member: "alice", Score: 99}, ranking.MemberScore{Member: "bob", Score: 95},
		ranking.MemberScore{Member: "carol", Score: 95}, ranking.MemberScore{Member: "dave", Score: 80},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	page, err := board.Page(ctx, 2, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range page.Entries {
		fmt.Println(e.Rank, e.Member)
	}
	fmt.Println("page 2 of", page.Pages)
	// Output:
	// 2 bob
	// 4 dave
	// page 2 of 2
}

func ExampleLeaderboard_Around() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	board, err := ranking.New(client, "race", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, player := range []string{"alice", "bob", "carol", "dave", "erin"} {
		if _, err := board.Set(ctx, player, float64(10*i)); err != nil {
			fmt.Println(err)
			return
		}
	}
	neighbours, err := board.Around(ctx, "bob", 1, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range neighbours {
		fmt.Println(e.Rank, e.Member, e.Score)
	}
	// Output:
	// 3 carol 20
	// 4 bob 10
	// 5 alice 0
}

// One call counts for the day, the week and all time.
func ExampleNewWindows() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	tokyo := time.FixedZone("JST", 9*60*60)
	scores, err := ranking.NewWindows(client, "score", []ranking.Window{
		{Period: ranking.Daily, Location: tokyo}, {Period: ranking.Weekly, Location: tokyo}, {Period: ranking.AllTime},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	updates, err := scores.Increment(ctx, time.Now(), "alice", 100)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, u := range updates {
		fmt.Println(u.Rank, u.Score)
	}
	today, err := scores.Board(ranking.Daily, time.Now())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(today.Top(ctx, 10))
	// Output:
	// 1 100
	// 1 100
	// 1 100
	// [{1 alice 100}] <nil>
}

// A board on sixteen keys, so on every node of a cluster.
func ExampleNewSharded() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	board, err := ranking.NewSharded(client, "world", 16, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, player := range []string{"alice", "bob", "carol"} {
		u, err := board.Set(ctx, player, float64(100*i))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(u.Rank, u.Total)
	}
	// Output:
	// 1 1
	// 1 2
	// 1 3
}

func ExampleLeaderboard_Watch() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	board, err := ranking.New(client, "live", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for top, err := range board.Watch(ctx, 3, 10*time.Millisecond) {
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Println(top)
		if len(top) > 0 {
			break
		}
		if _, err := board.Set(ctx, "alice", 10); err != nil {
			fmt.Println(err)
			break
		}
	}
	// Output:
	// []
	// [{1 alice 10}]
}

func ExampleLeaderboard_All() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	laps, err := ranking.New(client, "all laps", &ranking.Options{Order: ranking.Ascending, Ties: ranking.Dense})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = laps.BestMany(ctx, ranking.MemberScore{Member: "alice", Score: 61.5}, ranking.MemberScore{Member: "bob", Score: 60.25})
	if err != nil {
		fmt.Println(err)
		return
	}
	for e, err := range laps.All(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(e.Rank, e.Member, e.Score)
	}
	// Output:
	// 1 bob 60.25
	// 2 alice 61.5
}

func ExampleLeaderboard_Top() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	board, err := ranking.New(client, "laps", &ranking.Options{Order: ranking.Ascending})
	if err != nil {
		fmt.Println(err)
		return
	}
	for driver, seconds := range map[string]float64{"ayrton": 80.1, "nigel": 80.9, "alain": 80.4} {
		if _, err := board.Set(ctx, driver, seconds); err != nil {
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
	second, err := board.Range(ctx, 2, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("second:", second[0].Member)
	// Output:
	// 1 ayrton 80.1
	// 2 alain 80.4
	// second: alain
}

func ExampleLeaderboard_Remove() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()

	board, err := ranking.New(client, "guests", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, guest := range []string{"guest:1", "guest:2", "guest:3"} {
		if _, err := board.Set(ctx, guest, 10); err != nil {
			fmt.Println(err)
			return
		}
	}
	removed, err := board.Remove(ctx, "guest:1", "guest:2", "nobody")
	if err != nil {
		fmt.Println(err)
		return
	}
	left, err := board.Count(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("removed:", removed, "left:", left)
	// Output: removed: 2 left: 1
}
