package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/examples/internal/apptest"
	"github.com/redispatterns/redispatterns/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestOneOwnerAtATime(t *testing.T) {
	apptest.EachRedis(t, func(t *testing.T) {
		url := apptest.Start(t, run, "lock")["lock"]
		const resource = `{"resource":"order:12345"}`
		release := func(owner any) int {
			return apptest.Call(t, "POST", url+"/lock/release", fmt.Sprintf(`{"resource":"order:12345","owner":%q}`, owner)).Status
		}
		status := func() apptest.Answer { return apptest.Call(t, "GET", url+"/lock/status/order:12345", "") }
		require.Equal(t, false, status().Field("held"))

		got := apptest.Call(t, "POST", url+"/lock/acquire", resource)
		require.Equal(t, http.StatusOK, got.Status)
		owner := got.Field("owner")
		_, err := uuid.Parse(owner.(string))
		require.NoError(t, err)
		ttl, err := got.Field("ttl_ms").(json.Number).Int64()
		require.NoError(t, err)
		require.True(t, 0 < ttl && ttl <= 10_000, "%d ms", ttl)
		first, err := got.Field("fence").(json.Number).Int64()
		require.NoError(t, err)
		require.Equal(t, true, status().Field("held"))
		require.Equal(t, owner, status().Field("owner"))

		require.Equal(t, http.StatusConflict, apptest.Call(t, "POST", url+"/lock/acquire", resource).Status)
		require.Equal(t, http.StatusForbidden, release(uuid.NewString()), "a stranger")
		require.Equal(t, true, status().Field("held"))
		require.Equal(t, http.StatusOK, release(owner))
		require.Equal(t, http.StatusConflict, release(owner), "nobody holds it any more")

		got = apptest.Call(t, "POST", url+"/lock/acquire", resource)
		second, err := got.Field("fence").(json.Number).Int64()
		require.NoError(t, err)
		require.Greater(t, second, first)
	})
}

func TestBadInput(t *testing.T) {
	t.Setenv("REDIS_ADDR", "")
	url := apptest.Start(t, run, "lock")["lock"]
	for path, bodies := range map[string][]string{
		"/lock/acquire": {``, `{`, `{"resource":""}`, `{}`, `{"resource":"a}b"}`, `{"resource":"x","extra":1}`},
		"/lock/release": {`{"resource":"","owner":"x"}`, `{"resource":"x","owner":""}`},
	} {
		for _, body := range bodies {
			got := apptest.Call(t, "POST", url+path, body)
			require.Equal(t, http.StatusBadRequest, got.Status, body)
			require.NotEmpty(t, got.Field("error"))
		}
	}
}
