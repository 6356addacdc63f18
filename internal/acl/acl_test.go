// Package acl holds tests alone: that docs/security.md grants each package what it needs of Redis, and nothing more.
package acl_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/rediskey"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var ctx = context.Background()

// packages are the four, by the user that docs/security.md makes for each, with a run of all that each can do.
var packages = map[string]func(c *calls, client redispatterns.Client){
	"sessions": sessions,
	"limits":   limits,
	"boards":   boards,
	"locks":    locks,
}

var setUser = regexp.MustCompile(`(?m)^redis-cli ACL SETUSER (\S+) ((?:.*\\\n)*.*)$`)

// granted are the rules of docs/security.md, by user, without those that name a password or switch the user on.
func granted(t *testing.T) map[string][]string {
	t.Helper()
	rules := map[string][]string{}
	for _, m := range setUser.FindAllStringSubmatch(page(t), -1) {
		for _, word := range strings.Fields(strings.NewReplacer("\\\n", " ", "'", "").Replace(m[2])) {
			if strings.ContainsRune("+~&", rune(word[0])) {
				rules[m[1]] = append(rules[m[1]], word)
			}
		}
	}
	for name := range packages {
		require.NotEmpty(t, rules[name], "docs/security.md grants nothing to %s", name)
	}
	return rules
}

// calls are the methods that a run has called.
type calls struct {
	ctx    context.Context
	as     login
	mu     sync.Mutex
	called map[string]bool
	long   bool // for what takes seconds to come
	local  []string
	types  []reflect.Type
}

type failed struct{ error }

// did notes that a method was called. A run ends at its first error.
func (c *calls) did(method string, err error) {
	c.mu.Lock()
	c.called[method] = true
	c.mu.Unlock()
	if err != nil {
		panic(failed{fmt.Errorf("%s: %w", method, err)})
	}
}

// until waits for a condition: that what follows finds Redis in a certain state. Who lacks a right may never get there, so
// the first refusal ends it.
func (c *calls) until(condition func() bool) {
	for !condition() && len(c.as.refused()) == 0 && c.ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond) // the log is long
	}
}

// knows says that the run calls each exported method of T, but those that ask nothing of Redis.
func knows[T any](c *calls, local ...string) {
	c.types = append(c.types, reflect.TypeFor[*T]())
	c.local = append(c.local, local...)
}

// complete requires that no method of the types was left out.
func (c *calls) complete(t *testing.T) {
	t.Helper()
	require.NotEmpty(t, c.types)
	for _, kind := range c.types {
		name, _, _ := strings.Cut(kind.Elem().Name(), "[")
		for i := range kind.NumMethod() {
			method := name + "." + kind.Method(i).Name
			require.NotEqual(t, slices.Contains(c.local, kind.Method(i).Name), c.called[method], "is %s called, or else local?", method)
		}
	}
}

// try runs all that a package can do, and answers what went wrong.
func try(run func(*calls, redispatterns.Client), as login, client redispatterns.Client, long bool) (c *calls, err error) {
	bounded, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c = &calls{ctx: bounded, as: as, called: map[string]bool{}, long: long}
	defer func() {
		switch f := recover().(type) {
		case nil:
		case failed:
			err = f.error
		default:
			panic(f)
		}
	}()
	run(c, client)
	return c, nil
}

// login is a user of a server.
type login struct {
	name  string // and password
	admin *redis.Client
}

// user makes a user that may do what rules say.
func user(t *testing.T, admin *redis.Client, rules []string) login {
	t.Helper()
	as := login{redistest.ID(), admin}
	as.may(t, rules)
	return as
}

func (as login) may(t *testing.T, rules []string) {
	t.Helper()
	args := []any{"acl", "setuser", as.name, "reset", "on", ">" + as.name}
	for _, rule := range rules {
		args = append(args, rule)
	}
	const identity = "client|setinfo" // of the handshake, since Redis 7.2
	if known, err := as.admin.Do(ctx, "command", "info", identity).Slice(); err == nil && known[0] != nil {
		args = append(args, "+"+identity)
	}
	require.NoError(t, as.admin.Do(ctx, args...).Err())
}

