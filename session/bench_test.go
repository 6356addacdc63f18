package session_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/session"
)

// The bounds are those of the design; what each operation sends beside them is in docs/keys.md.
func TestAllocations(t *testing.T) {
	if redistest.Race {
		t.Skip("allocations are not counted under the race detector")
	}
	c := redistest.Real(t).Client(t)
	store := newStore[user](t, c, nil)
	renewing := newStore[user](t, c, &session.Options{TouchEvery: -1})
	sess := create(t, store, tanaka)
	m, err := session.NewManager(store, nil)
	require.NoError(t, err)
	handler := m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := m.Get(r.Context()); err != nil {
			t.Error(err)
		}
	}))
	cookie := http.Header{"Cookie": {"theme=dark; __Host-session=" + sess.Token()}}
	for name, tt := range map[string]struct {
		op     func() error
		allocs float64
	}{
		"read":               {func() error { _, err := store.Load(ctx, sess.Token()); return err }, 40},
		"read that renews":   {func() error { _, err := renewing.Load(ctx, sess.Token()); return err }, 40},
		"change and save":    {func() error { return changeAndSave(store, sess.Token()) }, 60},
		"update":             {func() error { return store.Update(ctx, sess, increment) }, 60},
		"request":            {func() error { serveQuietly(handler, cookie); return nil }, 40},
		"create and destroy": {func() error { return createAndDestroy(store) }, 60},
	} {
		allocs := redistest.Allocs(t, tt.op)
		t.Logf("%s: %v allocations", name, allocs)
		require.LessOrEqual(t, allocs, tt.allocs, name)
	}
}

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		n := redistest.Count(c)
		store := newStore[user](t, c, nil)
		renewing := newStore[user](t, c, &session.Options{TouchEvery: -1})
		due := newStore[user](t, c, &session.Options{IdleTimeout: time.Hour}) // by whose measure the session is unused since long
		byUser := newStore[user](t, c, &session.Options{UserField: "role"})
		elsewhere := newStore[user](t, s.Client(t), &session.Options{UserField: "role"}) // whose trips are not counted
		mine := create(t, byUser, tanaka)
		create(t, byUser, user{Role: "reader"})
		sess := create(t, store, tanaka)
		for name, tt := range map[string]struct {
			op    func() error
			trips int
		}{
			"indexed: create":  {func() error { _, err := byUser.Create(ctx, tanaka); return err }, 2},
			"indexed: read":    {func() error { _, err := byUser.Load(ctx, mine.Token()); return err }, 1},
			"indexed: save":    {func() error { mine.Data.UserID++; return byUser.Save(ctx, mine) }, 1},
			"indexed: rotate":  {func() error { return byUser.Rotate(ctx, mine) }, 1},
			"indexed: move":    {func() error { mine.Data.Role += "x"; return byUser.Save(ctx, mine) }, 4},
			"indexed: destroy": {func() error { return byUser.Destroy(ctx, create(t, elsewhere, tanaka).ID) }, 2},
			"indexed: list":    {func() error { _, err := byUser.List(ctx, "reader"); return err }, 2},
			"indexed: destroy all": {func() error {
				for range 3 {
					create(t, elsewhere, user{Role: "writer"})
				}
				_, err := byUser.DestroyAll(ctx, "writer")
				return err
			}, 3},
			"create":           {func() error { _, err := store.Create(ctx, tanaka); return err }, 1},
			"read":             {func() error { _, err := store.Load(ctx, sess.Token()); return err }, 1},
			"read that renews": {func() error { _, err := renewing.Load(ctx, sess.Token()); return err }, 1},
			"read, touch due": {func() error {
				c.PExpire(ctx, "session:"+sess.ID, time.Minute)
				n.Reset()
				_, err := due.Load(ctx, sess.Token())
				return err
			}, 2},
			"by ID":   {func() error { _, err := store.ByID(ctx, sess.ID); return err }, 1},
			"save":    {func() error { sess.Data.UserID++; return store.Save(ctx, sess) }, 1},
			"touch":   {func() error { return store.Touch(ctx, sess.ID) }, 1},
			"destroy": {func() error { return store.Destroy(ctx, redistest.ID()[:20]) }, 1},
		} {
			require.NoError(t, tt.op()) // the script is there now
			n.Reset()
			require.NoError(t, tt.op())
			require.Equal(t, tt.trips, n.Trips(), name)
		}
	})
}

func changeAndSave(store *session.Store[user], token string) error {
	sess, err := store.Load(ctx, token)
	if err != nil {
		return err
	}
	if sess.Data.Role == "editor" {
		sess.Data.Role = "member"
	} else {
		sess.Data.Role = "editor"
	}
	return store.Save(ctx, sess)
}

func createAndDestroy(store *session.Store[user]) error {
	sess, err := store.Create(ctx, tanaka)
	if err != nil {
		return err
	}
	return store.Destroy(ctx, sess.ID)
}

