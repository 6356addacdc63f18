package session_test

import (
	"context"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/session"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(serverEnv); address != "" {
		log.Fatal(runServer(address))
	}
	addr = exampleServer()
	redistest.Main(m)
}

type role string

type user struct {
	UserID   int64  `redis:"user_id"`
	Username string `redis:"username"`
	Role     role   `redis:"role"`
}

var tanaka = user{UserID: 42, Username: "tanaka", Role: "admin"}

func newStore[T any](t testing.TB, c redispatterns.Client, opts *session.Options) *session.Store[T] {
	t.Helper()
	s, err := session.New[T](c, opts)
	require.NoError(t, err)
	return s
}

func create[T any](t testing.TB, s *session.Store[T], data T) *session.Session[T] {
	t.Helper()
	sess, err := s.Create(context.Background(), data)
	require.NoError(t, err)
	return sess
}

// clients are all that an application may pass.
func clients(t *testing.T) map[string]redispatterns.Client {
	t.Helper()
	real, cluster := redistest.Real(t).Client(t), redistest.ThreeMasters(t).Client(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{
		"a": redistest.Mini(t).Options().Addr, "b": redistest.Mini(t).Options().Addr,
	}})
	t.Cleanup(func() { _ = ring.Close() })
	auto := func(ap *redis.AutoPipeliner, err error) *redis.AutoPipeliner {
		require.NoError(t, err)
		t.Cleanup(func() { _ = ap.Close() })
		return ap
	}
	return map[string]redispatterns.Client{
		"client": real, "cluster": cluster, "cluster of one node": redistest.OneNode(t).Client(t), "ring": ring,
		"autopipeliner":         auto(real.AutoPipeline()),
		"async autopipeliner":   auto(real.AsyncAutoPipeline()),
		"autopipelined cluster": auto(cluster.AutoPipeline()),
	}
}

// stores are the two ways in which a store renews, by TouchEvery.
var stores = map[string]time.Duration{"throttled": 0, "every use": -1}

// requireTTL is the invariant of every operation: the key has a TTL, and it is within bounds.
func requireTTL(t testing.TB, c redis.Cmdable, id string, most time.Duration) {
	t.Helper()
	ttl, err := c.PTTL(context.Background(), "session:"+id).Result()
	require.NoError(t, err)
	require.Greater(t, ttl, time.Duration(0))
	require.LessOrEqual(t, ttl, most)
}

func requireGone(t testing.TB, c redis.Cmdable, id string) {
	t.Helper()
	n, err := c.Exists(context.Background(), "session:"+id).Result()
	require.NoError(t, err)
	require.Zero(t, n, "the key is there")
}

// beforeScript runs before each script that a client sends, and afterScript after it.
type (
	beforeScript func()
	afterScript  func()
)

func (beforeScript) DialHook(next redis.DialHook) redis.DialHook { return next }
func (beforeScript) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (afterScript) DialHook(next redis.DialHook) redis.DialHook { return next }
func (afterScript) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (b beforeScript) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") {
			b()
		}
		return next(ctx, cmd)
	}
}

func (a afterScript) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if strings.HasPrefix(cmd.Name(), "eval") {
			a()
		}
		return err
	}
}
