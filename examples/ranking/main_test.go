package main

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/examples/internal/apptest"
	"github.com/redispatterns/redispatterns/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func row(player, score, rank string) map[string]any {
	return map[string]any{"player": player, "score": json.Number(score), "rank": json.Number(rank)}
}

func TestScoresAreRankedAtOnce(t *testing.T) {
	apptest.EachRedis(t, func(t *testing.T) {
		url := apptest.Start(t, run, "ranking")["ranking"]
		require.Equal(t, []any{}, apptest.Call(t, "GET", url+"/ranking", "").Body)
		score := func(body string) any { return apptest.Call(t, "POST", url+"/ranking/score", body).Body }
		require.Equal(t, row("alice", "1500", "1"), score(`{"player":"alice","score":1500}`))
		require.Equal(t, row("bob", "1200", "2"), score(`{"player":"bob","score":1200}`))
		require.Equal(t, row("carol", "1400", "2"), score(`{"player":"carol","score":1400}`))
		require.Equal(t, row("carol", "1600", "1"),
			apptest.Call(t, "POST", url+"/ranking/increment", `{"player":"carol","delta":200}`).Body)
		require.Equal(t, []any{row("carol", "1600", "1"), row("alice", "1500", "2")},
			apptest.Call(t, "GET", url+"/ranking?top=2", "").Body)
		require.Equal(t, row("bob", "1200", "3"), apptest.Call(t, "GET", url+"/ranking/player/bob", "").Body)
		require.Equal(t, http.StatusNotFound, apptest.Call(t, "GET", url+"/ranking/player/nobody", "").Status)
	})
}

func TestBadInput(t *testing.T) {
	t.Setenv("REDIS_ADDR", "")
	url := apptest.Start(t, run, "ranking")["ranking"]
	for path, bodies := range map[string][]string{
		"/ranking/score": {
			`{`, `{"player":"","score":1}`, `{"player":"a"}`, `{"player":"a","score":NaN}`, `{"player":"a","score":1e999}`,
			`{"player":"a","score":"1"}`, `{"player":"a","score":1,"x":2}`,
		},
		"/ranking/increment": {`{"player":"a"}`, `{"player":"","delta":1}`, `{"player":"a","delta":Infinity}`},
	} {
		for _, body := range bodies {
			got := apptest.Call(t, "POST", url+path, body)
			require.Equal(t, http.StatusBadRequest, got.Status, body)
			require.NotEmpty(t, got.Field("error"))
		}
	}
	require.Equal(t, http.StatusBadRequest, apptest.Call(t, "GET", url+"/ranking/player/", "").Status)
	for _, top := range []string{"0", "-1", "x", "1001"} {
		require.Equal(t, http.StatusBadRequest, apptest.Call(t, "GET", url+"/ranking?top="+top, "").Status, top)
	}
	require.Equal(t, []any{}, apptest.Call(t, "GET", url+"/ranking", "").Body, "nothing was written")
}