// refused is what Redis has refused to the user.
func (as login) refused() (objects []string) {
	log, err := as.admin.ACLLog(ctx, 1<<20).Result()
	if err != nil {
		return []string{err.Error()}
	}
	for _, entry := range log {
		if entry.Username == as.name {
			objects = append(objects, fmt.Sprintf("%s %q, %s", entry.Reason, entry.Object, entry.Context))
		}
	}
	return objects
}

func without(rules []string, rule string) []string {
	return slices.DeleteFunc(slices.Clone(rules), func(r string) bool { return r == rule })
}

// Each package does all that it can with what its line grants, and Redis refuses it nothing. Without any one of the rules
// Redis refuses it something: so the line has no rule too many.
func TestEachLineIsEnoughAndNoMore(t *testing.T) {
	t.Parallel()
	s, _ := redistest.Own(t, "--acllog-max-len", "100000")
	admin, rules := s.Client(t), granted(t)
	client := func(as login) *redis.Client {
		return s.Client(t, func(o *redis.Options) { o.Username, o.Password = as.name, as.name })
	}
	type reduced struct {
		name, rule string
		as         login
		err        error
	}
	var runs []*reduced
	var wg sync.WaitGroup
	atOnce := make(chan struct{}, 8)
	for name, run := range packages {
		for _, rule := range rules[name] {
			r := &reduced{name: name, rule: rule, as: user(t, admin, without(rules[name], rule))}
			runs = append(runs, r)
			c := client(r.as)
			if rule == "+eval" {
				continue // missed only where nobody has loaded the scripts
			}
			wg.Go(func() {
				atOnce <- struct{}{}
				defer func() { <-atOnce }()
				_, r.err = try(run, r.as, c, rule == "+ping" || rule == "+unsubscribe")
			})
		}
	}
	for name, run := range packages {
		t.Run(name, func(t *testing.T) {
			u := user(t, admin, rules[name])
			c, err := try(run, u, client(u), true)
			require.Empty(t, u.refused(), "docs/security.md grants %s too little", name)
			require.NoError(t, err)
			c.complete(t)
			for _, forbidden := range []redis.Cmder{
				redis.NewCmd(ctx, "hgetall", "other"), redis.NewCmd(ctx, "keys", "*"), redis.NewCmd(ctx, "flushall"),
				redis.NewCmd(ctx, "config", "get", "*"), redis.NewCmd(ctx, "script", "flush"), redis.NewCmd(ctx, "acl", "whoami"),
				redis.NewCmd(ctx, "publish", "news", ""), redis.NewCmd(ctx, "eval", "return redis.call('DEL', KEYS[1])", 1, "other"),
			} {
				require.ErrorContains(t, client(u).Process(ctx, forbidden), "NOPERM", "%v", forbidden.Args())
			}
			hidden := redis.NewCmd(ctx, "eval", "return redis.call('ZADD', 'other', 1, 'm')", 0)
			require.Regexp(t, "can't access at least one of the keys|No permissions to access a key", client(u).Process(ctx, hidden))
		})
	}
	wg.Wait()
	for _, r := range runs {
		t.Run(r.name+" without "+r.rule, func(t *testing.T) {
			if r.rule == "+eval" {
				require.NoError(t, admin.ScriptFlush(ctx).Err())
				_, r.err = try(packages[r.name], r.as, client(r.as), false)
			}
			redistest.Eventually(t, func() bool { return len(r.as.refused()) > 0 },
				"docs/security.md grants %s too much: nothing is refused without %s (the run's error: %v)", r.name, r.rule, r.err)
		})
	}
}

