package redispatterns_test

import (
	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns"
)

// The assertions live in a test, since AutoPipeliner is experimental in go-redis and must not break a user's build.
var (
	_ redispatterns.Client = (*redis.Client)(nil)
	_ redispatterns.Client = (*redis.ClusterClient)(nil)
	_ redispatterns.Client = (*redis.Ring)(nil)
	_ redispatterns.Client = (*redis.AutoPipeliner)(nil)
	_ redispatterns.Client = redis.UniversalClient(nil)
)
