package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
)

func BenchmarkLock(b *testing.B) {
	c := redistest.Real(b).Client(b)
	locks := newLocker(b, c, nil)
	names := make([]string, 1000)
	for i := range names {
		names[i] = redistest.ID()
	}
	ctx := context.Background()
	b.Run("lock", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			lease, err := locks.Mutex(names[i%len(names)]).Lock(ctx)
			if err == nil {
				err = lease.Release(ctx)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("by hand", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if err := byHand(ctx, c, names[i%len(names)]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkLockParallel(b *testing.B) {
	s := redistest.Real(b)
	plain := s.Client(b, func(o *redis.Options) { o.PoolSize = 64 })
	ap, err := plain.AutoPipeline()
	require.NoError(b, err)
	b.Cleanup(func() { _ = ap.Close() })
	ctx := context.Background()
	for name, c := range map[string]redispatterns.Client{"client": plain, "autopipeliner": ap} {
		locks := newLocker(b, c, nil)
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(16)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				m := locks.Mutex(redistest.ID())
				for pb.Next() {
					lease, err := m.Lock(ctx)
					if err == nil {
						err = lease.Release(ctx)
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
	b.Run("by hand", func(b *testing.B) {
		b.SetParallelism(16)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			name := redistest.ID()
			for pb.Next() {
				if err := byHand(ctx, plain, name); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}

var compareAndDelete = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

// byHand is a lock as one writes it without a library: no fence, no renewal, nothing when a reply is lost.
func byHand(ctx context.Context, c *redis.Client, name string) error {
	token := redistest.ID()
	ok, err := c.SetNX(ctx, "lock:"+name, token, 10*time.Second).Result()
	if err == nil && ok {
		_, err = compareAndDelete.Run(ctx, c, []string{"lock:" + name}, token).Result()
	}
	return err
}