var call = regexp.MustCompile(`redis\.p?call\('([A-Z]+)'(, 'NUMSUB')?`)

// Every command that stands in a script is granted, also where no run comes past it.
func TestEveryCommandOfTheScriptsIsGranted(t *testing.T) {
	t.Parallel()
	rules := granted(t)
	for name, folder := range map[string]string{"sessions": "session", "limits": "ratelimit", "boards": "ranking", "locks": "lock"} {
		files, err := filepath.Glob("../../" + folder + "/*.lua")
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, m := range call.FindAllStringSubmatch(string(source), -1) {
				rule := "+" + strings.ToLower(m[1])
				if m[2] != "" {
					rule += "|numsub"
				}
				require.Contains(t, rules[name], rule, file)
			}
		}
	}
}

// A cluster client needs the rules of the line "cluster" besides.
func TestOnACluster(t *testing.T) {
	t.Parallel()
	cluster, rules := redistest.OwnCluster(t, 1, 10*time.Second), granted(t)
	admin := redis.NewClient(&redis.Options{Addr: cluster.Addrs[0]})
	t.Cleanup(func() { _ = admin.Close() })
	require.NoError(t, admin.ConfigSet(ctx, "acllog-max-len", "100000").Err())
	client := func(as login) *redis.ClusterClient {
		return cluster.Client(t, func(o *redis.ClusterOptions) { o.Username, o.Password = as.name, as.name })
	}
	for name, run := range packages {
		t.Run(name, func(t *testing.T) {
			u := user(t, admin, append(slices.Clone(rules[name]), rules["cluster"]...))
			_, err := try(run, u, client(u), false)
			require.Empty(t, u.refused())
			require.NoError(t, err)
		})
	}
	for _, rule := range without(rules["cluster"], "+asking") {
		t.Run("without "+rule, func(t *testing.T) {
			u := user(t, admin, append(slices.Clone(rules["limits"]), without(rules["cluster"], rule)...))
			_, err := try(limits, u, client(u), false)
			require.NotEmpty(t, u.refused(), "the run's error: %v", err)
		})
	}
}

// While a slot moves, the node that has it sends a client on to the one that gets it, where ASKING opens the door.
func TestAskingWhileASlotMoves(t *testing.T) {
	t.Parallel()
	cluster, rules := redistest.OwnCluster(t, 2, 10*time.Second), granted(t)
	var nodes []*redis.Client
	for _, addr := range cluster.Addrs {
		admin := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = admin.Close() })
		nodes = append(nodes, admin)
	}
	id := redistest.ID()
	slot := rediskey.Slot("ratelimit:" + id)
	from := slot * 2 / rediskey.Slots
	source, target := nodes[from], nodes[1-from]
	sourceID, err := source.Do(ctx, "cluster", "myid").Text()
	require.NoError(t, err)
	targetID, err := target.Do(ctx, "cluster", "myid").Text()
	require.NoError(t, err)
	require.NoError(t, target.Do(ctx, "cluster", "setslot", slot, "importing", sourceID).Err())
	require.NoError(t, source.Do(ctx, "cluster", "setslot", slot, "migrating", targetID).Err())
	for _, with := range []bool{true, false} {
		grant := append(slices.Clone(rules["limits"]), rules["cluster"]...)
		if !with {
			grant = without(grant, "+asking")
		}
		u := user(t, source, grant)
		there := login{u.name, target} // users are not replicated
		there.may(t, grant)
		client := cluster.Client(t, func(o *redis.ClusterOptions) { o.Username, o.Password = u.name, u.name })
		l, err := ratelimit.NewSlidingWindow(client, ratelimit.PerMinute(10), nil)
		require.NoError(t, err)
		_, err = l.Allow(ctx, id)
		require.Equal(t, with, err == nil, "%v", err)
		require.Equal(t, with, len(there.refused()) == 0)
		require.Empty(t, u.refused())
	}
}
