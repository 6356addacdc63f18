package acl_test

import (
	"errors"
	"time"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ranking"
)

func boards(c *calls, client redispatterns.Client) {
	now := time.Now()
	for _, o := range []ranking.Options{
		{}, {Order: ranking.Ascending}, {Ties: ranking.Competition}, {Ties: ranking.Dense, MaxSize: 2},
		{Order: ranking.Ascending, Ties: ranking.Dense, MaxSize: 2}, {TTL: time.Hour, MaxSize: 2},
		{Ties: ranking.EarliestFirst, Earliest: &ranking.Earliest{Since: now.Add(-time.Hour), Until: now.Add(time.Hour)}},
	} {
		for _, name := range []string{redistest.ID(), redistest.ID() + "{tag}"} {
			b, err := ranking.New(client, name, &o)
			c.did("New", err)
			useBoard(c, b, false)
		}
		w, err := ranking.NewWindows(client, redistest.ID(), []ranking.Window{{Period: ranking.Daily}, {Period: ranking.AllTime}}, &o)
		c.did("NewWindows", err)
		useWindows(c, w, now)
	}
	for _, o := range []ranking.Options{{}, {TTL: time.Hour}} {
		b, err := ranking.NewSharded(client, redistest.ID(), 3, &o)
		c.did("NewSharded", err)
		useBoard(c, b, true)
	}
	knows[ranking.Leaderboard](c)
	knows[ranking.Windows](c)
}

func useBoard(c *calls, b *ranking.Leaderboard, sharded bool) {
	did := func(method string, err error) {
		if !errors.Is(err, ranking.ErrNotFound) && !errors.Is(err, ranking.ErrUnsupported) { // of members that were cut off
			c.did("Leaderboard."+method, err)
		}
		c.called["Leaderboard."+method] = true
	}
	for i, member := range []string{"alice", "bob", "carol"} {
		_, err := b.Set(c.ctx, member, float64(i))
		did("Set", err)
		_, err = b.Increment(c.ctx, member, 1)
		did("Increment", err)
		_, err = b.Best(c.ctx, member, 2)
		did("Best", err)
		_, err = b.IncrementOnce(c.ctx, member, 1, redistest.ID())
		did("IncrementOnce", err)
	}
	_, err := b.Increment(c.ctx, "alice", 1e300)
	if !errors.Is(err, ranking.ErrScore) {
		did("Increment", err)
	}
	_, err = b.SetMany(c.ctx, ranking.MemberScore{Member: "alice", Score: 5}, ranking.MemberScore{Member: "bob", Score: 5})
	did("SetMany", err)
	_, err = b.BestMany(c.ctx, ranking.MemberScore{Member: "alice", Score: 6})
	did("BestMany", err)
	_, err = b.Get(c.ctx, "alice")
	did("Get", err)
	_, err = b.Top(c.ctx, 3)
	did("Top", err)
	_, err = b.Page(c.ctx, 1, 3)
	did("Page", err)
	_, err = b.Around(c.ctx, "alice", 1, 1)
	did("Around", err)
	_, err = b.ByScore(c.ctx, 0, 10, 3)
	did("ByScore", err)
	_, err = b.Count(c.ctx)
	did("Count", err)
	_, err = b.CountBetween(c.ctx, 0, 10)
	did("CountBetween", err)
	for range 2 { // rows that have moved are found by score
		for e, err := range b.All(c.ctx) {
			did("All", err)
			_, err = b.Remove(c.ctx, e.Member)
			did("Remove", err)
		}
	}
	for _, err := range b.Watch(c.ctx, 3, time.Hour) {
		did("Watch", err)
		break
	}
	if !sharded {
		_, err = b.SetMany(c.ctx, ranking.MemberScore{Member: "alice", Score: 5}, ranking.MemberScore{Member: "bob", Score: 6})
		did("SetMany", err)
		_, err = b.GetMany(c.ctx, "alice", "bob")
		did("GetMany", err)
		_, err = b.Range(c.ctx, 1, 2)
		did("Range", err)
		did("Merge", b.Merge(c.ctx, ranking.Max, b))
		_, err = b.Trim(c.ctx, 1)
		did("Trim", err)
	}
	did("Clear", b.Clear(c.ctx))
}

func useWindows(c *calls, w *ranking.Windows, now time.Time) {
	_, err := w.Set(c.ctx, now, "alice", 1)
	c.did("Windows.Set", err)
	_, err = w.Increment(c.ctx, now, "alice", 1)
	c.did("Windows.Increment", err)
	_, err = w.IncrementOnce(c.ctx, now, "alice", 1, "op")
	c.did("Windows.IncrementOnce", err)
	_, err = w.Best(c.ctx, now, "alice", 9)
	c.did("Windows.Best", err)
	c.did("Windows.Remove", w.Remove(c.ctx, "alice"))
	b, err := w.Board(ranking.Daily, now)
	c.did("Windows.Board", err)
	_, err = b.Top(c.ctx, 1)
	c.did("Leaderboard.Top", err)
}
