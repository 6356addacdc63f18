package redispatterns_test

import (
	"crypto/tls"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns"
)

// The settings that a service should change, on one server or behind Sentinel.
func ExampleClient() {
	rdb := redis.NewClient(&redis.Options{
		Addr:                  "localhost:6379",
		ContextTimeoutEnabled: true, // a context's deadline ends a call; without it, ReadTimeout (5 s) does
		DialerRetries:         1,    // a server that refuses connections is reported soon
	})
	var _ redispatterns.Client = rdb
}

func ExampleClient_cluster() {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:                      []string{"localhost:7001", "localhost:7002", "localhost:7003"},
		ContextTimeoutEnabled:      true,
		DialerRetries:              1,
		ClusterStateReloadInterval: 2 * time.Second, // how long a master that died is still asked
	})
	var _ redispatterns.Client = rdb
}

// A busy process sends the commands of all its goroutines together, at no change to the code that uses the patterns.
func ExampleClient_autoPipeliner() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	pipeliner, err := rdb.AutoPipeline()
	if err != nil {
		panic(err)
	}
	var _ redispatterns.Client = pipeliner
}

func ExampleClient_tls() {
	rdb := redis.NewClient(&redis.Options{
		Addr:      "redis.example.com:6379",
		Username:  "sessions",
		Password:  os.Getenv("REDIS_PASSWORD"),
		TLSConfig: &tls.Config{ServerName: "redis.example.com"}, // verified by the system's roots; RootCAs for a CA of your own
	})
	defer rdb.Close()
}
