package contenders

import (
	"io"
	"net/http"
	"time"

	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
	"github.com/redispatterns/redispatterns/session"
)

func init() {
	bench.Register(&bench.SessionRequests, bench.Contender[bench.SessionConfig, bench.SessionStore]{
		Name: bench.Ours, Note: "Store, with a cookie as by hand",
		New: newSessions(plain, rarely),
	}, bench.Contender[bench.SessionConfig, bench.SessionStore]{
		Name: bench.Ours + ", AutoPipeliner", Merges: true, Same: true,
		New: newSessions(merging, rarely),
	})
	const renews = "TouchEvery < 0: every read renews the TTL, as by hand"
	bench.Register(&bench.SessionReads, bench.Contender[bench.SessionConfig, bench.SessionStore]{
		Name: bench.Ours, Note: "no renewal of the TTL is due in this table",
		New: newSessions(plain, rarely),
	}, bench.Contender[bench.SessionConfig, bench.SessionStore]{
		Name: bench.Ours + ", AutoPipeliner", Merges: true,
		New: newSessions(merging, rarely),
	}, bench.Contender[bench.SessionConfig, bench.SessionStore]{
		Name: bench.Ours + ", every read renews", Note: renews,
		New: newSessions(plain, always),
	}, bench.Contender[bench.SessionConfig, bench.SessionStore]{
		Name: bench.Ours + ", every read renews, AutoPipeliner", Note: renews, Merges: true,
		New: newSessions(merging, always),
	})
}

// visitor is what the application keeps in a session.
type visitor struct {
	UserID   string `redis:"user_id"`
	Username string `redis:"username"`
	Role     string `redis:"role"`
}

// How often a use renews a session.
const (
	always time.Duration = -1
	rarely               = 10 * time.Minute // longer than a table takes, so that what is measured is one thing
)

func newSessions(open connect, touchEvery time.Duration) func(bench.SessionConfig) (bench.SessionStore, error) {
	return func(c bench.SessionConfig) (bench.SessionStore, error) {
		db, close, err := open(c.Conn)
		if err != nil {
			return nil, err
		}
		store, err := session.New[visitor](db, &session.Options{IdleTimeout: c.TTL, TouchEvery: touchEvery})
		return &ourSessions{store, close}, err
	}
}

type ourSessions struct {
	store *session.Store[visitor]
	close func() error
}

func (s *ourSessions) Close() error { return s.close() }

func (s *ourSessions) Handler(app bench.SessionApp) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		cookie, err := r.Cookie("sid")
		if err != nil {
			fresh := &ourSession{}
			body := app(fresh)
			sess, err := s.store.Create(ctx, fresh.Data)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			http.SetCookie(w, sessionCookie(sess.Token()))
			_, _ = io.WriteString(w, body)
			return
		}
		sess, err := s.store.Load(ctx, cookie.Value)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		before := sess.Data
		body := app((*ourSession)(sess))
		if sess.Data != before {
			if err := s.store.Save(ctx, sess); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		_, _ = io.WriteString(w, body)
	})
}

// ourSession is a Session that an application of the harness can name fields of.
type ourSession session.Session[visitor]

func (s *ourSession) field(name string) *string {
	switch name {
	case bench.UserID:
		return &s.Data.UserID
	case bench.Username:
		return &s.Data.Username
	case bench.Role:
		return &s.Data.Role
	}
	panic("no field " + name)
}

func (s *ourSession) Get(name string) string { return *s.field(name) }

func (s *ourSession) Set(name, value string) { *s.field(name) = value }
