package contenders

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/boj/redistore"
	"github.com/gorilla/sessions"

	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
)

func init() {
	bench.Register(&bench.SessionRequests, bench.Contender[bench.SessionConfig, bench.SessionStore]{
		Name: "redistore", Note: "gorilla/sessions with a signed cookie; its pool pings before each use",
		New: newRedistore(false),
	})
	bench.Register(&bench.SessionReads, bench.Contender[bench.SessionConfig, bench.SessionStore]{
		Name: "redistore, no save", Note: "the TTL is not renewed",
		New: newRedistore(false),
	}, bench.Contender[bench.SessionConfig, bench.SessionStore]{
		Name: "redistore, save each request", Note: "which is how it renews the TTL",
		New: newRedistore(true),
	})
}

func newRedistore(always bool) func(bench.SessionConfig) (bench.SessionStore, error) {
	return func(c bench.SessionConfig) (bench.SessionStore, error) {
		store, err := redistore.NewRediStoreWithDB(c.Size, "tcp", c.Addr, c.Username, c.Password, strconv.Itoa(c.DB), []byte("0123456789abcdef0123456789abcdef"))
		if err != nil {
			return nil, err
		}
		store.SetMaxAge(int(c.TTL / time.Second))
		return &gorillaStore{store, always}, nil
	}
}

type gorillaStore struct {
	*redistore.RediStore
	always bool // save sessions that were not changed
}

func (s *gorillaStore) Handler(app bench.SessionApp) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session, err := s.Get(r, "session")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		view := &gorillaSession{session: session}
		body := app(view)
		if view.changed || s.always {
			if err := session.Save(r, w); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		_, _ = io.WriteString(w, body)
	})
}

type gorillaSession struct {
	session *sessions.Session
	changed bool
}

func (s *gorillaSession) Get(field string) string {
	v, _ := s.session.Values[field].(string)
	return v
}

func (s *gorillaSession) Set(field, value string) {
	s.session.Values[field] = value
	s.changed = true
}
