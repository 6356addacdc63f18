package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/examples/internal/apptest"
	"github.com/redispatterns/redispatterns/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// open opens the page's events. next waits for an event of a name that is as wanted, and returns it.
func open(t *testing.T, url string, cookies ...*http.Cookie) (next func(name string, wanted func(map[string]any) bool) map[string]any) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(t, err)
	for _, c := range cookies {
		req.AddCookie(c)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return func(name string, wanted func(map[string]any) bool) map[string]any {
		t.Helper()
		for event := ""; lines.Scan(); {
			if got, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				event = got
			}
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok || event != name {
				continue
			}
			var v map[string]any
			require.NoError(t, json.Unmarshal([]byte(data), &v))
			if wanted(v) {
				return v
			}
		}
		require.Fail(t, "the events ended", "before %s: %v", name, lines.Err())
		return nil
	}
}

func whatever(map[string]any) bool { return true }

func start(t *testing.T) string { return apptest.Start(t, run, "live")["live"] }

func TestASessionIsSeenInRedis(t *testing.T) {
	apptest.EachRedis(t, func(t *testing.T) {
		url := start(t)
		open(t, url+"/events")("servers", func(v map[string]any) bool { return v["A"].(map[string]any)["up"] == true })
		ask := func(server, what, body string, cookies ...*http.Cookie) apptest.Answer {
			return apptest.Call(t, "POST", url+"/api/servers/"+server+"/"+what, body, cookies...)
		}
		require.Equal(t, http.StatusUnauthorized, ask("A", "ask/me", "").Status)
		login := ask("A", "ask/login", `{"username":"田中"}`)
		require.Equal(t, http.StatusOK, login.Status)
		require.Len(t, login.Cookies, 1)
		cookie := login.Cookies[0]
		require.True(t, cookie.HttpOnly)
		require.Equal(t, http.SameSiteStrictMode, cookie.SameSite)

		next := open(t, url+"/events", cookie)
		id, _, _ := strings.Cut(cookie.Value, ".")
		seen := next("session", whatever)
		require.Equal(t, "session:"+id, seen["key"])
		require.Contains(t, seen["fields"], map[string]any{"name": "username", "value": "田中"})

		require.Equal(t, http.StatusNoContent, ask("A", "stop", "").Status)
		require.Equal(t, http.StatusBadGateway, ask("A", "ask/me", "", cookie).Status)
		require.Equal(t, map[string]any{"server": "B", "username": "田中", "visits": json.Number("2")}, ask("B", "ask/me", "", cookie).Body)
		next("session", func(v map[string]any) bool {
			for _, f := range v["fields"].([]any) {
				if f.(map[string]any)["name"] == "visits" {
					return f.(map[string]any)["value"] == "2"
				}
			}
			return false
		})
		require.Equal(t, http.StatusNoContent, ask("A", "start", "").Status)
		require.Equal(t, http.StatusOK, ask("A", "ask/logout", "", cookie).Status)
		next("session", func(v map[string]any) bool { return v["key"] == nil })
		require.Equal(t, http.StatusUnauthorized, ask("B", "ask/me", "", cookie).Status)
	})
}

func TestLimitsAndScoresAreTold(t *testing.T) {
	apptest.EachRedis(t, func(t *testing.T) {
		url := start(t)
		next := open(t, url+"/events?player=sakura")
		require.Equal(t, http.StatusNoContent, apptest.Call(t, "POST", url+"/api/limits/hit", `{"times":12}`).Status)
		way := func(v map[string]any, name string) map[string]any {
			return v["ways"].(map[string]any)[name].(map[string]any)
		}
		last := next("decision", func(v map[string]any) bool { return way(v, "fixed")["key"] != nil })
		require.Equal(t, false, way(last, "sliding")["allowed"])
		require.Equal(t, "ratelimit:live-bucket:you~b", way(last, "bucket")["key"])
		require.NotEmpty(t, way(last, "bucket")["value"])

		require.Equal(t, http.StatusNoContent, apptest.Call(t, "POST", url+"/api/ranking/score", `{"player":"newcomer","points":1000}`).Status)
		board := next("ranking", func(v map[string]any) bool {
			return v["last"] != nil && v["last"].(map[string]any)["player"] == "newcomer"
		})
		require.Len(t, board["top"], 10)
		around := next("around", whatever)
		require.Equal(t, "sakura", around["player"])
		require.Len(t, around["rows"], 5)
	})
}

// However equal scores are to rank, scores go on arriving.
func TestScoresArriveWhateverTheTies(t *testing.T) {
	apptest.EachRedis(t, func(t *testing.T) {
		url := start(t)
		next := open(t, url+"/events")
		next("ranking", whatever)
		post := func(path, body string) {
			t.Helper()
			answer := apptest.Call(t, "POST", url+"/api/ranking/"+path, body)
			require.Equal(t, http.StatusNoContent, answer.Status, "%s %s: %v", path, body, answer.Body)
		}
		for _, ties := range []string{"dense", "competition", "ordinal", "dense"} {
			post("ties", `{"ties":"`+ties+`"}`)
			for _, player := range []string{"one", "two"} {
				post("score", `{"player":"`+player+ties+`","points":1000}`)
			}
			board := next("ranking", func(v map[string]any) bool {
				last, scored := v["last"].(map[string]any)
				return scored && last["player"] == "two"+ties && v["ties"] == ties
			})
			rank, before := 0, any(nil)
			for i, r := range board["top"].([]any) {
				row := r.(map[string]any)
				switch equal := row["score"] == before; {
				case ties == "ordinal" || ties == "competition" && !equal:
					rank = i + 1
				case !equal:
					rank++
				}
				require.EqualValues(t, rank, row["rank"], "%s: %v", ties, board["top"])
				before = row["score"]
				if last := board["last"].(map[string]any); row["player"] == last["player"] {
					require.Equal(t, row["rank"], last["rank"])
				}
			}
		}
	})
}

