package contenders

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
	"github.com/redispatterns/redispatterns/session"
)

func init() {
	const (
		store   = "Store, with a cookie as by hand"
		manager = "Manager, which keeps the cookie"
		renews  = "; every read renews the TTL, as by hand"
		idle    = "; no renewal of the TTL is due in this table"
	)
	bench.Register(&bench.SessionRequests, bench.Contender[bench.SessionConfig, bench.SessionStore]{
		Name: bench.Ours, Note: store, New: newSessions(plain, rarely),
	}, bench.Contender[bench.SessionConfig, bench.SessionStore]{
		Name: bench.Ours + ", AutoPipeliner", Note: store, Merges: true, Same: true, New: newSessions(merging, rarely),
	}, bench.Contender[bench.SessionConfig, bench.SessionStore]{
		Name: bench.Ours + ", AsyncAutoPipeliner", Note: store, Merges: true, Same: true, New: newSessions(deferring, rarely),
	}, bench.Contender[bench.SessionConfig, bench.SessionStore]{
		Name: bench.Ours + " Manager", Note: manager, Same: true, New: newManaged(plain, rarely),
	})
	bench.Register(&bench.SessionReads, bench.Contender[bench.SessionConfig, bench.SessionStore]{
		Name: bench.Ours, Note: store + idle, New: newSessions(plain, rarely),
	}, bench.Contender[bench.SessionConfig, bench.SessionStore]{
		Name: bench.Ours + ", AutoPipeliner", Note: store + idle, Merges: true, New: newSessions(merging, rarely),
	}, bench.Contender[bench.SessionConfig, bench.SessionStore]{
		Name: bench.Ours + ", AsyncAutoPipeliner", Note: store + idle, Merges: true, New: newSessions(deferring, rarely),
	}, bench.Contender[bench.SessionConfig, bench.SessionStore]{
		Name: bench.Ours + " Manager", Note: manager + idle, New: newManaged(plain, rarely),
	}, bench.Contender[bench.SessionConfig, bench.SessionStore]{
		Name: bench.Ours + ", TouchEvery < 0", Note: store + renews, New: newSessions(plain, always),
	}, bench.Contender[bench.SessionConfig, bench.SessionStore]{
		Name: bench.Ours + ", TouchEvery < 0, AutoPipeliner", Note: store + renews, Merges: true, New: newSessions(merging, always),
	}, bench.Contender[bench.SessionConfig, bench.SessionStore]{
		Name: bench.Ours + ", TouchEvery < 0, AsyncAutoPipeliner", Note: store + renews, Merges: true, New: newSessions(deferring, always),
	})
}

// How often a use renews a session.
const (
	always time.Duration = -1
	rarely               = 10 * time.Minute // longer than a table takes, so that what is measured is one thing
)

// visitor is what the application keeps in a session.
type visitor struct {
	UserID   string `redis:"user_id"`
	Username string `redis:"username"`
	Role     string `redis:"role"`
}

func openStore(open connect, c bench.SessionConfig, touchEvery time.Duration) (*session.Store[visitor], func() error, error) {
	db, close, err := open(c.Conn)
	if err != nil {
		return nil, nil, err
	}
	store, err := session.New[visitor](db, &session.Options{IdleTimeout: c.TTL, TouchEvery: touchEvery})
	return store, close, err
}

func newSessions(open connect, touchEvery time.Duration) func(bench.SessionConfig) (bench.SessionStore, error) {
	return func(c bench.SessionConfig) (bench.SessionStore, error) {
		store, close, err := openStore(open, c, touchEvery)
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
		answer(w, r, s.store, sess, err, app)
	})
}

// answer runs app with the session that was loaded, and saves what it changed.
func answer(w http.ResponseWriter, r *http.Request, store *session.Store[visitor], sess *session.Session[visitor], err error, app bench.SessionApp) {
	if err == nil {
		before := sess.Data
		body := app((*ourSession)(sess))
		if sess.Data != before {
			err = store.Save(r.Context(), sess)
		}
		if err == nil {
			_, _ = io.WriteString(w, body)
			return
		}
	}
	http.Error(w, err.Error(), http.StatusInternalServerError)
}

type managedSessions struct {
	manager *session.Manager[visitor]
	close   func() error
}

func newManaged(open connect, touchEvery time.Duration) func(bench.SessionConfig) (bench.SessionStore, error) {
	return func(c bench.SessionConfig) (bench.SessionStore, error) {
		store, close, err := openStore(open, c, touchEvery)
		if err != nil {
			return nil, err
		}
		m, err := session.NewManager(store, &session.ManagerOptions{Insecure: true})
		return &managedSessions{m, close}, err
	}
}

func (s *managedSessions) Close() error { return s.close() }

func (s *managedSessions) Handler(app bench.SessionApp) http.Handler {
	return s.manager.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sess, err := s.manager.Get(r.Context())
		if errors.Is(err, session.ErrNotFound) {
			fresh := &ourSession{}
			body := app(fresh)
			if _, err := s.manager.Start(w, r, fresh.Data); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			_, _ = io.WriteString(w, body)
			return
		}
		answer(w, r, s.manager.Store(), sess, err, app)
	}))
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
