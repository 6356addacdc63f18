// Package apptest drives the examples over HTTP in their tests.
package apptest

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
)

// EachRedis runs fn with the example's embedded Redis, and with a redis-server of its own.
func EachRedis(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Setenv("REDIS_ADDR", "")
		fn(t)
	})
	t.Run("redis", func(t *testing.T) {
		_, p := redistest.Own(t)
		t.Setenv("REDIS_ADDR", p.Addr)
		fn(t)
	})
}

// Start runs an example on free ports until the test ends, and returns the address of each of its servers by name. The
// test fails when the example ends with an error.
func Start(t *testing.T, run func(context.Context, io.Writer) error, names ...string) map[string]string {
	t.Helper()
	t.Setenv("ADDR", "127.0.0.1:0")
	t.Setenv("ADDR2", "127.0.0.1:0")
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, w)
		_ = w.CloseWithError(err)
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		http.DefaultClient.CloseIdleConnections()
	})
	addrs, lines := map[string]string{}, bufio.NewScanner(r)
	for len(addrs) < len(names) && lines.Scan() {
		if name, addr, ok := strings.Cut(lines.Text(), " listens on "); ok {
			addrs[name] = addr
		}
	}
	go func() { _, _ = io.Copy(io.Discard, r) }() // ends when run does
	for _, name := range names {
		require.Contains(t, addrs, name, "%v", lines.Err())
	}
	return addrs
}

// Answer is what a server answered: its status, its header and its JSON.
type Answer struct {
	Status  int
	Header  http.Header
	Cookies []*http.Cookie
	Body    any
}

// Field is a field of the answer's JSON object; numbers are json.Number.
func (a Answer) Field(name string) any {
	object, _ := a.Body.(map[string]any)
	return object[name]
}

// Call sends a request with these cookies, and reads the answer.
func Call(t *testing.T, method, url, body string, cookies ...*http.Cookie) Answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	for _, c := range cookies {
		req.AddCookie(c)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	a := Answer{Status: resp.StatusCode, Header: resp.Header, Cookies: resp.Cookies()}
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		d := json.NewDecoder(strings.NewReader(string(text)))
		d.UseNumber()
		require.NoError(t, d.Decode(&a.Body), "%s", text)
	} else {
		a.Body = string(text)
	}
	return a
}
