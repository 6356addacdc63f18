package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	sessionTTL   = 20 * time.Minute
	liveSessions = 1_000 // in the timed tables
)

func (r *Run) session() error {
	for _, c := range r.Workers {
		if err := r.sessionTable("session/request: load 3 fields, change 1, save, renew TTL", c, SessionRequests, changingApp); err != nil {
			return err
		}
		if err := r.sessionTable("session/read-only request: load 3 fields", c, SessionReads, readingApp); err != nil {
			return err
		}
	}
	return nil
}

func userName(i int) string { return fmt.Sprintf("user-%05d", i) }

func creatingApp(i int) SessionApp {
	return func(s Session) string {
		s.Set(UserID, strconv.Itoa(1_000_000+i))
		s.Set(Username, userName(i))
		s.Set(Role, "member")
		return ""
	}
}

func readingApp(s Session) string {
	if s.Get(UserID) == "" || s.Get(Role) == "" {
		return "incomplete session"
	}
	return s.Get(Username)
}

func changingApp(s Session) string {
	role := "editor"
	if s.Get(Role) == role {
		role = "member"
	}
	name := readingApp(s)
	s.Set(Role, role)
	return name
}

// response is an http.ResponseWriter with nothing to allocate while timed.
type response struct {
	header http.Header
	status int
	body   []byte
}

func newResponse() *response {
	return &response{header: make(http.Header, 8), body: make([]byte, 0, 64)}
}

func (w *response) Header() http.Header { return w.header }

func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *response) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.body = append(w.body, b...)
	return len(b), nil
}

var requestURL = &url.URL{Path: "/"}

func newRequest(cookie string) *http.Request {
	req := &http.Request{
		Method: http.MethodGet, URL: requestURL, Host: "example.com", RequestURI: "/",
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header, 1), Body: http.NoBody,
	}
	if cookie != "" {
		req.Header["Cookie"] = []string{cookie}
	}
	return req
}

// createSession starts a session and returns the cookie that names it.
func createSession(store SessionStore, i int) (string, error) {
	w := newResponse()
	store.Handler(creatingApp(i)).ServeHTTP(w, newRequest(""))
	cookies := (&http.Response{Header: w.header}).Cookies()
	if w.status >= 400 || len(cookies) != 1 {
		return "", fmt.Errorf("create session: status %d, %d cookies: %s", w.status, len(cookies), w.body)
	}
	return cookies[0].Name + "=" + cookies[0].Value, nil
}

var errSession = errors.New("wrong session data in the response")

func (r *Run) sessionTable(what string, workers int, family []Contender[SessionConfig, SessionStore], app SessionApp) error {
	return table(r, what, workers, family, func(c Contender[SessionConfig, SessionStore]) (work, error) {
		store, err := c.New(SessionConfig{Conn: r.conn(workers), TTL: sessionTTL})
		if err != nil {
			return work{}, err
		}
		cookies := make([]string, liveSessions)
		err = parallel(liveSessions, func(_ context.Context, i int) (err error) {
			cookies[i], err = createSession(store, i)
			return err
		})
		if err != nil {
			return work{}, err
		}
		handler := store.Handler(app)
		// A request must not be used twice: libraries keep the loaded session
		// in its context. So each chunk gets new ones, made before the clock.
		var requests [][]*http.Request
		var responses [][]*response
		var names [][]string
		next := 0
		return work{
			prepare: func(ops int) error {
				requests = make([][]*http.Request, workers)
				responses = make([][]*response, workers)
				names = make([][]string, workers)
				for i := range ops {
					g, id := i%workers, next%liveSessions
					next++
					requests[g] = append(requests[g], newRequest(cookies[id]))
					responses[g] = append(responses[g], newResponse())
					names[g] = append(names[g], userName(id))
				}
				return nil
			},
			op: func(g, i int) error {
				w := responses[g][i]
				handler.ServeHTTP(w, requests[g][i])
				if w.status != http.StatusOK || string(w.body) != names[g][i] {
					return errSession
				}
				return nil
			},
			close: store.Close,
		}, nil
	})
}

func (r *Run) sessionMemory() error {
	var lines [][]string
	for _, c := range stores(r, SessionRequests) {
		r.Progress("session/memory: %s", c.Name)
		used, live, err := r.memory(func() error {
			store, err := c.New(SessionConfig{Conn: r.conn(16), TTL: sessionTTL})
			if err != nil {
				return err
			}
			defer store.Close()
			return parallel(r.Keys, func(_ context.Context, i int) error {
				_, err := createSession(store, i)
				return err
			})
		})
		if err != nil {
			return fmt.Errorf("session/memory: %s: %w", c.Name, err)
		}
		lines = append(lines, []string{
			label(c.Name, c.Ref), fmt.Sprintf("%.0f", float64(used)/float64(r.Keys)),
			fmt.Sprintf("%.2f", float64(live)/float64(r.Keys)),
		})
	}
	r.Out.aside(fmt.Sprintf("session/memory, %d sessions of user_id, username, role", r.Keys), []string{"contender", "server bytes/session", "keys/session"}, lines)
	return nil
}

// CheckSessions reports whether a store keeps sessions apart and keeps what a
// request has changed.
func CheckSessions(store SessionStore) error {
	for i := range 3 {
		cookie, err := createSession(store, i)
		if err != nil {
			return err
		}
		role := func(s Session) string { return s.Get(Role) }
		for _, step := range []struct {
			app  SessionApp
			want string
		}{{readingApp, userName(i)}, {changingApp, userName(i)}, {role, "editor"}, {readingApp, userName(i)}} {
			w := newResponse()
			store.Handler(step.app).ServeHTTP(w, newRequest(cookie))
			if string(w.body) != step.want {
				return fmt.Errorf("session %d: got %q, want %q", i, w.body, step.want)
			}
		}
	}
	return nil
}
