//go:build unix

package lock_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
)

const childEnv = "REDISPATTERNS_LOCK_CHILD"

func init() {
	if role := os.Getenv(childEnv); role != "" {
		runChild = func() { child(role) }
	}
}

// child is what a process that a test started does: it takes locks and says what it has.
func child(role string) {
	db, _ := strconv.Atoi(os.Getenv("DB"))
	ttl, _ := time.ParseDuration(os.Getenv("TTL"))
	c := redis.NewClient(&redis.Options{Network: os.Getenv("NETWORK"), Addr: os.Getenv("ADDR"), DB: db, ReadTimeout: 100 * time.Millisecond})
	locks, err := lock.New(c, &lock.Options{TTL: ttl, PollInterval: 200 * time.Millisecond})
	if err != nil {
		panic(err)
	}
	names := strings.Split(os.Getenv("NAMES"), ",")
	for {
		lease, err := locks.Mutex(names[rand.N(len(names))]).Lock(context.Background())
		if err != nil {
			continue
		}
		hold(c, lease, role)
		_ = lease.Release(context.Background())
	}
}

// hold says, again and again, at which time it surely had the lease: a time before a look at Held that says yes.
func hold(c *redis.Client, lease *lock.Lease, role string) {
	ctx := lease.Context(context.Background())
	for end := time.Now().Add(rand.N(20 * time.Millisecond)); ; time.Sleep(time.Millisecond) {
		before := time.Now().UnixNano()
		if ctx.Err() != nil {
			if role == "hold" {
				fmt.Printf("over %v\n", write(context.Background(), c, "resource", lease.Fence(), "late") == nil)
			}
			return
		}
		fmt.Printf("%s %d %d\n", lease.Name(), lease.Fence(), before)
		if role != "hold" && !time.Now().Before(end) {
			return
		}
	}
}

// start starts a child and passes on its lines.
func start(t *testing.T, o *redis.Options, role, names string, ttl time.Duration) (*exec.Cmd, *lines) {
	t.Helper()
	network := o.Network
	if network == "" {
		network = "tcp"
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+role, "NETWORK="+network, "ADDR="+o.Addr, "DB="+strconv.Itoa(o.DB), "NAMES="+names, "TTL="+ttl.String())
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	got := &lines{}
	got.done.Go(func() {
		for in := bufio.NewScanner(out); in.Scan(); {
			got.add(in.Text())
		}
	})
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		got.done.Wait()
		_ = cmd.Wait()
	})
	return cmd, got
}

// lines are what a child has written.
type lines struct {
	mu   sync.Mutex
	all  []string
	done sync.WaitGroup
}

func (l *lines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line)
}

func (l *lines) get() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

