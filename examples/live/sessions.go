package main

import (
	"cmp"
	"context"
	"errors"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/examples/internal/app"
	"github.com/redispatterns/redispatterns/session"
)

// user is what a session holds: each field is a field of its hash.
type user struct {
	Username string `redis:"username"`
	Role     string `redis:"role"`
	Visits   int    `redis:"visits"`
	Server   string `redis:"last_server"`
}

const (
	cookie   = "session"
	nameRule = "1 to 16 letters or digits"
)

var isName = regexp.MustCompile(`^[\p{L}\p{N}]{1,16}$`).MatchString

// servers are two servers, each with a listener, a client and a store of its own. The page reaches them as a browser
// reaches servers behind a proxy, and the session's cookie is the visitor's own.
type servers struct {
	client *redis.Client
	hub    *hub
	store  *session.Store[user] // what looks at a session to show it
	all    map[string]*server
	proxy  *httputil.ReverseProxy
}

func newServers(client *redis.Client, h *hub) (*servers, error) {
	s := &servers{client: client, hub: h, all: map[string]*server{}}
	var err error
	if s.store, err = session.New[user](client, nil); err != nil {
		return nil, err
	}
	for _, name := range []string{"A", "B"} {
		own := app.Client(client.Options().Addr)
		store, err := session.New[user](own, nil)
		if err != nil {
			return nil, err
		}
		// For http://localhost alone: without Insecure the cookie is for https, as it should be.
		manager, err := session.NewManager(store, &session.ManagerOptions{Insecure: true, Cookie: cookie, SameSite: http.SameSiteStrictMode})
		if err != nil {
			return nil, err
		}
		s.all[name] = &server{name: name, client: own, sessions: manager, told: s.tell}
	}
	s.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: s.all[r.In.PathValue("server")].addr()})
			r.Out.URL.Path = "/" + r.In.PathValue("what")
		},
		Transport: &http.Transport{DisableKeepAlives: true},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, _ error) {
			app.Fail(w, http.StatusBadGateway, "server "+r.PathValue("server")+" does not answer")
		},
	}
	return s, nil
}

// run keeps the servers until ctx ends.
func (s *servers) run(ctx context.Context) error {
	var errs []error
	for _, server := range s.all {
		errs = append(errs, server.start())
	}
	s.tell()
	<-ctx.Done()
	for _, server := range s.all {
		server.stop()
		errs = append(errs, server.client.Close())
	}
	return errors.Join(errs...)
}

func (s *servers) tell() {
	type status struct {
		Up       bool  `json:"up"`
		Answered int64 `json:"answered"`
	}
	now := map[string]status{}
	for name, server := range s.all {
		up, answered := server.status()
		now[name] = status{up, answered}
	}
	s.hub.state("servers", now)
}

func (s *servers) routes(mux *http.ServeMux) {
	known := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if s.all[r.PathValue("server")] == nil {
				app.Fail(w, http.StatusNotFound, "there is no such server")
				return
			}
			next(w, r)
		}
	}
	mux.HandleFunc("POST /api/servers/{server}/ask/{what}", known(s.proxy.ServeHTTP))
	mux.HandleFunc("POST /api/servers/{server}/start", known(func(w http.ResponseWriter, r *http.Request) {
		err := s.all[r.PathValue("server")].start()
		s.tell()
		done(w, err)
	}))
	mux.HandleFunc("POST /api/servers/{server}/stop", known(func(w http.ResponseWriter, r *http.Request) {
		s.all[r.PathValue("server")].stop()
		s.tell()
		done(w, nil)
	}))
}

// id is the ID of the visitor's session, if the cookie is of one.
func (s *servers) id(r *http.Request) string {
	if c, err := r.Cookie(cookie); err == nil {
		if sess, err := s.store.Load(r.Context(), c.Value); err == nil {
			return sess.ID
		}
	}
	return ""
}

