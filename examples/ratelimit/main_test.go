package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/examples/internal/apptest"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestOverTheLimit(t *testing.T) {
	apptest.EachRedis(t, func(t *testing.T) {
		url := apptest.Start(t, run, "ratelimit")["ratelimit"]
		for _, path := range []string{"/fixed", "/sliding"} {
			user := "?user=" + redistest.ID()
			// A window of ten seconds may end in between, so that some are allowed again: then ask again.
			allowed, denied := 0, apptest.Answer{}
			for range 30 {
				got := apptest.Call(t, "GET", url+path+user, "")
				if got.Status == http.StatusServiceUnavailable {
					continue // a busy machine's Redis did not answer in time
				}
				if got.Status != http.StatusOK {
					denied = got
					break
				}
				allowed++
				require.Equal(t, json.Number("10"), got.Field("limit"))
			}
			require.GreaterOrEqual(t, allowed, 10, path)
			require.Equal(t, http.StatusTooManyRequests, denied.Status, path)
			require.Equal(t, false, denied.Field("allowed"))
			after, err := strconv.Atoi(denied.Header.Get("Retry-After"))
			require.NoError(t, err)
			require.True(t, 1 <= after && after <= 10, "Retry-After: %d", after)

			other := apptest.Call(t, "GET", url+path, "")
			require.Equal(t, http.StatusOK, other.Status, "another client, by its address, is not limited")
		}
		require.Equal(t, http.StatusBadRequest, apptest.Call(t, "GET", url+"/fixed?user="+strings.Repeat("x", 10_000), "").Status)
		require.Equal(t, http.StatusMethodNotAllowed, apptest.Call(t, "POST", url+"/fixed", "").Status)
	})
}

// Who comes back when he was told to is let in: neither time that he is told is rounded down.
func TestWhoWaitsAsLongAsHeIsToldIsLetIn(t *testing.T) {
	for _, told := range []func(*httptest.ResponseRecorder) time.Duration{
		func(w *httptest.ResponseRecorder) time.Duration {
			s, _ := strconv.Atoi(w.Header().Get("Retry-After"))
			return time.Duration(s) * time.Second
		},
		func(w *httptest.ResponseRecorder) time.Duration {
			var body struct {
				MS int64 `json:"retry_after_ms"`
			}
			_ = json.Unmarshal(w.Body.Bytes(), &body)
			return time.Duration(body.MS) * time.Millisecond
		},
	} {
		redistest.Virtual(t, func(t *testing.T, s *redistest.Server) {
			limiter, err := ratelimit.NewSlidingWindow(s.Client(t), ratelimit.Limit{Events: 1, Per: 10 * time.Second}, nil)
			require.NoError(t, err)
			ask := func() *httptest.ResponseRecorder {
				w := httptest.NewRecorder()
				limited(limiter).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
				return w
			}
			require.Equal(t, http.StatusOK, ask().Code)
			redistest.Sleep(1234567 * time.Microsecond)
			denied := ask()
			require.Equal(t, http.StatusTooManyRequests, denied.Code)
			redistest.Sleep(told(denied))
			require.Equal(t, http.StatusOK, ask().Code)
		})
	}
}
