// Package operating holds tests alone: that what docs/operating.md says to do by hand works on what the library writes.
package operating_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
	"github.com/redispatterns/redispatterns/ranking"
	"github.com/redispatterns/redispatterns/ratelimit"
	"github.com/redispatterns/redispatterns/session"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var ctx = context.Background()

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operating.md")
	require.NoError(t, err)
	return string(text)
}

type user struct {
	ID   int64  `redis:"user_id"`
	Role string `redis:"role"`
}

// write fills Redis with what the lines work on, and answers what they call by a variable.
func write(t *testing.T, c *redis.Client) (env []string) {
	t.Helper()
	sessions, err := session.New[user](c, &session.Options{UserField: "user_id"})
	require.NoError(t, err)
	sess, err := sessions.Create(ctx, user{ID: 42, Role: "admin"})
	require.NoError(t, err)

	rules := []ratelimit.Rule{{Name: "day", Limit: ratelimit.PerDay(100)}, {Name: "hour", Limit: ratelimit.PerHour(10)}}
	for _, make := range []func() (*ratelimit.Limiter, error){
		func() (*ratelimit.Limiter, error) { return ratelimit.NewFixedWindow(c, ratelimit.PerDay(100), nil) },
		func() (*ratelimit.Limiter, error) { return ratelimit.NewSlidingWindow(c, ratelimit.PerDay(100), nil) },
		func() (*ratelimit.Limiter, error) { return ratelimit.NewSlidingCounter(c, ratelimit.PerDay(100), nil) },
		func() (*ratelimit.Limiter, error) { return ratelimit.NewTokenBucket(c, ratelimit.PerDay(100), nil) },
		func() (*ratelimit.Limiter, error) { return ratelimit.NewMulti(c, rules, nil) },
	} {
		l, err := make()
		require.NoError(t, err)
		r, err := l.Allow(ctx, "user42")
		require.NoError(t, err)
		require.True(t, r.Allowed)
	}
	windows := c.Keys(ctx, "ratelimit:user42:*").Val()
	require.Len(t, windows, 1)

	board, err := ranking.New(c, "game", nil)
	require.NoError(t, err)
	for i, member := range []string{"player:alice", "player:bob", "player:mallory"} {
		_, err = board.IncrementOnce(ctx, member, float64(i+1), member)
		require.NoError(t, err)
	}

	locks, err := lock.New(c, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = locks.Close() })
	_, err = locks.Mutex("order:12345").Lock(ctx)
	require.NoError(t, err)
	go func() { _, _ = locks.Mutex("order:12345").Lock(ctx) }() // until Close
	redistest.Eventually(t, func() bool { return c.ZCard(ctx, "{lock:order:12345}~q").Val() == 2 }, "somebody waits")
	_, err = locks.RWMutex("catalog").RLock(ctx)
	require.NoError(t, err)
	return []string{"SESSION=" + sess.ID, "ID=user42", "WINDOW=" + strings.TrimPrefix(windows[0], "ratelimit:user42:")}
}

var shell = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// Every line finds or changes something, in the order of the page.
func TestEveryLineWorks(t *testing.T) {
	t.Parallel()
	cli, err := exec.LookPath("redis-cli")
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip("redis-cli is not on PATH")
	}
	require.NoError(t, err)
	s, _ := redistest.Own(t, "--slowlog-log-slower-than", "0")
	c := s.Client(t)
	env := write(t, c)
	require.Error(t, c.Do(ctx, "auth", "nobody", "x").Err()) // something for ACL LOG
	dir := t.TempDir()
	wrapper := fmt.Sprintf("#!/bin/sh\nexec %s -e -s %s \"$@\"\n", cli, s.Options().Addr)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "redis-cli"), []byte(wrapper), 0o700))
	env = append(env, "PATH="+dir+":"+os.Getenv("PATH"))
	lines := 0
	for _, block := range shell.FindAllStringSubmatch(page(t), -1) {
		for line := range strings.Lines(block[1]) {
			line = strings.TrimSpace(line)
			require.True(t, strings.HasPrefix(line, "redis-cli "), line)
			lines++
			command := exec.Command("sh", "-c", line)
			command.Env = env
			out, err := command.CombinedOutput()
			require.NoError(t, err, "%s\n%s", line, out)
			answer := strings.TrimSpace(string(out))
			require.NotEmpty(t, answer, line)
			if !strings.Contains(line, "HSET") { // which answers that no field is new
				require.NotContains(t, []string{"0", "-2", "-1"}, answer, line)
			}
			if strings.Contains(line, "HSET") {
				require.Equal(t, "0", answer, line)
			}
			if strings.Contains(line, "sed s/") { // the session of before it is gone: enter another
				continue
			}
			if strings.HasPrefix(line, "redis-cli DEL session:") {
				env = append(env, relogin(t, c))
			}
		}
	}
	require.Greater(t, lines, 30)
	left := c.Keys(ctx, "*").Val()
	require.ElementsMatch(t, []string{"{lock:order:12345}~f", "lock:catalog"}, without(left, "lock:order:12345", "{lock:order:12345}~q", "session:user:42"), "the rest is freed")
}

func relogin(t *testing.T, c *redis.Client) string {
	t.Helper()
	sessions, err := session.New[user](c, &session.Options{UserField: "user_id"})
	require.NoError(t, err)
	sess, err := sessions.Create(ctx, user{ID: 42})
	require.NoError(t, err)
	return "SESSION=" + sess.ID
}

func without(keys []string, names ...string) (rest []string) {
	for _, key := range keys {
		if !strings.Contains(strings.Join(names, "\n"), key) {
			rest = append(rest, key)
		}
	}
	return rest
}

// What a lock costs is what the page says, to a tenth.
func TestBytesPerLock(t *testing.T) {
	t.Parallel()
	s, _ := redistest.Own(t)
	c := s.Client(t)
	locks, err := lock.New(c, &lock.Options{TTL: time.Hour, NoRenew: true})
	require.NoError(t, err)
	defer locks.Close()
	used := func() int {
		n, err := strconv.Atoi(c.InfoMap(ctx, "memory").Item("Memory", "used_memory"))
		require.NoError(t, err)
		return n
	}
	const names = 3000 // Redis' tables, which double, are as full as they are on average
	lease, err := locks.Mutex("warm up").Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, lease.Release(ctx))
	before := used()
	var leases []*lock.Lease
	for i := range names {
		lease, err := locks.Mutex(fmt.Sprintf("order:%014d", i)).Lock(ctx)
		require.NoError(t, err)
		leases = append(leases, lease)
	}
	held := (used() - before) / names
	for _, lease := range leases {
		require.NoError(t, lease.Release(ctx))
	}
	released := (used() - before) / names
	for row, each := range map[string]int{"a lock that is held, name of 20 bytes, with its fence": held, "a name that was locked in the last 24 hours (`FenceRetention`)": released} {
		said := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(row) + ` \| (\d+) \|`).FindStringSubmatch(page(t))
		require.NotNil(t, said, row)
		want, err := strconv.Atoi(said[1])
		require.NoError(t, err)
		if strings.Contains(c.InfoMap(ctx, "server").Item("Server", "redis_version"), "7.0.") && (each < want*9/10 || each > want*11/10) {
			t.Errorf("%s: docs/operating.md says %d bytes, measured are %d", row, want, each)
		}
	}
}