type field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// seen is a session's key as redis-cli would show it; without a key there is none.
type seen struct {
	Key    string  `json:"key,omitempty"`
	Fields []field `json:"fields,omitempty"`
	TTL    int64   `json:"ttl"` // in seconds
}

func (s *servers) look(ctx context.Context, id string) (seen, error) {
	if id == "" {
		return seen{}, nil
	}
	key := "session:" + id
	var hash *redis.MapStringStringCmd
	var ttl *redis.DurationCmd
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		hash, ttl = p.HGetAll(ctx, key), p.TTL(ctx, key)
		return nil
	})
	if err != nil || len(hash.Val()) == 0 {
		return seen{}, err
	}
	out := seen{Key: key, TTL: int64(ttl.Val() / time.Second)}
	// The application's fields first, then the library's, which begin with _.
	names := slices.SortedFunc(maps.Keys(hash.Val()), func(a, b string) int {
		if ours, others := strings.HasPrefix(a, "_"), strings.HasPrefix(b, "_"); ours != others {
			if ours {
				return 1
			}
			return -1
		}
		return cmp.Compare(a, b)
	})
	for _, name := range names {
		out.Fields = append(out.Fields, field{name, hash.Val()[name]})
	}
	return out, nil
}

// server is one application server.
type server struct {
	name     string
	client   *redis.Client
	sessions *session.Manager[user]
	told     func()

	mu       sync.Mutex
	http     *http.Server // nil while it is stopped
	at       string       // where it listened last
	answered int64
}

func (s *server) addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

func (s *server) status() (up bool, answered int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.http != nil, s.answered
}

func (s *server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http != nil {
		return nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("POST /me", s.me)
	mux.HandleFunc("POST /logout", s.logout)
	s.at, s.http = listener.Addr().String(), &http.Server{Handler: s.sessions.Handler(mux), ReadHeaderTimeout: 5 * time.Second}
	go func(server *http.Server) {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Print(err)
		}
	}(s.http)
	return nil
}

// stop ends the server as a crash would: at once.
func (s *server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http != nil {
		_ = s.http.Close()
		s.http = nil
	}
}

func (s *server) login(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Username string `json:"username"`
	}
	if !app.Decode(w, r, &in) {
		return
	}
	if !isName(in.Username) {
		app.Fail(w, http.StatusBadRequest, "username: "+nameRule)
		return
	}
	sess, err := s.sessions.Start(w, r, user{Username: in.Username, Role: "member", Visits: 1, Server: s.name})
	s.answer(w, sess, err)
}

// me counts the visit. Update reads, changes and writes again if another writer was faster, so that none is lost.
func (s *server) me(w http.ResponseWriter, r *http.Request) {
	sess, err := s.sessions.Get(r.Context())
	if err == nil {
		err = s.sessions.Store().Update(r.Context(), sess, func(u *user) error {
			u.Visits++
			u.Server = s.name
			return nil
		})
	}
	s.answer(w, sess, err)
}

func (s *server) logout(w http.ResponseWriter, r *http.Request) {
	_, err := s.sessions.Get(r.Context())
	if err == nil {
		err = s.sessions.Logout(w, r)
	}
	s.answer(w, nil, err)
}

func (s *server) answer(w http.ResponseWriter, sess *session.Session[user], err error) {
	s.mu.Lock()
	s.answered++
	s.mu.Unlock()
	defer s.told()
	out := struct {
		Server   string `json:"server"`
		Username string `json:"username,omitempty"`
		Visits   int    `json:"visits,omitempty"`
	}{Server: s.name}
	switch {
	case errors.Is(err, session.ErrNotFound):
		app.Reply(w, http.StatusUnauthorized, out)
	case err != nil:
		app.Unavailable(w, err)
	default:
		if sess != nil {
			out.Username, out.Visits = sess.Data.Username, sess.Data.Visits
		}
		app.Reply(w, http.StatusOK, out)
	}
}