// What a session costs in Redis, all its keys and their places in Redis' tables included.
func TestBytesPerSession(t *testing.T) {
	t.Parallel()
	s, _ := redistest.Own(t)
	c := s.Client(t)
	store := newStore[user](t, c, nil)
	const sessions = 12_000 // Redis' tables, which double, are as full as they are on average
	used := func() int {
		n, err := strconv.Atoi(c.InfoMap(ctx, "memory").Item("Memory", "used_memory"))
		require.NoError(t, err)
		return n
	}
	create(t, store, tanaka)
	before := used()
	for range sessions {
		create(t, store, tanaka)
	}
	each := (used() - before) / sessions
	t.Logf("%d bytes per session", each)
	require.LessOrEqual(t, each, 300)
}

func BenchmarkLoad(b *testing.B) {
	benchmark(b, nil, func(store *session.Store[user], token string) error {
		_, err := store.Load(ctx, token)
		return err
	})
}

func BenchmarkLoadRenewing(b *testing.B) {
	benchmark(b, &session.Options{TouchEvery: -1}, func(store *session.Store[user], token string) error {
		_, err := store.Load(ctx, token)
		return err
	})
}

func BenchmarkChangeAndSave(b *testing.B) { benchmark(b, nil, changeAndSave) }

func BenchmarkCreateAndDestroy(b *testing.B) {
	benchmark(b, nil, func(store *session.Store[user], _ string) error { return createAndDestroy(store) })
}

func benchmark(b *testing.B, opts *session.Options, op func(*session.Store[user], string) error) {
	store := newStore[user](b, redistest.Real(b).Client(b), opts)
	token := create(b, store, tanaka).Token()
	b.ReportAllocs()
	for b.Loop() {
		if err := op(store, token); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkByHand is the reference: HGETALL and EXPIRE in a pipeline, as an application would write it.
func BenchmarkByHand(b *testing.B) {
	c := redistest.Real(b).Client(b)
	require.NoError(b, c.HSet(ctx, "session:1", "user_id", "42", "username", "tanaka", "role", "admin").Err())
	b.ReportAllocs()
	for b.Loop() {
		var all *redis.MapStringStringCmd
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			all = p.HGetAll(ctx, "session:1")
			p.Expire(ctx, "session:1", 30*time.Minute)
			return nil
		})
		if err != nil || len(all.Val()) == 0 {
			b.Fatal(err)
		}
	}
}

func BenchmarkUpdate(b *testing.B) {
	benchmark(b, nil, func(store *session.Store[user], token string) error {
		sess, err := store.Load(ctx, token)
		if err != nil {
			return err
		}
		return store.Update(ctx, sess, increment)
	})
}

func BenchmarkRotate(b *testing.B) {
	store := newStore[user](b, redistest.Real(b).Client(b), nil)
	sess := create(b, store, tanaka)
	b.ReportAllocs()
	for b.Loop() {
		if err := store.Rotate(ctx, sess); err != nil {
			b.Fatal(err)
		}
	}
}

// serveQuietly has a handler serve a request, and costs next to nothing itself.
func serveQuietly(h http.Handler, header http.Header) {
	h.ServeHTTP(nil, &http.Request{Method: http.MethodGet, Header: header})
}

// What the index costs as a user's sessions grow in number.
func BenchmarkSessionsPerUser(b *testing.B) {
	for _, sessions := range []int{1, 10, 100, 1000} {
		c := redistest.Real(b).Client(b)
		store := newStore[user](b, c, &session.Options{UserField: "user_id"})
		m, err := session.NewManager(store, nil)
		require.NoError(b, err)
		fill := func(b *testing.B) {
			for range sessions - int(c.ZCard(ctx, "session:user:42").Val()) {
				create(b, store, tanaka)
			}
		}
		// run has op look at an index of the given size; if it empties it, that is filled again beside the clock.
		run := func(name string, empties bool, op func() error) {
			b.Run(fmt.Sprintf("%s/%d", name, sessions), func(b *testing.B) {
				fill(b)
				b.ReportAllocs()
				for b.Loop() {
					if err := op(); err != nil {
						b.Fatal(err)
					}
					if empties {
						b.StopTimer()
						fill(b)
						b.StartTimer()
					}
				}
			})
		}
		run("List", false, func() error { _, err := store.List(ctx, "42"); return err })
		run("CreateAndDestroy", false, func() error { return createAndDestroy(store) })
		if sessions > 1 {
			own := create(b, store, tanaka)
			request := &http.Request{Header: http.Header{"Cookie": {"__Host-session=" + own.Token()}}}
			handler := func(err *error) http.Handler {
				return m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, *err = m.LogoutOthers(r) }))
			}
			run("LogoutOthers", true, func() (err error) { handler(&err).ServeHTTP(nil, request); return err })
		}
		run("DestroyAll", true, func() error { _, err := store.DestroyAll(ctx, "42"); return err })
	}
}
