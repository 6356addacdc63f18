package session_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/session"
)

func newManager(t testing.TB, c redispatterns.Client, opts *session.Options, mopts *session.ManagerOptions) *session.Manager[user] {
	t.Helper()
	m, err := session.NewManager(newStore[user](t, c, opts), mopts)
	require.NoError(t, err)
	return m
}

// serve has a request with cookies go through a Manager to a handler.
func serve(m *session.Manager[user], h http.HandlerFunc, cookies ...*http.Cookie) *http.Response {
	return serveRequest(m, h, httptest.NewRequest(http.MethodGet, "https://example.com/", nil), cookies...)
}

func serveRequest(m *session.Manager[user], h http.HandlerFunc, r *http.Request, cookies ...*http.Cookie) *http.Response {
	for _, c := range cookies {
		r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
	}
	w := httptest.NewRecorder()
	m.Handler(h).ServeHTTP(w, r)
	return w.Result()
}

func login(t testing.TB, m *session.Manager[user], data user, cookies ...*http.Cookie) *http.Cookie {
	t.Helper()
	resp := serve(m, func(w http.ResponseWriter, r *http.Request) {
		_, err := m.Start(w, r, data)
		require.NoError(t, err)
	}, cookies...)
	require.Len(t, resp.Cookies(), 1)
	return resp.Cookies()[0]
}

func token(cookie *http.Cookie) string { return cookie.Value }

func TestCookieOfALogin(t *testing.T) {
	t.Parallel()
	c := redistest.Mini(t).Client(t)
	for name, tt := range map[string]struct {
		opts *session.ManagerOptions
		want string
	}{
		"default":    {nil, "__Host-session=*; Path=/; HttpOnly; Secure; SameSite=Lax"},
		"insecure":   {&session.ManagerOptions{Insecure: true}, "session=*; Path=/; HttpOnly; SameSite=Lax"},
		"domain":     {&session.ManagerOptions{Domain: "example.com"}, "session=*; Path=/; Domain=example.com; HttpOnly; Secure; SameSite=Lax"},
		"path":       {&session.ManagerOptions{Path: "/app"}, "session=*; Path=/app; HttpOnly; Secure; SameSite=Lax"},
		"strict":     {&session.ManagerOptions{SameSite: http.SameSiteStrictMode}, "__Host-session=*; Path=/; HttpOnly; Secure; SameSite=Strict"},
		"none":       {&session.ManagerOptions{SameSite: http.SameSiteNoneMode}, "__Host-session=*; Path=/; HttpOnly; Secure; SameSite=None"},
		"persistent": {&session.ManagerOptions{Persistent: true}, "__Host-session=*; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Lax"},
		"name":       {&session.ManagerOptions{Cookie: "__Secure-id"}, "__Secure-id=*; Path=/; HttpOnly; Secure; SameSite=Lax"},
	} {
		m := newManager(t, c, nil, tt.opts)
		var sess *session.Session[user]
		resp := serve(m, func(w http.ResponseWriter, r *http.Request) {
			var err error
			sess, err = m.Start(w, r, tanaka)
			require.NoError(t, err)
		})
		require.Equal(t, []string{strings.Replace(tt.want, "*", sess.Token(), 1)}, resp.Header["Set-Cookie"], name)
		require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
		cleared := serve(m, func(w http.ResponseWriter, r *http.Request) { require.NoError(t, m.Logout(w, r)) }, resp.Cookies()...)
		want := strings.Replace(tt.want, "=*;", "=;", 1)
		want = strings.Replace(want, "; Max-Age=43200", "", 1)
		want = strings.Replace(want, "; HttpOnly", "; Max-Age=0; HttpOnly", 1)
		require.Equal(t, []string{want}, cleared.Header["Set-Cookie"], "%s: the browser forgets only what it is told exactly", name)
		require.Equal(t, "no-store", cleared.Header.Get("Cache-Control"))
		requireGone(t, c, sess.ID)
	}
}

