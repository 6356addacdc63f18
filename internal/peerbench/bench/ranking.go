package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
)

func memberName(i int) string { return fmt.Sprintf("player:%07d", i) }

func (r *Run) ranking() error {
	for _, size := range r.Boards {
		if err := r.rankingBoard(size); err != nil {
			return err
		}
	}
	return nil
}

func fillBoard(b Board, size int) error {
	// A fixed seed: every contender holds the same scores.
	random := rand.New(rand.NewPCG(1, 2))
	return b.Fill(context.Background(), size, func(i int) Entry {
		return Entry{memberName(i), float64(random.IntN(10_000_000))}
	})
}

// rankingBoard prints one table per concurrency and operation on a board.
func (r *Run) rankingBoard(size int) error {
	ctx := context.Background()
	stands := func(s Standing, err error) error {
		if err == nil && (s.Rank < 1 || s.Rank > s.Total || s.Total != int64(size)) {
			err = fmt.Errorf("stands at %d of %d, the board has %d", s.Rank, s.Total, size)
		}
		return err
	}
	ops := []struct {
		name string
		do   func(b Board, member string, i int) error
	}{
		{"set a score, answer rank and total", func(b Board, m string, i int) error {
			return stands(b.Set(ctx, m, float64(i*7_919%10_000_000)))
		}},
		{"add to a score, answer rank and total", func(b Board, m string, i int) error {
			return stands(b.Add(ctx, m, 1))
		}},
		{"rank, score and total of a member", func(b Board, m string, _ int) error {
			return stands(b.Get(ctx, m))
		}},
		{"top 10", func(b Board, _ string, _ int) error {
			top, err := b.Top(ctx, 10)
			if err == nil && len(top) != 10 {
				err = fmt.Errorf("top 10 has %d entries", len(top))
			}
			return err
		}},
	}
	names := make([]string, min(size, 10_000))
	for i := range names {
		names[i] = memberName(i * (size / len(names)))
	}
	contenders := timed(r, Boards)
	boards := make([]Board, len(contenders))
	if err := r.Control.Flush(); err != nil {
		return err
	}
	for i, c := range contenders {
		r.Progress("ranking: fill %d members: %s", size, c.Name)
		b, err := c.New(BoardConfig{Conn: r.conn(slices.Max(r.Workers)), Name: fmt.Sprintf("board:%d", i)})
		if err != nil {
			return err
		}
		defer b.Close()
		if err := fillBoard(b, size); err != nil {
			return fmt.Errorf("ranking: fill: %s: %w", c.Name, err)
		}
		boards[i] = b
	}
	for _, workers := range r.Workers {
		for _, op := range ops {
			what := fmt.Sprintf("ranking/%s, %d members", op.name, size)
			r.Progress("%s", titled(what, workers))
			var works []work
			for i, c := range contenders {
				works = append(works, work{about: c.about(), op: func(g, k int) error {
					return op.do(boards[i], names[(g*104_729+k*7_919)%len(names)], k)
				}})
			}
			if err := r.measure(what, workers, works); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Run) rankingMemory() error {
	size := 10 * r.Keys
	var lines [][]string
	for _, c := range stores(r, Boards) {
		r.Progress("ranking/memory: %s", c.Name)
		used, live, err := r.memory(func() error {
			b, err := c.New(BoardConfig{Conn: r.conn(1), Name: "board"})
			if err != nil {
				return err
			}
			defer b.Close()
			return fillBoard(b, size)
		})
		if err != nil {
			return fmt.Errorf("ranking/memory: %s: %w", c.Name, err)
		}
		lines = append(lines, []string{label(c.Name, c.Ref), fmt.Sprintf("%.0f", float64(used)/float64(size)), fmt.Sprint(live)})
	}
	r.Out.aside(fmt.Sprintf("ranking/memory, %d members with 14-byte names", size), []string{"contender", "server bytes/member", "keys"}, lines)
	return nil
}
