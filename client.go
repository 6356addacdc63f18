package redispatterns

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Client is all that the patterns need of Redis. The caller owns it and closes it; nothing in this module does.
//
// Every go-redis v9 client has it: *redis.Client, *redis.ClusterClient, *redis.Ring, Sentinel's failover client,
// redis.UniversalClient, and *redis.AutoPipeliner, which gives a busy process a multiple of the throughput.
// A redis.Pipeliner does not have it, and must not: its replies do not exist until Exec.
type Client interface {
	// Process runs one command. Scripts go through it too, as commands whose type says what they answer and whether
	// go-redis may send them again.
	Process(ctx context.Context, cmd redis.Cmder) error
	// Pipelined runs several independent commands in one round trip.
	Pipelined(ctx context.Context, fn func(redis.Pipeliner) error) ([]redis.Cmder, error)
	// Subscribe is used by lock alone, to wake waiters.
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}