func TestNewManagerRefuses(t *testing.T) {
	t.Parallel()
	store := newStore[user](t, redistest.Mini(t).Client(t), nil)
	for name, opts := range map[string]session.ManagerOptions{
		"None without Secure":      {SameSite: http.SameSiteNoneMode, Insecure: true},
		"__Host- with a Domain":    {Cookie: "__Host-session", Domain: "example.com"},
		"__Host- with a Path":      {Cookie: "__Host-session", Path: "/app"},
		"__Host- without Secure":   {Cookie: "__Host-session", Insecure: true},
		"__Secure- without Secure": {Cookie: "__Secure-session", Insecure: true},
		"name with a space":        {Cookie: "a b"},
		"path with a semicolon":    {Path: "/;"},
		"path without a slash":     {Path: "app"},
		"odd domain":               {Domain: "exa mple"},
	} {
		_, err := session.NewManager(store, &opts)
		require.ErrorContains(t, err, "session: new manager: ManagerOptions", name)
	}
	forever := newStore[user](t, redistest.Mini(t).Client(t), &session.Options{Lifetime: -1})
	_, err := session.NewManager(forever, &session.ManagerOptions{Persistent: true})
	require.ErrorContains(t, err, "session: new manager: ManagerOptions.Persistent is true, must be false")
	_, err = session.NewManager[user](nil, nil)
	require.EqualError(t, err, "session: new manager: the store is nil")
	m, err := session.NewManager(store, nil)
	require.NoError(t, err)
	require.Same(t, store, m.Store())
}

// A request that does not ask costs nothing, one that asks costs one round trip, and strangers make no session.
func TestLoadIsLazyAndOnce(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		n := redistest.Count(c)
		m := newManager(t, c, nil, nil)
		cookie := login(t, m, tanaka)
		before := c.DBSize(ctx).Val()
		n.Reset()
		for range 100 {
			resp := serve(m, func(w http.ResponseWriter, r *http.Request) {
				_, err := m.Get(r.Context())
				require.ErrorIs(t, err, session.ErrNotFound)
			}, &http.Cookie{Name: "__Host-session", Value: "whatever"}, &http.Cookie{Name: "other", Value: token(cookie)})
			require.Empty(t, resp.Header["Set-Cookie"])
			serve(m, func(http.ResponseWriter, *http.Request) {}, cookie)
		}
		require.Zero(t, n.Trips())
		require.Equal(t, before, c.DBSize(ctx).Val())

		n.Reset()
		serve(m, func(_ http.ResponseWriter, r *http.Request) {
			var all sync.WaitGroup
			got := make([]*session.Session[user], 20)
			for i := range got {
				all.Go(func() { got[i], _ = m.Get(r.Context()) })
			}
			all.Wait()
			for _, sess := range got {
				require.Same(t, got[0], sess)
				require.Equal(t, tanaka, sess.Data)
			}
		}, cookie)
		require.Equal(t, 1, n.Trips())

		// One that has ended is asked for once too, and no cookie is set.
		require.NoError(t, m.Store().Destroy(ctx, token(cookie)[:20]))
		n.Reset()
		resp := serve(m, func(_ http.ResponseWriter, r *http.Request) {
			for range 3 {
				_, err := m.Get(r.Context())
				require.ErrorIs(t, err, session.ErrNotFound)
			}
		}, cookie)
		require.Equal(t, 1, n.Trips())
		require.Empty(t, resp.Header["Set-Cookie"])
	})
}

// A login's ID is new, whatever cookie came with it, and the session of before ends.
func TestStart(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		m := newManager(t, c, nil, nil)
		chosen := strings.Repeat("A", 20) + "." + strings.Repeat("A", 26)
		first := login(t, m, user{Username: "guest"}, &http.Cookie{Name: "__Host-session", Value: chosen})
		require.NotEqual(t, chosen[:20], token(first)[:20])
		requireGone(t, c, chosen[:20])

		resp := serve(m, func(w http.ResponseWriter, r *http.Request) {
			before, err := m.Get(r.Context())
			require.NoError(t, err)
			sess, err := m.Start(w, r, tanaka)
			require.NoError(t, err)
			require.NotEqual(t, before.ID, sess.ID)
			now, err := m.Get(r.Context())
			require.NoError(t, err)
			require.Same(t, sess, now, "the request has the new session at once")
		}, first)
		second := resp.Cookies()[0]
		requireGone(t, c, token(first)[:20])
		serve(m, func(_ http.ResponseWriter, r *http.Request) {
			sess, err := m.Get(r.Context())
			require.NoError(t, err)
			require.Equal(t, tanaka, sess.Data)
		}, second)
	})
}

