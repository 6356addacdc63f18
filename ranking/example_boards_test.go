package ranking_test

import (
	"context"
	"fmt"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/ranking"
)

// exampleBoard is a board of four players.
func exampleBoard(ctx context.Context, client *redis.Client, name string) *ranking.Leaderboard {
	board, err := ranking.New(client, name, &ranking.Options{Ties: ranking.Competition})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := board.SetMany(ctx,
		ranking.MemberScore{Member: "alice", Score: 90}, ranking.MemberScore{Member: "bob", Score: 70},
		ranking.MemberScore{Member: "carol", Score: 70}, ranking.MemberScore{Member: "dave", Score: 20},
	); err != nil {
		log.Fatal(err)
	}
	return board
}

func ExampleLeaderboard_ByScore() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	board := exampleBoard(ctx, client, "exam")

	// Who has from 50 to 80 points, the ten best of them, with their ranks among all.
	passed, err := board.ByScore(ctx, 50, 80, 10)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range passed {
		fmt.Println(e.Rank, e.Member, e.Score)
	}
	n, err := board.CountBetween(ctx, 50, 80)
	fmt.Println(n, err)
	// Output:
	// 2 carol 70
	// 2 bob 70
	// 2 <nil>
}

func ExampleLeaderboard_GetMany() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	board := exampleBoard(ctx, client, "friends")

	// Some friends, best first. Who is not on the board is left out.
	friends, err := board.GetMany(ctx, "dave", "alice", "nobody")
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range friends {
		fmt.Println(e.Rank, e.Member)
	}
	// Output:
	// 1 alice
	// 4 dave
}

func ExampleLeaderboard_Trim() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	board := exampleBoard(ctx, client, "finalists")

	removed, err := board.Trim(ctx, 3) // only the three best stay
	fmt.Println(removed, err)
	fmt.Println(board.Clear(ctx)) // and now nobody
	n, err := board.Count(ctx)
	fmt.Println(n, err)
	// Output:
	// 1 <nil>
	// <nil>
	// 0 <nil>
}

func ExampleLeaderboard_Merge() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	// Boards that share a {tag} share a slot of a cluster, which Merge needs.
	saturday, sunday := exampleBoard(ctx, client, "{cup}:saturday"), exampleBoard(ctx, client, "{cup}:sunday")
	cup, err := ranking.New(client, "{cup}", nil)
	if err != nil {
		log.Fatal(err)
	}

	if err := cup.Merge(ctx, ranking.Sum, saturday, sunday); err != nil {
		log.Fatal(err)
	}
	winner, err := cup.Get(ctx, "alice")
	fmt.Println(winner.Rank, winner.Score, err)
	// Output: 1 180 <nil>
}
