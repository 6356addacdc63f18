package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

var (
	errDenied  = errors.New("denied under the limit")
	errAllowed = errors.New("allowed over the limit")
)

func (r *Run) rateLimit() error {
	for _, c := range r.Workers {
		for _, keys := range []int{r.Keys, 1} {
			if err := r.limiterAllow(c, keys); err != nil {
				return err
			}
		}
	}
	for _, c := range r.Workers {
		if err := r.limiterDenied(c); err != nil {
			return err
		}
	}
	return nil
}

func clientKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("client:%08d", i)
	}
	return keys
}

func (r *Run) limiterAllow(workers, nkeys int) error {
	what := "one hot key"
	if nkeys > 1 {
		what = fmt.Sprintf("%d keys", nkeys)
	}
	keys := clientKeys(nkeys)
	return table(r, "ratelimit/allow, "+what, workers, Limiters, func(c Contender[LimiterConfig, Limiter]) (work, error) {
		// A limit far beyond what a run can send, so that all is allowed.
		l, err := c.New(LimiterConfig{Conn: r.conn(workers), Limit: 1_000_000, Period: time.Minute})
		if err != nil {
			return work{}, err
		}
		// The first request of a key is not what is measured.
		err = parallel(nkeys, func(ctx context.Context, i int) error {
			_, err := l.Allow(ctx, keys[i])
			return err
		})
		if err != nil {
			return work{}, err
		}
		ctx := context.Background()
		return work{
			op: func(g, i int) error {
				ok, err := l.Allow(ctx, keys[(g*104_729+i*7_919)%nkeys])
				if err == nil && !ok {
					err = errDenied
				}
				return err
			},
			close: l.Close,
		}, nil
	})
}

func (r *Run) limiterDenied(workers int) error {
	return table(r, "ratelimit/denied, one hot key over its limit", workers, Limiters, func(c Contender[LimiterConfig, Limiter]) (work, error) {
		l, err := c.New(LimiterConfig{Conn: r.conn(workers), Limit: 10, Period: 24 * time.Hour})
		if err != nil {
			return work{}, err
		}
		ctx := context.Background()
		const key = "client:over"
		for i := 0; ; i++ {
			ok, err := l.Allow(ctx, key)
			if err != nil {
				return work{}, err
			}
			if !ok {
				break
			}
			if i > 20 {
				return work{}, errAllowed
			}
		}
		return work{
			op: func(int, int) error {
				ok, err := l.Allow(ctx, key)
				if err == nil && ok {
					err = errAllowed
				}
				return err
			},
			close: l.Close,
		}, nil
	})
}

// limiterMemory sends MemReqs requests for each client at as many a day and looks at what the server then holds. The period
// is so long because keys that expire meanwhile would flatter a slow contender.
func (r *Run) limiterMemory() error {
	keys := clientKeys(r.Keys)
	var lines [][]string
	for _, c := range stores(r, Limiters) {
		r.Progress("ratelimit/memory: %s", c.Name)
		var allowed, denied, failed atomic.Int64
		used, live, err := r.memory(func() error {
			l, err := c.New(LimiterConfig{Conn: r.conn(16), Limit: r.MemReqs, Period: 24 * time.Hour})
			if err != nil {
				return err
			}
			defer l.Close()
			return parallel(len(keys), func(ctx context.Context, i int) error {
				for range r.MemReqs {
					switch ok, err := l.Allow(ctx, keys[i]); {
					case err != nil:
						failed.Add(1)
					case ok:
						allowed.Add(1)
					default:
						denied.Add(1)
					}
				}
				return nil
			})
		})
		if err != nil {
			return fmt.Errorf("ratelimit/memory: %s: %w", c.Name, err)
		}
		lines = append(lines, []string{
			label(c.Name, c.Ref), fmt.Sprintf("%.0f", float64(used)/float64(len(keys))),
			fmt.Sprintf("%.2f", float64(live)/float64(len(keys))),
			fmt.Sprint(allowed.Load()), fmt.Sprint(denied.Load()), fmt.Sprint(failed.Load()),
		})
	}
	r.Out.aside(fmt.Sprintf("ratelimit/memory, %d clients, %d requests each, limit %d a day", len(keys), r.MemReqs, r.MemReqs), []string{"contender", "server bytes/client", "keys/client", "allowed", "denied", "errors"}, lines)
	return nil
}