func (l *lines) last() string {
	all := l.get()
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// A process that is killed leaves its lock for a TTL: another has it within 100 ms after, as far as this machine itself is
// not late. The fence says when, by the server's clock, which is that of this machine.
func TestHolderIsKilled(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	c, name := s.Client(t), redistest.ID()
	const ttl = time.Second
	cmd, got := start(t, s.Options(), "hold", name, ttl)
	redistest.Eventually(t, func() bool { return got.last() != "" }, "the child has the lock")
	waiter := waiting(t, c, newLocker(t, c, nil).Mutex(name), name, 1)
	late := redistest.Lateness(t, c)
	killed := time.Now()
	require.NoError(t, cmd.Process.Kill())
	lease := <-waiter
	took, slack := time.UnixMicro(lease.Fence()).Sub(killed), late()
	t.Logf("another has the lock %v after the kill; this machine was late by up to %v", took, slack)
	require.Less(t, took, ttl+100*time.Millisecond+slack)
	require.NoError(t, lease.Release(context.Background()))
}

// A process that was stopped past its lease finds its context over, and a resource that checks the fence refuses it.
func TestHolderIsStopped(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	s.OnlyOurs(t) // the resource has one name
	c, ctx, name := s.Client(t), context.Background(), redistest.ID()
	cmd, got := start(t, s.Options(), "hold", name, time.Second)
	redistest.Eventually(t, func() bool { return got.last() != "" }, "the child has the lock")
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	lease := must(t)(newLocker(t, c, nil).Mutex(name).Lock(ctx))
	taken := time.Now().UnixNano()
	require.NoError(t, write(ctx, c, "resource", lease.Fence(), "new"))
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	redistest.Eventually(t, func() bool { return strings.HasPrefix(got.last(), "over") }, "the child noticed")
	require.Equal(t, "over false", got.last(), "its write was refused")
	for _, line := range got.get() {
		if words := strings.Fields(line); words[0] == name {
			at, err := strconv.ParseInt(words[2], 10, 64)
			require.NoError(t, err)
			require.Less(t, at, taken, "it took itself for the holder while another was")
		}
	}
	require.Equal(t, "new", c.HGet(ctx, "resource", "value").Val())
	require.NoError(t, lease.Release(ctx))
}

// span is a time during which a process surely had a lock.
type span struct {
	fence       int64
	first, last int64
}

// Eight processes take three locks, and are killed, stopped, and cut off; replies are lost, scripts flushed, subscriptions
// killed. Never do two have a lock, and fences grow.
func TestHistory(t *testing.T) {
	t.Parallel()
	s, _ := redistest.Own(t)
	p, c, ctx := s.Proxy(t), s.Client(t), context.Background()
	through := p.Client(t).Options()
	const names = "a,b,c"
	type running struct {
		cmd *exec.Cmd
		out *lines
	}
	var all []running
	children := make([]running, 8)
	begin := func(i int) {
		cmd, out := start(t, through, "work", names, 300*time.Millisecond)
		children[i] = running{cmd, out}
		all = append(all, children[i])
	}
	for i := range children {
		begin(i)
	}
	for _, r := range children { // a busy machine takes its time to start them
		redistest.Eventually(t, func() bool { return r.out.last() != "" }, "all are at work")
	}
	seen := func() (n int) {
		for _, r := range all {
			for _, found := range spansOf(t, r.out.get()) {
				n += len(found)
			}
		}
		return n
	}
	d := redistest.Long()
	if d > 3*time.Second {
		d = time.Minute
	}
	began := time.Now()
	for ; time.Since(began) < d || seen() <= 10 && time.Since(began) < redistest.Patience; s.Advance(t, rand.N(60*time.Millisecond)) {
		i := rand.N(len(children))
		switch rand.N(7) {
		case 0:
			require.NoError(t, children[i].cmd.Process.Kill())
			begin(i)
		case 1:
			process := children[i].cmd.Process
			require.NoError(t, process.Signal(syscall.SIGSTOP))
			time.AfterFunc(rand.N(600*time.Millisecond), func() { _ = process.Signal(syscall.SIGCONT) })
		case 2:
			p.DropReplies(1+rand.N(3), "evalsha")
		case 3:
			p.CloseAfter(1+rand.N(3), "evalsha")
		case 4:
			p.Kill()
		case 5:
			c.ScriptFlush(ctx)
		case 6:
			c.ClientKillByFilter(ctx, "TYPE", "pubsub")
		}
	}
	spans := map[string][]span{}
	total := 0
	for _, r := range all {
		_ = r.cmd.Process.Kill()
		r.out.done.Wait()
		for name, found := range spansOf(t, r.out.get()) {
			spans[name] = append(spans[name], found...)
			total += len(found)
		}
	}
	for name, found := range spans {
		slices.SortFunc(found, func(a, b span) int { return int(a.fence - b.fence) })
		for i := 1; i < len(found); i++ {
			a, b := found[i-1], found[i]
			require.Less(t, a.fence, b.fence, "a fence of %s twice", name)
			require.LessOrEqual(t, a.last, b.first, "two holders of %s, fences %d and %d", name, a.fence, b.fence)
		}
	}
	t.Logf("%d acquisitions by %d processes", total, len(all))
	require.Greater(t, total, 10)
}

// spansOf reads what one process had; its last line may be cut off.
func spansOf(t *testing.T, lines []string) map[string][]span {
	t.Helper()
	spans := map[string][]span{}
	for _, line := range lines {
		words := strings.Fields(line)
		if len(words) != 3 || len(words[2]) != len(strconv.FormatInt(time.Now().UnixNano(), 10)) {
			continue
		}
		fence, err := strconv.ParseInt(words[1], 10, 64)
		require.NoError(t, err)
		at, err := strconv.ParseInt(words[2], 10, 64)
		require.NoError(t, err)
		of := spans[words[0]]
		if len(of) > 0 && of[len(of)-1].fence == fence {
			of[len(of)-1].last = max(of[len(of)-1].last, at)
		} else {
			of = append(of, span{fence, at, at})
		}
		spans[words[0]] = of
	}
	return spans
}
