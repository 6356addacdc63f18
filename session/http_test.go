package session_test

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/session"
)

// browser is a client that keeps cookies.
func browser(t *testing.T, srv *httptest.Server) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &http.Client{Transport: srv.Client().Transport, Jar: jar}
}

// app is a server over TLS whose log must stay empty.
func app(t *testing.T, h http.Handler, http2 bool) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	var mu sync.Mutex
	var logged bytes.Buffer
	srv.Config.ErrorLog = log.New(writerFunc(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return logged.Write(b)
	}), "", 0)
	srv.EnableHTTP2 = http2
	srv.StartTLS()
	t.Cleanup(func() {
		srv.Close()
		mu.Lock()
		defer mu.Unlock()
		require.Empty(t, logged.String(), "the server has nothing to complain about")
	})
	return srv
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// Whatever a handler does with its ResponseWriter, the cookie and the data are right, over a real connection.
func TestResponseWriterIsUntouched(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		m := newManager(t, s.Client(t), nil, nil)
		start := func(w http.ResponseWriter, r *http.Request) {
			sess, err := m.Start(w, r, user{UserID: 42})
			if err != nil {
				http.Error(w, err.Error(), 500)
				return
			}
			sess.Data.Username = "tanaka"
			if err := m.Store().Save(r.Context(), sess); err != nil {
				http.Error(w, err.Error(), 500)
			}
		}
		mux := http.NewServeMux()
		mux.HandleFunc("/flush", func(w http.ResponseWriter, r *http.Request) {
			start(w, r)
			w.(http.Flusher).Flush() // before the first byte
			_, _ = io.WriteString(w, "flushed")
		})
		mux.HandleFunc("/sse", func(w http.ResponseWriter, r *http.Request) {
			start(w, r)
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 3 {
				fmt.Fprintf(w, "data: %d\n\n", i)
				if err := http.NewResponseController(w).Flush(); err != nil {
					return
				}
			}
		})
		mux.HandleFunc("/hints", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			start(w, r)
			_, _ = io.WriteString(w, "hinted")
		})
		mux.HandleFunc("/controller", func(w http.ResponseWriter, r *http.Request) {
			start(w, r)
			if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
				http.Error(w, err.Error(), 500)
				return
			}
			_, _ = w.(io.StringWriter).WriteString("controlled")
		})
		mux.HandleFunc("/me", func(w http.ResponseWriter, r *http.Request) {
			sess, err := m.Get(r.Context())
			if err != nil {
				http.Error(w, err.Error(), 500)
				return
			}
			fmt.Fprintf(w, "%+v", sess.Data)
		})
		for _, http2 := range []bool{false, true} {
			srv := app(t, m.Handler(mux), http2)
			for path, want := range map[string]string{
				"/flush": "flushed", "/sse": "data: 0\n\ndata: 1\n\ndata: 2\n\n", "/hints": "hinted", "/controller": "controlled",
			} {
				client := browser(t, srv)
				var hints int
				trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
					hints++
					require.Empty(t, h["Set-Cookie"])
					return nil
				}}
				r, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodGet, srv.URL+path, nil)
				require.NoError(t, err)
				resp, err := client.Do(r)
				require.NoError(t, err)
				require.Equal(t, want, body(t, resp), path)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, http2, resp.ProtoMajor == 2)
				require.Len(t, resp.Cookies(), 1, path)
				require.Equal(t, path == "/hints", hints == 1)

				resp, err = client.Get(srv.URL + "/me")
				require.NoError(t, err)
				require.Equal(t, "{UserID:42 Username:tanaka Role:}", body(t, resp), path)
				require.NoError(t, resp.Body.Close())
			}
		}
	})
}

// A websocket's handshake takes the connection over; the session was there before and stays usable after.
func TestHijack(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		m := newManager(t, s.Client(t), nil, nil)
		cookie := login(t, m, tanaka)
		srv := app(t, m.Handler(m.Require(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sess, err := m.Rotate(w, r)
			if err != nil {
				http.Error(w, err.Error(), 500)
				return
			}
			conn, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
			fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n",
				base64.StdEncoding.EncodeToString(sum[:]))
			_ = w.Header().Write(rw)
			fmt.Fprint(rw, "\r\n")
			sess.Data.Role = "chatting"
			text := "ok"
			if err := m.Store().Save(r.Context(), sess); err != nil {
				text = err.Error()
			}
			fmt.Fprintf(rw, "\x81%c%s", len(text), text) // a frame of text
			_ = rw.Flush()
		}))), false)
		transport := srv.Client().Transport.(*http.Transport)
		r, err := http.NewRequest(http.MethodGet, srv.URL+"/chat", nil)
		require.NoError(t, err)
		for name, value := range map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
		} {
			r.Header.Set(name, value)
		}
		r.AddCookie(cookie)
		resp, err := transport.RoundTrip(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
		require.Equal(t, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", resp.Header.Get("Sec-WebSocket-Accept"))
		frame := make([]byte, 4)
		_, err = io.ReadFull(bufio.NewReader(resp.Body), frame)
		require.NoError(t, err)
		require.Equal(t, "\x81\x02ok", string(frame))
		require.Len(t, resp.Cookies(), 1)
		loaded, err := m.Store().Load(ctx, resp.Cookies()[0].Value)
		require.NoError(t, err)
		require.Equal(t, role("chatting"), loaded.Data.Role)
	})
}

// Two servers, each with a client of its own, and a user who moves between them.
func TestServersShareSessions(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		var servers []*httptest.Server
		for range 2 {
			m := newManager(t, s.Client(t), nil, &session.ManagerOptions{Cookie: "sid", Insecure: true})
			mux := http.NewServeMux()
			mux.HandleFunc("/login", func(w http.ResponseWriter, r *http.Request) {
				if _, err := m.Start(w, r, tanaka); err != nil {
					http.Error(w, err.Error(), 500)
				}
			})
			mux.HandleFunc("/logout", func(w http.ResponseWriter, r *http.Request) {
				if err := m.Logout(w, r); err != nil {
					http.Error(w, err.Error(), 500)
				}
			})
			mux.Handle("/me", m.Require(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				sess, _ := m.Get(r.Context())
				_, _ = io.WriteString(w, sess.Data.Username)
			})))
			servers = append(servers, app(t, m.Handler(mux), false))
		}
		client := browser(t, servers[0]) // cookies know no ports
		get := func(server int, path string) (int, string) {
			resp, err := client.Get(servers[server].URL + path)
			require.NoError(t, err)
			defer resp.Body.Close()
			return resp.StatusCode, strings.TrimSpace(body(t, resp))
		}
		status, _ := get(1, "/me")
		require.Equal(t, http.StatusUnauthorized, status)
		status, _ = get(0, "/login")
		require.Equal(t, http.StatusOK, status)
		_, name := get(1, "/me")
		require.Equal(t, "tanaka", name)
		servers[0].CloseClientConnections()
		_, name = get(1, "/me")
		require.Equal(t, "tanaka", name, "the loss of a server logs nobody out")
		status, _ = get(1, "/logout")
		require.Equal(t, http.StatusOK, status)
		status, _ = get(0, "/me")
		require.Equal(t, http.StatusUnauthorized, status)
	})
}