func TestOneSetCookie(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		m := newManager(t, s.Client(t), nil, nil)
		var last string
		resp := serve(m, func(w http.ResponseWriter, r *http.Request) {
			http.SetCookie(w, &http.Cookie{Name: "__Host-session-theme", Value: "dark"})
			_, err := m.Start(w, r, user{})
			require.NoError(t, err)
			http.SetCookie(w, &http.Cookie{Name: "lang", Value: "ja"})
			sess, err := m.Start(w, r, tanaka)
			require.NoError(t, err)
			sess.Data.Role = "root"
			sess, err = m.Rotate(w, r)
			require.NoError(t, err)
			require.NoError(t, m.Store().Save(r.Context(), sess))
			last = sess.Token()
		})
		require.Len(t, resp.Cookies(), 3, "one of ours, and the others untouched")
		for _, cookie := range resp.Cookies() {
			if cookie.Name == "__Host-session" {
				require.Equal(t, last, cookie.Value)
			}
		}
		loaded, err := m.Store().Load(ctx, last)
		require.NoError(t, err)
		require.Equal(t, user{42, "tanaka", "root"}, loaded.Data)
	})
}

// A browser sends all cookies of a name that fit; the one that opens a session counts.
func TestTwoCookiesOfOneName(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		n := redistest.Count(c)
		m := newManager(t, c, nil, nil)
		good := login(t, m, tanaka)
		stale := &http.Cookie{Name: good.Name, Value: strings.Repeat("A", 20) + "." + strings.Repeat("A", 26)}
		odd := &http.Cookie{Name: good.Name, Value: "x"}
		for _, cookies := range [][]*http.Cookie{{good, stale}, {stale, good}, {odd, stale, stale, odd, good}} {
			serve(m, func(_ http.ResponseWriter, r *http.Request) {
				sess, err := m.Get(r.Context())
				require.NoError(t, err)
				require.Equal(t, tanaka, sess.Data)
			}, cookies...)
		}
		var many []*http.Cookie
		for i := range 100 {
			many = append(many, &http.Cookie{Name: good.Name, Value: strings.Repeat("A", 20) + "." + strings.Repeat("A", 24) + fmt.Sprint(22+i%56)})
		}
		n.Reset()
		serve(m, func(_ http.ResponseWriter, r *http.Request) {
			_, err := m.Get(r.Context())
			require.ErrorIs(t, err, session.ErrNotFound)
		}, many...)
		require.LessOrEqual(t, n.Trips(), 4)
	})
}

func TestLogout(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		m := newManager(t, c, nil, nil)
		logout := func(w http.ResponseWriter, r *http.Request) {
			require.NoError(t, m.Logout(w, r))
			_, err := m.Get(r.Context())
			require.ErrorIs(t, err, session.ErrNotFound)
			require.NoError(t, m.Logout(w, r), "twice is no error")
		}
		cookie := login(t, m, tanaka)
		require.Len(t, serve(m, logout, cookie).Cookies(), 1)
		requireGone(t, c, token(cookie)[:20])
		require.Len(t, serve(m, logout, cookie).Cookies(), 1)
		require.Len(t, serve(m, logout).Cookies(), 1)

		// Who knows an ID alone logs nobody out.
		cookie = login(t, m, tanaka)
		serve(m, logout, &http.Cookie{Name: cookie.Name, Value: token(cookie)[:21] + strings.Repeat("A", 26)})
		require.EqualValues(t, 1, c.Exists(ctx, "session:"+token(cookie)[:20]).Val())

		// A client that hangs up does not keep its session so.
		ended, cancel := context.WithCancel(ctx)
		r := httptest.NewRequest(http.MethodPost, "https://example.com/logout", nil).WithContext(ended)
		serveRequest(m, func(w http.ResponseWriter, r *http.Request) {
			cancel()
			require.NoError(t, m.Logout(w, r))
		}, r, cookie)
		requireGone(t, c, token(cookie)[:20])
	})
}

