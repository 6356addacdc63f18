package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/examples/internal/apptest"
	"github.com/redispatterns/redispatterns/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// named answers with its name, and with what it was sent.
func named(t *testing.T, name string) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s", name, r.Method, r.URL.Path, body)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestTurnsAndFailover(t *testing.T) {
	a, b := named(t, "a"), named(t, "b")
	t.Setenv("SERVERS", a.URL+","+b.URL)
	url := apptest.Start(t, run, "proxy")["proxy"]
	seen := map[any]int{}
	for range 6 {
		seen[apptest.Call(t, "POST", url+"/me", "hello").Body]++
	}
	require.Equal(t, map[any]int{"a POST /me hello": 3, "b POST /me hello": 3}, seen)

	a.Close()
	for range 4 {
		require.Equal(t, "b POST /me hello", apptest.Call(t, "POST", url+"/me", "hello").Body)
	}
	require.Equal(t, http.StatusRequestEntityTooLarge,
		apptest.Call(t, "POST", url+"/me", strings.Repeat("x", 1<<16+1)).Status)
	b.Close()
	require.Equal(t, http.StatusBadGateway, apptest.Call(t, "GET", url+"/me", "").Status)
}

func TestServersAreChecked(t *testing.T) {
	for _, servers := range []string{"", "localhost:8080", "https://x", "http://", "http://a,,http://b"} {
		t.Setenv("SERVERS", servers)
		require.ErrorContains(t, run(t.Context(), io.Discard), "SERVERS")
	}
}
