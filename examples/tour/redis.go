package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// show prints keys as redis-cli would: the command that reads each, what it answers, and the TTL.
func (t *tour) show(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		kind, err := t.client.Type(ctx, key).Result()
		if err != nil {
			return err
		}
		fmt.Fprintln(t.out)
		switch kind {
		case "string":
			v, err := t.client.Get(ctx, key).Result()
			if err != nil {
				return err
			}
			fmt.Fprintf(t.out, "    redis> GET %s\n    %q\n", key, v)
		case "hash":
			fields, err := t.client.HGetAll(ctx, key).Result()
			if err != nil {
				return err
			}
			fmt.Fprintf(t.out, "    redis> HGETALL %s\n", key)
			n := 0
			for _, ours := range []bool{false, true} { // the application's fields first, then the library's
				for _, f := range sorted(fields) {
					if strings.HasPrefix(f, "_") == ours {
						fmt.Fprintf(t.out, "    %2d) %q\n    %2d) %q\n", n+1, f, n+2, fields[f])
						n += 2
					}
				}
			}
		case "zset":
			rows, err := t.client.ZRevRangeWithScores(ctx, key, 0, -1).Result()
			if err != nil {
				return err
			}
			fmt.Fprintf(t.out, "    redis> ZREVRANGE %s 0 -1 WITHSCORES\n", key)
			for i, z := range rows {
				fmt.Fprintf(t.out, "    %2d) %q\n    %2d) \"%.17g\"\n", 2*i+1, z.Member, 2*i+2, z.Score)
			}
		case "none":
			fmt.Fprintf(t.out, "    redis> TYPE %s\n    none (it has expired)\n", key)
			continue
		default:
			return fmt.Errorf("%s has the type %s", key, kind)
		}
		ttl, err := t.client.TTL(ctx, key).Result()
		if err != nil {
			return err
		}
		seconds := int64(-1) // none
		if ttl >= 0 {
			seconds = int64(ttl / time.Second)
		}
		fmt.Fprintf(t.out, "    redis> TTL %s\n    (integer) %d\n", key, seconds)
	}
	return nil
}

// ours are the keys that the tour writes, as patterns, but for the session's, whose ID is random.
var ours = []string{
	"ratelimit:" + userID, "ratelimit:" + userID + ":*",
	"ranking:" + board, "{ranking:" + board + "}~*",
	"lock:" + resource, "{lock:" + resource + "}~*",
}

// refuseTaken returns an error if a key that the tour would write exists already.
func refuseTaken(ctx context.Context, client *redis.Client) error {
	for _, pattern := range ours {
		found, err := keys(ctx, client, pattern)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			return errors.New("this Redis has a key that the tour would write: " + found[0])
		}
	}
	return nil
}

// keys are the keys that match a pattern, in order.
func keys(ctx context.Context, client *redis.Client, pattern string) ([]string, error) {
	found := map[string]struct{}{}
	iter := client.Scan(ctx, 0, pattern, 1000).Iterator()
	for iter.Next(ctx) {
		found[iter.Val()] = struct{}{}
	}
	return sorted(found), iter.Err()
}

// sorted are a map's keys in order.
func sorted[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