func TestLogoutOthers(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c := s.Client(t)
		m := newManager(t, c, &session.Options{UserField: "user_id"}, nil)
		phone, laptop, guest := login(t, m, tanaka), login(t, m, tanaka), login(t, m, user{})
		others := func(want int, ok bool) http.HandlerFunc {
			return func(_ http.ResponseWriter, r *http.Request) {
				n, err := m.LogoutOthers(r)
				require.Equal(t, want, n)
				require.Equal(t, ok, err == nil, "%v", err)
			}
		}
		serve(m, others(1, true), phone)
		requireGone(t, c, token(laptop)[:20])
		serve(m, others(0, true), phone)
		serve(m, others(0, false), laptop)
		serve(m, others(0, false), guest)
		require.EqualValues(t, 1, c.Exists(ctx, "session:"+token(guest)[:20]).Val())

		m = newManager(t, c, nil, nil)
		serve(m, others(0, false), phone)
	})
}

func TestRequire(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	c := s.Client(t, func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 })
	m := newManager(t, c, nil, nil)
	cookie := login(t, m, tanaka)
	welcome := func(m *session.Manager[user]) http.HandlerFunc {
		return m.Require(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sess, err := m.Get(r.Context())
			require.NoError(t, err)
			_, _ = io.WriteString(w, sess.Data.Username)
		})).ServeHTTP
	}
	var seen error
	custom := newManager(t, c, nil, &session.ManagerOptions{
		OnMissing: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", http.StatusSeeOther) },
		OnError: func(w http.ResponseWriter, _ *http.Request, err error) {
			seen = err
			w.WriteHeader(http.StatusTeapot)
		},
	})
	require.Equal(t, "tanaka", body(t, serve(m, welcome(m), cookie)))
	require.Equal(t, http.StatusUnauthorized, serve(m, welcome(m)).StatusCode)
	require.Equal(t, http.StatusSeeOther, serve(custom, welcome(custom)).StatusCode)

	s.Mini.SetError("LOADING Redis is loading the dataset in memory")
	resp := serve(m, welcome(m), cookie)
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, "Redis being down makes nobody a stranger")
	require.NotContains(t, body(t, resp), "LOADING")
	require.Empty(t, resp.Cookies())
	require.Equal(t, http.StatusUnauthorized, serve(m, welcome(m)).StatusCode, "without a cookie there is nothing to ask")
	require.Equal(t, http.StatusTeapot, serve(custom, welcome(custom), cookie).StatusCode)
	require.ErrorContains(t, seen, "LOADING")
	require.NotErrorIs(t, seen, session.ErrNotFound)
	require.NotContains(t, seen.Error(), token(cookie)[21:])

	// An error is not remembered: the next call of the request asks again.
	serve(m, func(w http.ResponseWriter, r *http.Request) {
		_, err := m.Get(r.Context())
		require.Error(t, err)
		_, err = m.Start(w, r, tanaka)
		require.Error(t, err)
		require.Error(t, m.Logout(w, r))
		require.Len(t, w.Header()["Set-Cookie"], 1, "the cookie is cleared even so")
		require.Contains(t, w.Header()["Set-Cookie"][0], "Max-Age=0")
		s.Mini.SetError("")
		_, err = m.Get(r.Context())
		require.NoError(t, err)
	}, cookie)
}

func body(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(b)
}

func TestWithoutHandler(t *testing.T) {
	t.Parallel()
	m := newManager(t, redistest.Mini(t).Client(t), nil, nil)
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	_, err := m.Get(r.Context())
	require.EqualError(t, err, "session: get: the request did not come through the Manager's Handler")
	require.NotErrorIs(t, err, session.ErrNotFound)
	_, err = m.Start(w, r, tanaka)
	require.Error(t, err)
	_, err = m.Rotate(w, r)
	require.Error(t, err)
	_, err = m.LogoutOthers(r)
	require.Error(t, err)
	require.Empty(t, w.Header())
	require.Error(t, m.Logout(w, r))
}

