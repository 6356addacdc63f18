package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/redispatterns/redispatterns/internal/script"
)

// Manager ties a [Store] to HTTP cookies. Put [Manager.Handler] around the whole application; in a handler, call
// [Manager.Get] for the request's session, [Manager.Start] at login, [Manager.Logout] at logout, and Save or Update of the
// Store after a change. [Manager.Require] lets only requests with a session pass.
//
// It wraps no http.ResponseWriter and has nothing to do at a request's end: what is written to Redis is written when it is
// called, and a cookie is put into the header at once, so call Start, Rotate and Logout before the response begins. Flush,
// Hijack, HTTP/2 and everything else that a ResponseWriter can do therefore work as without it.
//
// A response that shows what is in a session should forbid shared caches to keep it; where a cookie is set, Manager
// sends Cache-Control: no-store. Safe for concurrent use.
type Manager[T any] struct {
	store  *Store[T]
	opts   ManagerOptions
	cookie http.Cookie // without a value
	key    any         // of a request's state in its context: the Manager itself
}

// NewManager makes a Manager. Options that browsers would refuse a cookie for are errors.
func NewManager[T any](store *Store[T], opts *ManagerOptions) (*Manager[T], error) {
	if store == nil {
		return nil, errors.New("session: new manager: the store is nil")
	}
	m := &Manager[T]{store: store, opts: opts.withDefaults()}
	m.key = m
	var err error
	if m.cookie, err = m.opts.cookie(store.opts.Lifetime); err != nil {
		return nil, fmt.Errorf("session: new manager: %w", err)
	}
	return m, nil
}

// Store is the one that the Manager was made with.
func (m *Manager[T]) Store() *Store[T] { return m.store }

// request is the context of a request, with what is known of its session.
type request[T any] struct {
	context.Context
	manager *Manager[T]
	header  http.Header

	mu    sync.Mutex
	known bool
	sess  *Session[T] // nil where there is none
}

// Value finds the request itself, for its Manager.
func (r *request[T]) Value(key any) any {
	if key == r.manager.key {
		return r
	}
	return r.Context.Value(key)
}

// maxCookies bounds what a request with many cookies of the name can cost.
const maxCookies = 4

var (
	errMissing   = fmt.Errorf("session: get: %w", ErrNotFound)
	errNoHandler = errors.New("session: get: the request did not come through the Manager's Handler")
)

// Handler makes a request's session available to next and whatever it calls. The session is loaded when it is first asked
// for, once a request; a request that does not ask costs nothing, and one without a session makes none.
func (m *Manager[T]) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(&request[T]{Context: r.Context(), manager: m, header: r.Header}))
	})
}

// Require lets requests with a session pass to next, and answers the others by OnMissing, or by OnError where Redis cannot
// say. It needs Handler around it.
func (m *Manager[T]) Require(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch _, err := m.Get(r.Context()); {
		case err == nil:
			next.ServeHTTP(w, r)
		case errors.Is(err, ErrNotFound):
			m.opts.OnMissing(w, r)
		default:
			m.opts.OnError(w, r, err)
		}
	})
}

// Get returns the session of the request with this context, ErrNotFound if it has none. Every other error means that Redis
// could not be asked, or that the request did not come through Handler; it must not pass for a stranger's request. All
// calls in a request return the same Session, from several goroutines too, but the Session is not safe to be changed by them.
func (m *Manager[T]) Get(ctx context.Context) (*Session[T], error) {
	req, ok := ctx.Value(m.key).(*request[T])
	if !ok {
		return nil, errNoHandler
	}
	req.mu.Lock()
	defer req.mu.Unlock()
	if !req.known {
		sess, err := m.find(ctx, req.header)
		if err != nil {
			return nil, err
		}
		req.known, req.sess = true, sess
	}
	if req.sess == nil {
		return nil, errMissing
	}
	return req.sess, nil
}

