package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/ranking"
)

const (
	bestBoard    = "best"
	onceFor      = 60 * time.Second // how long IncrementOnce remembers
	boardMembers = 25
)

// newBoards are the boards of the run. None has a TTL.
func newBoards(client redispatterns.Client) (map[string]*ranking.Leaderboard, error) {
	sum, err := ranking.New(client, "sum", &ranking.Options{OnceFor: onceFor, Ties: ranking.Competition})
	if err != nil {
		return nil, err
	}
	best, err := ranking.New(client, bestBoard, &ranking.Options{Ties: ranking.Dense, Integers: true})
	if err != nil {
		return nil, err
	}
	sharded, err := ranking.NewSharded(client, "sharded", 4, &ranking.Options{OnceFor: onceFor})
	if err != nil {
		return nil, err
	}
	return map[string]*ranking.Leaderboard{"sum": sum, bestBoard: best, "sharded": sharded}, nil
}

// boards writes scores, and reads them.
func (w *worker) boards(ctx context.Context) error {
	boards, err := newBoards(w.client)
	if err != nil {
		return err
	}
	var orphans []Operation
	w.ask("Orphans", w.Index, &orphans)
	for _, op := range orphans {
		w.apply(boards[op.Board], op)
	}
	var ops []func()
	for name, b := range boards {
		write := func() {
			op := Operation{Worker: w.Index, Board: name, Member: fmt.Sprintf("player:%d", rand.IntN(boardMembers)),
				Amount: 1 + rand.Int64N(5), Begun: now()}
			if name == bestBoard {
				op.Amount = rand.Int64N(1_000_000)
			}
			w.ask("Begin", op, &op)
			w.apply(b, op)
		}
		ops = append(ops, write, func() { w.look(name, b) })
	}
	w.repeat(ctx, 10, ops...)
	return nil
}

// apply sends an operation until it is acknowledged, or until it is so old that a repetition could count twice.
func (w *worker) apply(b *ranking.Leaderboard, op Operation) {
	if w.planted("board", 20) {
		w.done(op)
		return
	}
	for time.Duration(now()-op.Begun) < onceFor*3/4 {
		ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
		var err error
		if op.Board == bestBoard {
			_, err = b.Best(ctx, op.Member, float64(op.Amount))
		} else {
			_, err = b.IncrementOnce(ctx, op.Member, float64(op.Amount), op.ID)
		}
		cancel()
		if err == nil {
			w.did("board: written to " + op.Board)
			w.done(op)
			return
		}
		w.failed("board", err)
		time.Sleep(between(1, 50))
	}
	w.told("board: an operation was given up, too old to be sent again")
}

func (w *worker) done(op Operation) {
	var ok bool
	w.ask("Done", op.ID, &ok)
}

// look reads a board, and compares it with what it must be.
func (w *worker) look(name string, b *ranking.Leaderboard) {
	ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
	defer cancel()
	seen := Scores{Board: name, Scores: map[string]float64{}}
	w.ask("Lows", name, &seen.Lows)
	entries, err := b.Top(ctx, 10)
	if err != nil {
		w.failed("board", err)
		return
	}
	if err := ranked(name, entries); err != nil {
		w.violate("board", "%v", err)
	}
	for _, e := range entries {
		seen.Scores[e.Member] = e.Score
	}
	var ok bool
	w.ask("Scored", seen, &ok)
	w.did("board: read " + name)
}

// ranked checks that rows from the first on are in order, and that their ranks follow from their scores.
func ranked(name string, entries []ranking.Entry) error {
	rank := int64(1)
	for i, e := range entries {
		if i > 0 {
			before := entries[i-1]
			if before.Score < e.Score {
				return fmt.Errorf("%s: %v stands before %v", name, before, e)
			}
			if before.Score > e.Score {
				rank = int64(i) + 1
				if name == bestBoard { // Ties: Dense
					rank = before.Rank + 1
				}
			}
		}
		if e.Rank != rank {
			return fmt.Errorf("%s: the rank of %v should be %d", name, e, rank)
		}
	}
	return nil
}