// Two Managers, of users and of administrators say, keep apart.
func TestTwoManagers(t *testing.T) {
	t.Parallel()
	c := redistest.Mini(t).Client(t)
	users := newManager(t, c, nil, nil)
	admins := newManager(t, c, &session.Options{Prefix: "admin:"}, &session.ManagerOptions{Cookie: "__Host-admin"})
	cookie := login(t, users, tanaka)
	serve(users, func(w http.ResponseWriter, r *http.Request) {
		admins.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := users.Get(r.Context())
			require.NoError(t, err)
			_, err = admins.Get(r.Context())
			require.ErrorIs(t, err, session.ErrNotFound)
			_, err = admins.Start(w, r, tanaka)
			require.NoError(t, err)
			_, err = users.Rotate(w, r)
			require.NoError(t, err)
			require.Len(t, w.Header()["Set-Cookie"], 2)
		})).ServeHTTP(w, r)
	}, cookie)
}

// A Rotate of which nobody knows if it happened sets no cookie; one that lost to another request sets none either.
func TestRotateWithoutACookie(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		d := &dying{Client: s.Client(t)}
		d.left.Store(1 << 20)
		m := newManager(t, d, nil, nil)
		cookie := login(t, m, tanaka)
		resp := serve(m, func(w http.ResponseWriter, r *http.Request) {
			_, err := m.Get(r.Context())
			require.NoError(t, err)
			d.left.Store(0)
			_, err = m.Rotate(w, r)
			require.ErrorIs(t, err, session.ErrUnknown)
			require.ErrorIs(t, err, errDead)
			d.left.Store(1 << 20)
		}, cookie)
		require.Empty(t, resp.Cookies())

		resp = serve(m, func(w http.ResponseWriter, r *http.Request) {
			_, err := m.Get(r.Context())
			require.NoError(t, err)
			serve(m, func(w http.ResponseWriter, r *http.Request) {
				_, err := m.Rotate(w, r)
				require.NoError(t, err)
			}, cookie)
			_, err = m.Rotate(w, r)
			require.ErrorIs(t, err, session.ErrConflict)
		}, cookie)
		require.Empty(t, resp.Cookies())
	})
}

// Where the session before cannot be ended, there is no new one either.
func TestStartIsAllOrNothing(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c := s.Client(t)
		f := &failingDestroys{Client: c}
		m := newManager(t, f, nil, nil)
		cookie := login(t, m, tanaka)
		f.left = 3
		resp := serve(m, func(w http.ResponseWriter, r *http.Request) {
			_, err := m.Start(w, r, tanaka)
			require.ErrorIs(t, err, errDead)
			sess, err := m.Get(r.Context())
			require.NoError(t, err)
			require.Equal(t, token(cookie), sess.Token())
		}, cookie)
		require.Empty(t, resp.Cookies())
		require.Equal(t, 1, keys(t, c))
	})
}

// failingDestroys is a client that fails where destroy.lua would run.
type failingDestroys struct {
	redispatterns.Client
	left int
}

func (f *failingDestroys) Process(ctx context.Context, cmd redis.Cmder) error {
	if args := cmd.Args(); f.left > 0 && len(args) == 6 { // EVALSHA, hash, 1, key, field, user
		f.left--
		cmd.SetErr(errDead)
		return errDead
	}
	return f.Client.Process(ctx, cmd)
}

func TestPersistentCookieOfAShortOrALongLifetime(t *testing.T) {
	t.Parallel()
	c := redistest.Mini(t).Client(t)
	m := newManager(t, c, &session.Options{Lifetime: 10 * time.Millisecond}, &session.ManagerOptions{Persistent: true})
	require.Equal(t, 1, login(t, m, tanaka).MaxAge, "0 would be no Max-Age at all")
	m = newManager(t, c, &session.Options{Lifetime: century}, &session.ManagerOptions{Persistent: true})
	require.Equal(t, math.MaxInt32, login(t, m, tanaka).MaxAge, "more would end it at once where an int has 32 bits")
}