// find loads the session that one of the request's cookies opens, nil if none does: a browser sends several of one name
// where their paths or domains differ.
func (m *Manager[T]) find(ctx context.Context, header http.Header) (*Session[T], error) {
	var tried [maxCookies]string
	n := 0
	for _, line := range header["Cookie"] {
		for line != "" && n < maxCookies {
			var pair string
			pair, line, _ = strings.Cut(line, ";")
			name, token, _ := strings.Cut(strings.TrimSpace(pair), "=")
			if _, _, ok := splitToken(token); !ok || name != m.opts.Cookie || slices.Contains(tried[:n], token) {
				continue
			}
			tried[n] = token
			n++
			sess, err := m.store.Load(ctx, token)
			if err == nil || !errors.Is(err, ErrNotFound) {
				return sess, err
			}
		}
	}
	return nil, nil
}

// know has the request's later Gets return sess, or ErrNotFound where it is nil.
func (m *Manager[T]) know(ctx context.Context, sess *Session[T]) {
	req := ctx.Value(m.key).(*request[T]) // Get has looked
	req.mu.Lock()
	defer req.mu.Unlock()
	req.known, req.sess = true, sess
}

// Start begins a session with a new ID and sets its cookie: the login. A session that the request had before is destroyed;
// what should outlast the login, a cart say, is for the caller to copy into data. On an error no cookie is set; a session whose
// token nobody has may remain until it expires, and the old one may be gone.
//
// Start may take up to ten seconds after the request's context has ended: the session that is to go ends even so.
func (m *Manager[T]) Start(w http.ResponseWriter, r *http.Request, data T) (*Session[T], error) {
	ctx := r.Context()
	before, err := m.Get(ctx)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	sess, err := m.store.Create(ctx, data)
	if err != nil {
		return nil, err
	}
	if before != nil {
		if err := m.destroy(ctx, before); err != nil {
			_ = m.destroy(ctx, sess)
			return nil, err
		}
	}
	m.know(ctx, sess)
	m.send(w, sess)
	return sess, nil
}

// Rotate gives the request's session a new token, writes its changed fields and sets the cookie: for a change of rights
// within a session. ErrConflict if a parallel request was faster; its response carries the new cookie, and this one carries
// none.
func (m *Manager[T]) Rotate(w http.ResponseWriter, r *http.Request) (*Session[T], error) {
	sess, err := m.Get(r.Context())
	if err != nil {
		return nil, err
	}
	if err := m.store.Rotate(r.Context(), sess); err != nil {
		return nil, err
	}
	m.send(w, sess)
	return sess, nil
}

// Logout destroys the request's session and clears the cookie. The cookie is cleared even when Redis fails, which is the
// error then: the session lives until it expires. A client that hangs up meanwhile does not keep its session so: Logout may
// take five seconds after the request's context has ended. That there is no session is no error.
func (m *Manager[T]) Logout(w http.ResponseWriter, r *http.Request) error {
	gone := m.cookie
	gone.MaxAge = -1
	setCookie(w, &gone)

	var sess *Session[T]
	err := script.Cleanup(r.Context(), func(ctx context.Context) (err error) {
		sess, err = m.Get(ctx)
		if err == nil {
			err = m.store.Destroy(ctx, sess.ID)
		}
		if errors.Is(err, ErrNotFound) {
			err = nil
		}
		return err
	})
	if sess != nil && err == nil {
		m.know(r.Context(), nil)
	}
	return err
}

// LogoutOthers ends all other sessions of the request's user, and returns how many. It needs the Store's UserField, and a
// session that is somebody's.
func (m *Manager[T]) LogoutOthers(r *http.Request) (int, error) {
	sess, err := m.Get(r.Context())
	if err != nil {
		return 0, err
	}
	return m.store.DestroyAll(r.Context(), m.store.userIn(sess.own.hash), sess.ID)
}

// destroy ends a session whether or not the client still waits.
func (m *Manager[T]) destroy(ctx context.Context, sess *Session[T]) error {
	return script.Cleanup(ctx, func(ctx context.Context) error { return m.store.Destroy(ctx, sess.ID) })
}

// send sets the cookie of a session.
func (m *Manager[T]) send(w http.ResponseWriter, sess *Session[T]) {
	cookie := m.cookie
	cookie.Value = sess.Token()
	setCookie(w, &cookie)
}
