// Package contenders holds the libraries that are measured, a file each.
package contenders

import (
	"context"
	"crypto/rand"
	"encoding/base64"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
)

// client is the go-redis client that every contender built on go-redis gets. All options are go-redis's defaults but the
// pool sizes, which are made large enough for the run's concurrency (pipelines have a pool of their own).
func client(c bench.Conn) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: c.Addr, Username: c.Username, Password: c.Password, DB: c.DB, PoolSize: c.Size, PipelinePoolSize: c.Size,
		ContextTimeoutEnabled: true, // as the README has it, for everybody
	})
}

// connect opens a client. close closes it, with all that it is made of.
type connect func(bench.Conn) (db redis.UniversalClient, close func() error, err error)

// plain gives each command, or pipeline, a round trip of its own.
func plain(c bench.Conn) (redis.UniversalClient, func() error, error) {
	db := client(c)
	return db, db.Close, nil
}

// merging sends the commands that several goroutines are waiting for in one round trip.
func merging(c bench.Conn) (redis.UniversalClient, func() error, error) {
	db := client(c)
	ap, err := db.AutoPipeline()
	return ap, db.Close, err
}

// deferring is merging for one who sends several commands before waiting for any. That is how a pipeline merges.
func deferring(c bench.Conn) (redis.UniversalClient, func() error, error) {
	db := client(c)
	ap, err := db.AsyncAutoPipeline()
	return ap, db.Close, err
}

// batch is where commands go that are to share a round trip: a pipeline, or a client that merges anyway.
func batch(db redis.UniversalClient) redis.Cmdable {
	if ap, ok := db.(*redis.AutoPipeliner); ok {
		return ap
	}
	return db.Pipeline()
}

// send sends a batch. Each command has its own error.
func send(ctx context.Context, b redis.Cmdable) {
	if p, ok := b.(redis.Pipeliner); ok {
		_, _ = p.Exec(ctx)
	}
}

// token returns 128 random bits as text.
func token() string {
	var b [16]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
