package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/lock"
	"github.com/redispatterns/redispatterns/ranking"
	"github.com/redispatterns/redispatterns/ratelimit"
	"github.com/redispatterns/redispatterns/session"
)

// grow measures the operations at each size, after fill has made it.
func (m *meter) grow(c chart, db *redis.Client, fill func(from, to int) error, ops func(size int) []op) (chart, error) {
	had := 0
	for _, size := range c.xs {
		if err := fill(had, size); err != nil {
			return c, fmt.Errorf("fill %d: %w", size, err)
		}
		had = size
		list := ops(size)
		costs, err := m.inPings(1, db, list...)
		if err != nil {
			return c, fmt.Errorf("at %d: %w", size, err)
		}
		if c.lines == nil {
			for _, o := range list {
				c.lines = append(c.lines, line{name: o.name})
			}
		}
		for i, y := range costs {
			c.lines[i].ys = append(c.lines[i].ys, y)
		}
	}
	return c, nil
}

// share runs do for from..to-1 in many goroutines.
func share(from, to int, do func(i int) error) error {
	errs := make([]error, 64)
	var wg sync.WaitGroup
	for g := range errs {
		wg.Go(func() {
			for i := from + g; i < to && errs[g] == nil; i += len(errs) {
				errs[g] = do(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// members measures a board, which holds for both tie rules the same, as it gets larger.
func members(m *meter) ([]chart, error) {
	db := m.client(8)
	defer db.Close()
	ordinal, err := ranking.New(db, "board", nil)
	if err != nil {
		return nil, err
	}
	competition, err := ranking.New(db, "board", &ranking.Options{Ties: ranking.Competition})
	if err != nil {
		return nil, err
	}
	name := func(i int) string { return fmt.Sprintf("player:%07d", i) }
	const batch = 1000
	fill := func(from, to int) error {
		return share(from/batch, to/batch, func(k int) error {
			scores := make([]redis.Z, batch)
			for i := range scores {
				scores[i] = redis.Z{Score: float64(rand.IntN(10_000_000)), Member: name(k*batch + i)}
			}
			return db.ZAdd(m.ctx, "ranking:board", scores...).Err()
		})
	}
	c := chart{title: "Operations on a board", file: "growth-members.svg", x: "members", y: "in PINGs", xs: m.sizes(1000, 10_000, 100_000, 1_000_000, 5_000_000)}
	c, err = m.grow(c, db, fill, func(size int) []op {
		some := func(i int) string { return name(i * 7919 % size) }
		score := func(i int) float64 { return float64(i * 7919 % 10_000_000) }
		return []op{
			{name: "Get", do: func(i int) error { _, err := ordinal.Get(m.ctx, some(i)); return err }},
			{name: "Get, Competition", do: func(i int) error { _, err := competition.Get(m.ctx, some(i)); return err }},
			{name: "Set", do: func(i int) error { _, err := ordinal.Set(m.ctx, some(i), score(i)); return err }},
			{name: "Set, Competition", do: func(i int) error { _, err := competition.Set(m.ctx, some(i), score(i)); return err }},
			{name: "Top 10", do: func(int) error { _, err := ordinal.Top(m.ctx, 10); return err }},
		}
	})
	return []chart{c}, err
}

// goroutines measures one operation of each kind while more and more goroutines do the same.
func goroutines(m *meter) ([]chart, error) {
	var charts []chart
	for _, merge := range []bool{false, true} {
		c := chart{title: "Time of an operation, by goroutines", x: "goroutines", y: "in PINGs of as many goroutines", xs: m.sizes(1, 4, 16, 64, 256)}
		if merge {
			c.title += ", on an AutoPipeliner"
		}
		for _, n := range c.xs {
			db := m.client(n)
			var client redis.UniversalClient = db
			if merge {
				ap, err := db.AutoPipeline()
				if err != nil {
					return nil, err
				}
				client = ap
			}
			ops, stop, err := m.oneOfEach(client)
			if err != nil {
				return nil, err
			}
			costs, err := m.inPings(n, db, ops...)
			if err := errors.Join(err, stop(), db.Close()); err != nil {
				return nil, fmt.Errorf("%d goroutines: %w", n, err)
			}
			if c.lines == nil {
				for _, o := range ops {
					c.lines = append(c.lines, line{name: o.name})
				}
			}
			for i, y := range costs {
				c.lines[i].ys = append(c.lines[i].ys, y)
			}
		}
		charts = append(charts, c)
	}
	return charts, nil
}

func (m *meter) oneOfEach(client redis.UniversalClient) (ops []op, stop func() error, err error) {
	limiter, err1 := ratelimit.NewFixedWindow(client, ratelimit.PerHour(1<<40), nil)
	store, err2 := session.New[visitor](client, nil)
	board, err3 := ranking.New(client, "board", nil)
	locks, err4 := lock.New(client, nil)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, nil, err
	}
	visit, err := store.Create(m.ctx, visitor{UserID: "42", Username: "alice", Role: "admin"})
	if err != nil {
		return nil, nil, err
	}
	return []op{
		{name: "Allow, fixed window", do: func(i int) error { _, err := limiter.Allow(m.ctx, fmt.Sprint(i%1000)); return err }},
		{name: "Load of a session", do: func(int) error { _, err := store.Load(m.ctx, visit.Token()); return err }},
		{name: "Set on a board", do: func(i int) error {
			_, err := board.Set(m.ctx, fmt.Sprint(i%1000), float64(i%997))
			return err
		}},
		{name: "TryLock and Release", do: func(i int) error {
			lease, err := locks.Mutex(fmt.Sprint(i)).TryLock(m.ctx)
			if err != nil {
				return err
			}
			return lease.Release(m.ctx)
		}},
	}, locks.Close, nil
}

type visitor struct {
	UserID   string `redis:"user_id"`
	Username string `redis:"username"`
	Role     string `redis:"role"`
}

// keys measures limiters that know more and more clients.
func keys(m *meter) ([]chart, error) {
	db := m.client(64)
	defer db.Close()
	ap, err := db.AutoPipeline()
	if err != nil {
		return nil, err
	}
	limit := ratelimit.PerHour(1 << 40)
	var fills []*ratelimit.Limiter
	var limiters []*ratelimit.Limiter
	for _, make := range []func(redis.UniversalClient) (*ratelimit.Limiter, error){
		func(c redis.UniversalClient) (*ratelimit.Limiter, error) {
			return ratelimit.NewFixedWindow(c, limit, nil)
		},
		func(c redis.UniversalClient) (*ratelimit.Limiter, error) {
			return ratelimit.NewTokenBucket(c, ratelimit.PerHour(100_000), nil)
		},
	} {
		f, err1 := make(ap)
		l, err2 := make(db)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		fills, limiters = append(fills, f), append(limiters, l)
	}
	id := func(i int) string { return fmt.Sprintf("user%d", i) }
	c := chart{title: "Limiters", x: "clients", y: "in PINGs", xs: m.sizes(1000, 10_000, 100_000, 1_000_000)}
	c, err = m.grow(c, db, func(from, to int) error {
		return share(from, to, func(i int) error {
			for _, f := range fills {
				if _, err := f.Allow(m.ctx, id(i)); err != nil {
					return err
				}
			}
			return nil
		})
	}, func(size int) []op {
		var ops []op
		for k, name := range []string{"fixed window", "token bucket"} {
			ops = append(ops, op{name: name, do: func(i int) error { _, err := limiters[k].Allow(m.ctx, id(i*7919%size)); return err }})
		}
		return ops
	})
	return []chart{c}, err
}

// entries measures a sliding log that gets longer, and its bytes.
func entries(m *meter) ([]chart, error) {
	db := m.client(64)
	defer db.Close()
	costs := chart{title: "A sliding window's log", x: "entries", y: "in PINGs", xs: m.sizes(1, 10, 100, 1000, 10_000)}
	bytes := chart{title: "Its memory", x: "entries", xs: costs.xs, lines: []line{{name: "bytes an entry"}}}
	costs.lines = []line{{name: "allowed"}, {name: "denied"}}
	for _, size := range costs.xs {
		open, err1 := ratelimit.NewSlidingWindow(db, ratelimit.PerDay(int64(size)+1), nil)
		full, err2 := ratelimit.NewSlidingWindow(db, ratelimit.PerDay(int64(size)), nil)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		id := fmt.Sprintf("log%d", size)
		if err := share(0, size, func(int) error { _, err := open.Allow(m.ctx, id); return err }); err != nil {
			return nil, err
		}
		used, err := db.MemoryUsage(m.ctx, "ratelimit:"+id, 0).Result()
		if err != nil {
			return nil, err
		}
		var last ratelimit.Result
		ys, err := m.inPings(1, db, op{
			name: "allowed",
			do: func(int) (err error) {
				if last, err = open.Allow(m.ctx, id); err == nil && !last.Allowed {
					err = errors.New("denied")
				}
				return err
			},
			undo: func(int) error { return open.Refund(m.ctx, last) },
		}, op{name: "denied", do: func(int) error {
			r, err := full.Allow(m.ctx, id)
			if err == nil && r.Allowed {
				err = errors.New("allowed")
			}
			return err
		}})
		if err != nil {
			return nil, fmt.Errorf("%d entries: %w", size, err)
		}
		for i, y := range ys {
			costs.lines[i].ys = append(costs.lines[i].ys, y)
		}
		bytes.lines[0].ys = append(bytes.lines[0].ys, float64(used)/float64(size))
	}
	return []chart{costs, bytes}, nil
}

// sessions measures a user who has more and more sessions.
func sessions(m *meter) ([]chart, error) {
	db := m.client(64)
	defer db.Close()
	store, err := session.New[visitor](db, &session.Options{UserField: "user_id", IdleTimeout: time.Hour})
	if err != nil {
		return nil, err
	}
	create := func(user string) (*session.Session[visitor], error) {
		return store.Create(m.ctx, visitor{UserID: user, Username: "alice", Role: "admin"})
	}
	c := chart{title: "Sessions of one user", x: "sessions", y: "in PINGs", xs: m.sizes(1, 10, 100, 1000)}
	c, err = m.grow(c, db, func(from, to int) error {
		return share(from, to, func(int) error { _, err := create("42"); return err })
	}, func(size int) []op {
		var last *session.Session[visitor]
		again := func(int) error {
			return share(0, size, func(int) error { _, err := create("43"); return err })
		}
		if err := again(0); err != nil {
			return []op{{name: "DestroyAll", do: func(int) error { return err }}}
		}
		return []op{
			{name: "Create", do: func(int) (err error) { last, err = create("42"); return err },
				undo: func(int) error { return store.Destroy(m.ctx, last.ID) }},
			{name: "List", do: func(int) error {
				list, err := store.List(m.ctx, "42")
				if err == nil && len(list) != size {
					err = fmt.Errorf("%d sessions", len(list))
				}
				return err
			}},
			{name: "DestroyAll", do: func(int) error { _, err := store.DestroyAll(m.ctx, "43"); return err }, undo: again},
		}
	})
	return []chart{c}, err
}
