package faults_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ranking"
)

// noRank are the answers that a broken Redis must not be taken for.
var noRank = []error{ranking.ErrNotFound, ranking.ErrScore, ranking.ErrUnsupported, ranking.ErrWindowClosed, ranking.ErrTooDeep}

// neverSent are those and ErrUnknown, where Redis executes nothing.
var neverSent = append([]error{ranking.ErrUnknown}, noRank...)

// boards are a plain one and one that scripts write, with alice at 10.
func (c *check) boards() map[string]*ranking.Leaderboard {
	all := map[string]*ranking.Leaderboard{}
	for name, opts := range map[string]*ranking.Options{"plain": nil, "dense": {Ties: ranking.Dense}} {
		b, err := ranking.New(c.client, name+c.world.tag, opts)
		require.NoError(c, err)
		for _, member := range []string{"alice", "bob"} {
			_, err = b.Set(c, member, 10)
			require.NoError(c, err)
		}
		all[name] = b
	}
	return all
}

func (c *check) boardReads(boards map[string]*ranking.Leaderboard) ops {
	all := ops{}
	for name, b := range boards {
		all["Get of "+name] = func(ctx context.Context) error { _, err := b.Get(ctx, "alice"); return err }
		all["Top of "+name] = func(ctx context.Context) error { _, err := b.Top(ctx, 10); return err }
		all["Around of "+name] = func(ctx context.Context) error { _, err := b.Around(ctx, "alice", 1, 1); return err }
		all["Count of "+name] = func(ctx context.Context) error { _, err := b.Count(ctx); return err }
	}
	return all
}

// boardWrites change other members than alice.
func (c *check) boardWrites(boards map[string]*ranking.Leaderboard) ops {
	all := ops{}
	for name, b := range boards {
		op := redistest.ID()
		all["Set on "+name] = func(ctx context.Context) error { _, err := b.Set(ctx, "carol", 1); return err }
		all["Best on "+name] = func(ctx context.Context) error { _, err := b.Best(ctx, "dave", 1); return err }
		all["Increment on "+name] = func(ctx context.Context) error { _, err := b.Increment(ctx, "erin", 1); return err }
		all["IncrementOnce on "+name] = func(ctx context.Context) error { _, err := b.IncrementOnce(ctx, "frank", 1, op); return err }
	}
	return all
}

func (c *check) boardRemoves(boards map[string]*ranking.Leaderboard) ops {
	all := ops{}
	for name, b := range boards {
		all["Remove on "+name] = func(ctx context.Context) error { _, err := b.Remove(ctx, "bob"); return err }
	}
	return all
}

// score requires a member's score.
func (c *check) score(boards map[string]*ranking.Leaderboard, member string, want float64) {
	for name, b := range boards {
		got, err := b.Get(c, member)
		require.NoError(c, err, name)
		require.Equal(c, want, got.Score, name)
	}
}

// countedScores increments under load: what was answered is counted, unless the fault loses writes, nothing twice, and what
// was repeated with an operation's id exactly once.
func (c *check) countedScores(loses bool) {
	b, err := ranking.New(c.client, "counted"+c.world.tag, nil)
	require.NoError(c, err)
	var counted [8]struct{ answered, unknown, ops atomic.Int64 }
	c.underLoad(func(worker int) error {
		n, member := &counted[worker], fmt.Sprint("player:", worker)
		_, err := b.Increment(c, member, 1)
		switch {
		case err == nil:
			n.answered.Add(1)
		case errors.Is(err, ranking.ErrUnknown):
			n.unknown.Add(1)
		}
		// The same operation until it is answered.
		_, onceErr := b.IncrementOnce(c, member+":once", 1, fmt.Sprint(worker, "/", n.ops.Load()))
		if onceErr == nil {
			n.ops.Add(1)
		}
		return errors.Join(err, onceErr)
	}, noRank...)
	for worker := range counted {
		n, member := &counted[worker], fmt.Sprint("player:", worker)
		if n.answered.Load() == 0 {
			continue
		}
		got, err := b.Get(c, member)
		require.NoError(c, err)
		c.within(int64(got.Score), n.answered.Load(), n.unknown.Load(), loses)
		got, err = b.Get(c, member+":once")
		require.NoError(c, err)
		c.within(int64(got.Score), n.ops.Load(), 0, loses)
	}
}
