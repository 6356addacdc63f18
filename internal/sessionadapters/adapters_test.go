package sessionadapters_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/gorilla/sessions"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/internal/sessionadapters"
	"github.com/redispatterns/redispatterns/session"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var (
	_ scs.CtxStore   = (*sessionadapters.SCS)(nil)
	_ sessions.Store = (*sessionadapters.Gorilla)(nil)
)

// manager is made before TestMain looks for goroutines, since scs.New leaves one behind.
var manager = scs.New()

func get(t *testing.T, h http.Handler, path string, cookies []*http.Cookie) (string, []*http.Cookie) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for _, c := range cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	if set := w.Result().Cookies(); len(set) > 0 {
		cookies = set
	}
	return w.Body.String(), cookies
}

func TestSCS(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c := s.Client(t)
		store, err := sessionadapters.NewSCS(c, 24*time.Hour)
		require.NoError(t, err)
		m := manager
		m.Store = store
		mux := http.NewServeMux()
		mux.HandleFunc("/login", func(_ http.ResponseWriter, r *http.Request) { m.Put(r.Context(), "username", "tanaka") })
		mux.HandleFunc("/visit", func(_ http.ResponseWriter, r *http.Request) { m.Put(r.Context(), "n", m.GetInt(r.Context(), "n")+1) })
		mux.HandleFunc("/me", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, m.GetString(r.Context(), "username"), m.GetInt(r.Context(), "n"))
		})
		mux.HandleFunc("/logout", func(_ http.ResponseWriter, r *http.Request) { _ = m.Destroy(r.Context()) })
		h := m.LoadAndSave(mux)
		_, cookies := get(t, h, "/login", nil)
		_, cookies = get(t, h, "/visit", cookies)
		_, cookies = get(t, h, "/visit", cookies)
		text, _ := get(t, h, "/me", cookies)
		require.Equal(t, "tanaka2", text)
		for _, key := range c.Keys(context.Background(), "*").Val() {
			require.NotContains(t, key, cookies[0].Value, "the token is not in Redis")
		}
		_, _ = get(t, h, "/logout", cookies)
		text, _ = get(t, h, "/me", cookies)
		require.Equal(t, "0", text)
		require.Empty(t, c.Keys(context.Background(), "*").Val())
	})
}

func TestGorilla(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		s.OnlyOurs(t)
		c := s.Client(t)
		inner, err := session.New[sessionadapters.GorillaRecord](c, nil)
		require.NoError(t, err)
		store := &sessionadapters.Gorilla{Store: inner, Options: sessions.Options{Path: "/", HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode}}
		mux := http.NewServeMux()
		handle := func(path string, fn func(w http.ResponseWriter, s *sessions.Session)) {
			mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
				s, err := store.Get(r, "sid")
				if err != nil {
					http.Error(w, err.Error(), 500)
					return
				}
				fn(w, s)
				if path != "/me" {
					err = s.Save(r, w)
				}
				if err != nil {
					http.Error(w, err.Error(), 500)
				}
			})
		}
		handle("/login", func(_ http.ResponseWriter, s *sessions.Session) { s.ID, s.Values["username"] = "", "tanaka" })
		handle("/visit", func(_ http.ResponseWriter, s *sessions.Session) { n, _ := s.Values["n"].(int); s.Values["n"] = n + 1 })
		handle("/me", func(w http.ResponseWriter, s *sessions.Session) {
			name, _ := s.Values["username"].(string)
			n, _ := s.Values["n"].(int)
			_, _ = io.WriteString(w, fmt.Sprint(name, n))
		})
		handle("/logout", func(_ http.ResponseWriter, s *sessions.Session) { s.Options.MaxAge = -1 })
		_, cookies := get(t, mux, "/login", []*http.Cookie{{Name: "sid", Value: "chosen"}})
		require.NotEqual(t, "chosen", cookies[0].Value)
		_, cookies = get(t, mux, "/visit", cookies)
		_, cookies = get(t, mux, "/visit", cookies)
		text, _ := get(t, mux, "/me", cookies)
		require.Equal(t, "tanaka2", text)
		_, cleared := get(t, mux, "/logout", cookies)
		require.Negative(t, cleared[0].MaxAge)
		text, _ = get(t, mux, "/me", cookies)
		require.Equal(t, "0", text)
		require.Empty(t, c.Keys(context.Background(), "*").Val())
	})
}
