// Session runs two application servers behind which sessions live in Redis: whoever logs in at one is logged in at the
// other, and stays so when either stops. POST /stop stops the server that gets it.
//
//	curl -i -c jar -d '{"username":"tanaka","role":"admin"}' localhost:8080/login
//	curl -b jar localhost:8081/me
//	curl -X POST localhost:8080/stop
//	curl -b jar localhost:8081/me
//	curl -b jar -X POST localhost:8081/logout
//
// The servers listen on ADDR and ADDR2. With SERVER_NAME set, there is one server of that name, on ADDR.
package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"

	"github.com/redispatterns/redispatterns/examples/internal/app"
	"github.com/redispatterns/redispatterns/session"
)

func main() { app.Main(run) }

func run(ctx context.Context, out io.Writer) error {
	client, stop, err := app.Redis(ctx)
	if err != nil {
		return err
	}
	defer stop()
	store, err := session.New[user](client, nil)
	if err != nil {
		return err
	}
	if name := os.Getenv("SERVER_NAME"); name != "" {
		return serve(ctx, out, name, app.Getenv("ADDR", "127.0.0.1:8080"), store)
	}
	out = &lines{out: out}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var both sync.WaitGroup
	for name, addr := range map[string]string{
		"server-a": app.Getenv("ADDR", "127.0.0.1:8080"), "server-b": app.Getenv("ADDR2", "127.0.0.1:8081"),
	} {
		both.Go(func() {
			if err := serve(ctx, out, name, addr, store); err != nil {
				fail(err) // one alone would not show what this is about
			}
		})
	}
	both.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// lines lets two servers write to one output.
type lines struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

// user is what a session holds; each field is a field of the session's hash.
type user struct {
	ID       string `redis:"user_id"`
	Username string `redis:"username"`
	Role     string `redis:"role"`
}

func serve(ctx context.Context, out io.Writer, name, addr string, store *session.Store[user]) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s := server{name, store}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("GET /me", s.me)
	mux.HandleFunc("POST /logout", s.logout)
	mux.HandleFunc("POST /stop", func(w http.ResponseWriter, _ *http.Request) {
		app.Reply(w, http.StatusOK, answer{Server: name})
		stop()
	})
	return app.Serve(ctx, out, name, addr, mux)
}

type server struct {
	name  string
	store *session.Store[user]
}

type answer struct {
	Server   string `json:"server"` // which server answered
	Username string `json:"username,omitempty"`
	Role     string `json:"role,omitempty"`
}

const cookie = "session"

func (s server) login(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Username string `json:"username"`
		Role     string `json:"role"`
	}
	if !app.Decode(w, r, &in) {
		return
	}
	if in.Username == "" {
		app.Fail(w, http.StatusBadRequest, "username must not be empty")
		return
	}
	sess, err := s.store.Create(r.Context(), user{ID: "user:" + in.Username, Username: in.Username, Role: in.Role})
	if err != nil {
		app.Unavailable(w, err)
		return
	}
	// A cookie for http://localhost alone: a real one has the attribute Secure, and a name that begins with __Host-.
	http.SetCookie(w, &http.Cookie{Name: cookie, Value: sess.Token(), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
	s.reply(w, sess)
}

func (s server) me(w http.ResponseWriter, r *http.Request) {
	if sess, ok := s.session(w, r); ok {
		s.reply(w, sess)
	}
}

func (s server) logout(w http.ResponseWriter, r *http.Request) {
	sess, ok := s.session(w, r)
	if !ok {
		return
	}
	if err := s.store.Destroy(r.Context(), sess.ID); err != nil {
		app.Unavailable(w, err)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: cookie, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	app.Reply(w, http.StatusOK, answer{Server: s.name})
}

// session is the request's session; where there is none it has answered 401, and where Redis cannot tell, 503.
func (s server) session(w http.ResponseWriter, r *http.Request) (*session.Session[user], bool) {
	var token string
	if c, err := r.Cookie(cookie); err == nil {
		token = c.Value
	}
	sess, err := s.store.Load(r.Context(), token)
	switch {
	case errors.Is(err, session.ErrNotFound):
		app.Fail(w, http.StatusUnauthorized, "not logged in")
	case err != nil:
		app.Unavailable(w, err)
	default:
		return sess, true
	}
	return nil, false
}

func (s server) reply(w http.ResponseWriter, sess *session.Session[user]) {
	app.Reply(w, http.StatusOK, answer{s.name, sess.Data.Username, sess.Data.Role})
}
