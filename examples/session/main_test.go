package main

import (
	"crypto/rand"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/examples/internal/apptest"
	"github.com/redispatterns/redispatterns/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestAnyServerServesAnyUser(t *testing.T) {
	apptest.EachRedis(t, func(t *testing.T) {
		servers := apptest.Start(t, run, "server-a", "server-b")
		a, b := servers["server-a"], servers["server-b"]

		require.Equal(t, http.StatusUnauthorized, apptest.Call(t, "GET", a+"/me", "").Status)
		login := apptest.Call(t, "POST", a+"/login", `{"username":"tanaka","role":"admin"}`)
		require.Equal(t, http.StatusOK, login.Status)
		require.Equal(t, map[string]any{"server": "server-a", "username": "tanaka", "role": "admin"}, login.Body)
		require.Len(t, login.Cookies, 1)
		cookie := login.Cookies[0]
		require.True(t, cookie.HttpOnly)

		me := apptest.Call(t, "GET", b+"/me", "", cookie)
		require.Equal(t, map[string]any{"server": "server-b", "username": "tanaka", "role": "admin"}, me.Body)

		forged := *cookie
		id, _, _ := strings.Cut(cookie.Value, ".")
		forged.Value = id + "." + rand.Text() // the ID is no secret
		require.Equal(t, http.StatusUnauthorized, apptest.Call(t, "GET", b+"/me", "", &forged).Status)

		require.Equal(t, http.StatusOK, apptest.Call(t, "POST", a+"/stop", "").Status)
		redistest.Eventually(t, func() bool {
			resp, err := http.Get(a + "/me")
			if err == nil { // it is about to
				_ = resp.Body.Close()
			}
			return err != nil
		}, "server A has stopped")
		me = apptest.Call(t, "GET", b+"/me", "", cookie)
		require.Equal(t, "tanaka", me.Field("username"), "logged in though the server of the login is gone")

		require.Equal(t, http.StatusOK, apptest.Call(t, "POST", b+"/logout", "", cookie).Status)
		require.Equal(t, http.StatusUnauthorized, apptest.Call(t, "GET", b+"/me", "", cookie).Status)
		require.Equal(t, http.StatusUnauthorized, apptest.Call(t, "POST", b+"/logout", "", cookie).Status)
	})
}

func TestOneServer(t *testing.T) {
	t.Setenv("REDIS_ADDR", "")
	t.Setenv("SERVER_NAME", "alone")
	url := apptest.Start(t, run, "alone")["alone"]
	login := apptest.Call(t, "POST", url+"/login", `{"username":"sato"}`)
	require.Equal(t, "alone", login.Field("server"))
}

func TestOneServerAloneIsAnError(t *testing.T) {
	t.Setenv("REDIS_ADDR", "")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	t.Setenv("ADDR", "127.0.0.1:0")
	t.Setenv("ADDR2", taken.Addr().String())
	require.ErrorContains(t, run(t.Context(), io.Discard), "server-b")
}

func TestBadInput(t *testing.T) {
	t.Setenv("REDIS_ADDR", "")
	url := apptest.Start(t, run, "server-a", "server-b")["server-a"]
	for _, body := range []string{``, `{`, `{"username":""}`, `{"role":"admin"}`, `{"username":"a","extra":1}`, `{"username":1}`, `{"username":"a"}{}`, `[]`} {
		got := apptest.Call(t, "POST", url+"/login", body)
		require.Equal(t, http.StatusBadRequest, got.Status, body)
		require.NotEmpty(t, got.Field("error"), body)
		require.Empty(t, got.Cookies, body)
	}
}
