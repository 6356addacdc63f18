package session_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/session"
)

func FuzzLoad(f *testing.F) {
	s := redistest.Mini(f)
	c := s.Client(f)
	store := newStore[user](f, c, nil)
	sess := create(f, store, tanaka)
	for _, token := range append(redistest.Hostile(), sess.Token(), sess.ID+".", sess.Token()[:46]+"2") {
		f.Add(token)
		f.Add(sess.ID + "." + token)
	}
	f.Fuzz(func(t *testing.T, token string) {
		if token == sess.Token() {
			return
		}
		_, err := store.Load(ctx, token)
		require.ErrorIs(t, err, session.ErrNotFound)
		if _, secret, ok := strings.Cut(token, "."); ok && len(secret) > 3 {
			require.NotContains(t, err.Error(), secret)
		}
	})
}

// What is no ID is not found, and touches no key.
func FuzzID(f *testing.F) {
	c := redistest.Mini(f).Client(f)
	store := newStore[user](f, c, nil)
	sess := create(f, store, tanaka)
	for _, id := range append(redistest.Hostile(), sess.ID+" ", sess.ID[1:], "user:"+sess.ID) {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if id == sess.ID {
			return
		}
		_, err := store.ByID(ctx, id)
		require.ErrorIs(t, err, session.ErrNotFound)
		require.ErrorIs(t, store.Touch(ctx, id), session.ErrNotFound)
		if err := store.Destroy(ctx, id); err != nil { // of an ID that nobody has it is none
			require.ErrorIs(t, err, session.ErrNotFound)
		}
		require.Equal(t, []string{"session:" + sess.ID}, c.Keys(ctx, "*").Val())
	})
}

// A Cookie header is a session's, or nobody's; it is no reason to take Redis for broken.
func FuzzCookie(f *testing.F) {
	c := redistest.Mini(f).Client(f)
	store := newStore[user](f, c, nil)
	sess := create(f, store, tanaka)
	m, err := session.NewManager(store, nil)
	require.NoError(f, err)
	for _, text := range append(redistest.Hostile(), sess.Token(), `"`+sess.Token()+`"`) {
		f.Add(text)
		f.Add("__Host-session=" + text)
		f.Add("__Host-session=" + text + "; __Host-session=" + sess.Token())
	}
	f.Fuzz(func(t *testing.T, header string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header["Cookie"] = []string{header}
		m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			got, err := m.Get(r.Context())
			if err != nil {
				require.ErrorIs(t, err, session.ErrNotFound)
				return
			}
			require.Contains(t, header, sess.Token())
			require.Equal(t, sess.ID, got.ID)
		})).ServeHTTP(httptest.NewRecorder(), r)
	})
}

// Any text is a user's name and a value: it comes back as it was, and names its own list alone.
func FuzzUser(f *testing.F) {
	type data struct {
		User string `redis:"user"`
	}
	for _, text := range redistest.Hostile() {
		f.Add(text)
	}
	c := redistest.Mini(f).Client(f)
	store := newStore[data](f, c, &session.Options{UserField: "user"})
	other := create(f, store, data{"somebody else"})
	f.Fuzz(func(t *testing.T, name string) {
		if name == other.Data.User {
			return
		}
		sess, err := store.Create(ctx, data{name})
		if errors.Is(err, session.ErrTooLarge) {
			require.Greater(t, len(name), 15<<10)
			return
		}
		require.NoError(t, err)
		got, err := store.Load(ctx, sess.Token())
		require.NoError(t, err)
		require.Equal(t, name, got.Data.User)
		if name != "" { // nobody has no list
			list, err := store.List(ctx, name)
			require.NoError(t, err)
			require.Len(t, list, 1)
			require.Equal(t, sess.ID, list[0].ID)
			ended, err := store.DestroyAll(ctx, name)
			require.NoError(t, err)
			require.Equal(t, 1, ended)
		}
		require.NoError(t, store.Destroy(ctx, sess.ID))
		require.ElementsMatch(t, []string{"session:" + other.ID, "session:user:somebody else"}, c.Keys(ctx, "*").Val())
	})
}

// A cookie's options are refused, or what is sent is one header that a browser reads back.
func FuzzManagerOptions(f *testing.F) {
	c := redistest.Mini(f).Client(f)
	store := newStore[user](f, c, nil)
	for _, text := range redistest.Hostile() {
		f.Add(text, "", "")
		f.Add("", text, "")
		f.Add("", "", text)
	}
	f.Add("id", "example.org", "/app")
	f.Fuzz(func(t *testing.T, name, domain, path string) {
		m, err := session.NewManager(store, &session.ManagerOptions{Cookie: name, Domain: domain, Path: path})
		if err != nil {
			require.False(t, strings.ContainsAny(err.Error(), "\n\r\x00"), "%q", err.Error())
			return
		}
		w := httptest.NewRecorder()
		var sess *session.Session[user]
		m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sess, err = m.Start(w, r, tanaka)
		})).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		require.NoError(t, err)
		lines := w.Header()["Set-Cookie"]
		require.Len(t, lines, 1)
		got, err := http.ParseSetCookie(lines[0])
		require.NoError(t, err)
		require.Equal(t, sess.Token(), got.Value)
		require.True(t, got.HttpOnly && got.Secure)
		require.Equal(t, strings.TrimPrefix(domain, "."), got.Domain)
		if name != "" {
			require.Equal(t, name, got.Name)
		}
		if path != "" { // net/http does not read back each that browsers do
			require.Contains(t, lines[0], "; Path="+path+";")
		}
		require.NoError(t, store.Destroy(ctx, sess.ID))
	})
}