func TestADeadHolderAndAPausedOne(t *testing.T) {
	apptest.EachRedis(t, func(t *testing.T) {
		url := start(t)
		next := open(t, url+"/events")
		do := func(lane map[string]any, what string) {
			t.Helper()
			n, err := json.Marshal(lane["worker"])
			require.NoError(t, err)
			require.Equal(t, http.StatusNoContent, apptest.Call(t, "POST", url+"/api/workers/"+string(n)+"/"+what, "").Status)
		}
		is := func(state string) func(map[string]any) bool {
			return func(v map[string]any) bool { return v["state"] == state }
		}
		dead := next("lane", is("holding"))
		do(dead, "kill")
		var paused map[string]any
		for holds := false; !holds; { // or, on a machine that stood still, it had let go before it was paused
			paused = next("lane", func(v map[string]any) bool { return v["state"] == "holding" && v["worker"] != dead["worker"] })
			require.Greater(t, paused["fence"], dead["fence"])
			do(paused, "pause")
			next("order", func(v map[string]any) bool {
				return v["by"] != paused["worker"] && v["fence"].(string) > paused["fence"].(string)
			})
			do(paused, "resume")
			now := next("lane", func(v map[string]any) bool { return v["worker"] == paused["worker"] && v["state"] != "paused" })
			holds = now["state"] == "holding" && now["fence"] == paused["fence"]
		}
		// Perhaps that was told before its going on was: a page that opens now is told of what has happened.
		open(t, url+"/events")("mark", func(v map[string]any) bool {
			return v["kind"] == "refused" && v["worker"] == paused["worker"] && v["fence"] == paused["fence"]
		})
		next("lane", func(v map[string]any) bool { return v["state"] == "lost" && v["worker"] == paused["worker"] })
		do(dead, "start")
		next("lane", func(v map[string]any) bool { return v["state"] == "waiting" && v["worker"] == dead["worker"] })
	})
}

func TestBadInput(t *testing.T) {
	t.Setenv("REDIS_ADDR", "")
	url := start(t)
	open(t, url+"/events")("servers", func(v map[string]any) bool { return v["A"].(map[string]any)["up"] == true })
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{"servers/A/ask/login", `{"username":"<b>"}`, 400},
		{"servers/A/ask/login", `{"username":""}`, 400},
		{"servers/A/ask/login", `{"username":"seventeenletters1"}`, 400},
		{"servers/A/ask/nothing", `{}`, 404},
		{"servers/C/ask/me", `{}`, 404},
		{"servers/C/stop", `{}`, 404},
		{"limits/hit", `{"times":0}`, 400},
		{"limits/hit", `{"times":21}`, 400},
		{"limits/hit", `{"times":1,"more":1}`, 400},
		{"ranking/score", `{"player":"a:b","points":1}`, 400},
		{"ranking/score", `{"player":"a","points":1001}`, 400},
		{"ranking/score", `{"player":"a","points":0.5}`, 400},
		{"ranking/arrive", `{}`, 400},
		{"ranking/ties", `{"ties":"none"}`, 400},
		{"workers/0/kill", ``, 404},
		{"workers/5/kill", ``, 404},
		{"workers/x/kill", ``, 404},
	} {
		got := apptest.Call(t, "POST", url+"/api/"+c.path, c.body)
		require.Equal(t, c.status, got.Status, "%s %s", c.path, c.body)
	}
	require.Equal(t, http.StatusBadRequest, apptest.Call(t, "GET", url+"/events?player=%3Cb%3E", "").Status)
}

func TestThePageAndItsHeaders(t *testing.T) {
	t.Setenv("REDIS_ADDR", "")
	url := start(t)
	page := apptest.Call(t, "GET", url+"/", "")
	require.Equal(t, http.StatusOK, page.Status)
	require.Contains(t, page.Header.Get("Content-Security-Policy"), "default-src 'none'")
	require.NotContains(t, page.Header.Get("Content-Security-Policy"), "unsafe")
	require.NotRegexp(t, `(?i)https?://|<script>|<style|\son\w+=|\sstyle=`, page.Body, "everything comes from this server, and nothing is inline")
	for _, file := range []string{"style.css", "live.js", "page.js", "sessions.js", "limits.js", "ranking.js", "locks.js", "icon.svg"} {
		got := apptest.Call(t, "GET", url+"/"+file, "")
		require.Equal(t, http.StatusOK, got.Status, file)
		require.NotContains(t, got.Body, "innerHTML", file)
	}

	req, err := http.NewRequest(http.MethodPost, url+"/api/limits/reset", strings.NewReader("{}"))
	require.NoError(t, err)
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	require.Equal(t, http.StatusForbidden, resp.StatusCode, "no other site's page can ask for anything")
}

func TestThePageLimitsItself(t *testing.T) {
	t.Setenv("REDIS_ADDR", "")
	url := start(t)
	for range 1000 {
		got := apptest.Call(t, "POST", url+"/api/servers/C/stop", "")
		if got.Status == http.StatusTooManyRequests {
			require.Equal(t, "1", got.Header.Get("Retry-After"))
			return
		}
		require.Equal(t, http.StatusNotFound, got.Status)
	}
	require.Fail(t, "a thousand requests were served")
}
