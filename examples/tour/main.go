// Tour shows the four patterns at work: each call, what it answered, and what then lies in Redis. It runs on an embedded
// Redis, or on REDIS_ADDR; there it stops if one of its keys exists already, and leaves nothing behind.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/examples/internal/app"
	"github.com/redispatterns/redispatterns/lock"
	"github.com/redispatterns/redispatterns/ranking"
	"github.com/redispatterns/redispatterns/ratelimit"
	"github.com/redispatterns/redispatterns/session"
)

func main() { app.Main(run) }

// The names that the tour works on.
const (
	userID   = "user42"
	board    = "game"
	resource = "order:12345"
)

func run(ctx context.Context, out io.Writer) error {
	client, stop, err := app.Redis(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if err := refuseTaken(ctx, client); err != nil {
		return err
	}
	t := &tour{out: out, client: client}
	for _, screen := range []func(context.Context) error{t.sessions, t.limits, t.rankings, t.locks} {
		if err := screen(ctx); err != nil {
			return err
		}
	}
	return nil
}

// tour prints one screen for each pattern. Each screen takes back what it wrote, and nothing else.
type tour struct {
	out    io.Writer
	client *redis.Client
}

// undo runs fn at the end of a screen, though the context has ended, and joins its error.
func undo(ctx context.Context, err *error, fn func(context.Context) error) {
	*err = errors.Join(*err, fn(context.WithoutCancel(ctx)))
}

func (t *tour) title(text string) {
	fmt.Fprintf(t.out, "\n──── %s ────\n", text)
}

func (t *tour) say(format string, args ...any) {
	fmt.Fprintf(t.out, "\n"+format+"\n", args...)
}

// call prints what was called and what it answered.
func (t *tour) call(code, format string, args ...any) {
	fmt.Fprintf(t.out, "  %-52s → %s\n", code, fmt.Sprintf(format, args...))
}

type user struct {
	ID       string `redis:"user_id"`
	Username string `redis:"username"`
	Role     string `redis:"role"`
}

func (t *tour) sessions(ctx context.Context) (err error) {
	t.title("Sessions: a hash with a TTL, so any server serves any user")
	serverA, err := session.New[user](t.client, nil)
	if err != nil {
		return err
	}
	serverB, err := session.New[user](t.client, nil)
	if err != nil {
		return err
	}
	t.say("Server A logs tanaka in. The cookie is the session's ID and a secret; Redis has the secret's hash alone.")
	sess, err := serverA.Create(ctx, user{ID: userID, Username: "tanaka", Role: "member"})
	if err != nil {
		return err
	}
	defer undo(ctx, &err, func(ctx context.Context) error { return serverA.Destroy(ctx, sess.ID) })
	t.call(`serverA.Create(ctx, user{"user42", "tanaka", …})`, "%s", sess.ID)
	if err := t.show(ctx, "session:"+sess.ID); err != nil {
		return err
	}

	t.say("Server A is gone. Server B has never seen this user, and knows him all the same.")
	onB, err := serverB.Load(ctx, sess.Token())
	if err != nil {
		return err
	}
	t.call("serverB.Load(ctx, token)", "%s, %s", onB.Data.Username, onB.Data.Role)
	onB.Data.Role = "admin"
	if err := serverB.Save(ctx, onB); err != nil {
		return err
	}
	t.call(`serverB.Save(ctx, sess)`, "only role was sent, since only role changed")

	t.say("Logged out means logged out: nothing that comes late brings the session back.")
	if err := serverB.Destroy(ctx, sess.ID); err != nil {
		return err
	}
	t.call("serverB.Destroy(ctx, id)", "ok")
	t.call("serverA.Save(ctx, sess)", "%v", serverA.Save(ctx, sess))
	return nil
}

func (t *tour) limits(ctx context.Context) (err error) {
	t.title("Rate limits: shared by all servers, denied is not counted")
	fixed, err := ratelimit.NewFixedWindow(t.client, ratelimit.PerMinute(3), nil)
	if err != nil {
		return err
	}
	defer undo(ctx, &err, func(ctx context.Context) error { return fixed.Reset(ctx, userID) })
	t.say("Fixed window: a counter for each minute of Redis' clock, gone when the minute ends.")
	if err := t.allow(ctx, "fixed", fixed, 4); err != nil {
		return err
	}
	counters, err := keys(ctx, t.client, "ratelimit:"+userID+":*")
	if err != nil {
		return err
	}
	if err := t.show(ctx, counters...); err != nil {
		return err
	}

	sliding, err := ratelimit.NewSlidingWindow(t.client, ratelimit.Limit{Events: 3, Per: 2 * time.Second}, nil)
	if err != nil {
		return err
	}
	defer undo(ctx, &err, func(ctx context.Context) error { return sliding.Reset(ctx, userID) })
	t.say("Sliding window: a log of requests, never more than 3 in any 2 seconds.")
	if err := t.allow(ctx, "sliding", sliding, 3); err != nil {
		return err
	}
	denied, err := sliding.Allow(ctx, userID)
	if err != nil {
		return err
	}
	t.call(`sliding.Allow(ctx, "user42")`, "denied: 429, Retry-After %v", denied.RetryAfter.Round(time.Millisecond))
	if err := t.show(ctx, "ratelimit:"+userID); err != nil {
		return err
	}
	if err := wait(ctx, denied.RetryAfter); err != nil {
		return err
	}
	t.say("After exactly that time the same call passes.")
	return t.allow(ctx, "sliding", sliding, 1)
}

func (t *tour) allow(ctx context.Context, name string, limiter *ratelimit.Limiter, times int) error {
	for range times {
		res, err := limiter.Allow(ctx, userID)
		if err != nil {
			return err
		}
		verdict := "denied: 429"
		if res.Allowed {
			verdict = "allowed"
		}
		t.call(name+`.Allow(ctx, "user42")`, "%s, %d of %d left", verdict, res.Remaining, res.Limit)
	}
	return nil
}

func (t *tour) rankings(ctx context.Context) (err error) {
	t.title("Ranking: a sorted set, a score is ranked the moment it is written")
	game, err := ranking.New(t.client, board, nil)
	if err != nil {
		return err
	}
	defer undo(ctx, &err, func(ctx context.Context) error {
		_, err := game.Remove(ctx, "player:alice", "player:bob", "player:carol")
		return err
	})
	t.say("Each write answers where the player stands now, in the same round trip.")
	for _, s := range []struct {
		player string
		score  float64
	}{{"player:alice", 1500}, {"player:bob", 1200}, {"player:carol", 1400}} {
		u, err := game.Set(ctx, s.player, s.score)
		if err != nil {
			return err
		}
		t.call(fmt.Sprintf("game.Set(ctx, %q, %g)", s.player, s.score), "rank %d of %d", u.Rank, u.Total)
	}
	u, err := game.Increment(ctx, "player:carol", 200)
	if err != nil {
		return err
	}
	t.call(`game.Increment(ctx, "player:carol", 200)`, "score %g, rank %d of %d", u.Score, u.Rank, u.Total)
	top, err := game.Top(ctx, 3)
	if err != nil {
		return err
	}
	t.call("game.Top(ctx, 3)", "%s, %s, %s", top[0].Member, top[1].Member, top[2].Member)
	return t.show(ctx, "ranking:"+board)
}

func (t *tour) locks(ctx context.Context) (err error) {
	t.title("Lock: a key with an owner and a lease")
	locker, err := lock.New(t.client, &lock.Options{NoRenew: true})
	if err != nil {
		return err
	}
	defer locker.Close()
	order := locker.Mutex(resource)
	defer undo(ctx, &err, func(ctx context.Context) error { // the lock itself is released, or lapses
		return t.client.Del(ctx, "{lock:"+resource+"}~f").Err()
	})
	t.say("One worker gets the order, the other is told no.")
	first, err := order.TryLock(ctx)
	if err != nil {
		return err
	}
	t.call("worker 1: order.TryLock(ctx)", "fence %d", first.Fence())
	_, err = order.TryLock(ctx)
	if !errors.Is(err, lock.ErrNotAcquired) {
		return fmt.Errorf("two workers hold one lock: %w", err)
	}
	t.call("worker 2: order.TryLock(ctx)", "%v", lock.ErrNotAcquired)
	if err := t.show(ctx, "lock:"+resource); err != nil {
		return err
	}
	if err := first.Release(ctx); err != nil {
		return err
	}
	t.call("worker 1: lease.Release(ctx)", "released, for the owner's token matched")

	t.say("Worker 2 takes it for one second and dies. Expiry frees it, and the fence tells the old holder from the new.")
	dead, err := order.WithTTL(time.Second).TryLock(ctx)
	if err != nil {
		return err
	}
	t.call("worker 2: order.WithTTL(1s).TryLock(ctx)", "fence %d", dead.Fence())
	began := time.Now()
	next, err := order.Lock(ctx)
	if err != nil {
		return err
	}
	t.call("worker 1: order.Lock(ctx)", "fence %d, after %v", next.Fence(), time.Since(began).Round(100*time.Millisecond))
	t.call("worker 2: lease.Release(ctx)", "%v", dead.Release(ctx))
	if err := next.Release(ctx); err != nil {
		return err
	}
	t.call("worker 1: lease.Release(ctx)", "ok")
	return nil
}

// wait waits for d, or for the context's end.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
