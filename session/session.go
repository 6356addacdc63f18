package session

import (
	"log/slog"
	"time"
)

// Session is one session, as it was when it was loaded or last saved. It is not safe for concurrent use: load it once per
// request.
type Session[T any] struct {
	// ID is the last part of the session's key. It is no secret and may be logged.
	ID string

	// Data is the application's. A change of it is kept by [Store.Save].
	Data T

	// CreatedAt is by Redis' clock.
	CreatedAt time.Time

	// LastSeen is when the session's idle time was last renewed, by this process's clock. It lags behind by up to
	// [Options.TouchEvery], and once the end of the session's lifetime is nearer than its IdleTimeout it stands still.
	LastSeen time.Time

	// ExpiresAt is when the session ends if it is not used again, by this process's clock. The true end is the same or
	// later, by less than the round trip took.
	ExpiresAt time.Time

	own *own
}

// own is what a Session has and does not show. Its token lies behind a pointer of its own, since a wrong verb of fmt
// shows what the outer one points to.
type own struct {
	token *string
	hash  map[string]string // as it lies in Redis, so far as this process knows

	// unsure are fields whose last write failed, so that Redis may hold another value than hash says.
	unsure []string
}

// newSession is a session with an ID, and a token where it is known, in one piece of memory.
func newSession[T any](id, token string) *Session[T] {
	s := &struct {
		session Session[T]
		own     own
		token   string
	}{token: token}
	s.own.token = &s.token
	s.session.ID, s.session.own = id, &s.own
	return &s.session
}

// Token is what the bearer of the session keeps, and what [Store.Load] takes: its ID and its secret. It is known after
// Create and Load, is "" after ByID, and is not stored in Redis.
func (s *Session[T]) Token() string {
	if s == nil || s.own == nil {
		return ""
	}
	return *s.own.token
}

// String shows the ID alone, neither the secret nor the data.
func (s Session[T]) String() string { return "session " + s.ID }

// GoString is String, so that %#v shows no more.
func (s Session[T]) GoString() string { return s.String() }

// LogValue makes slog show the ID alone.
func (s Session[T]) LogValue() slog.Value { return slog.GroupValue(slog.String("id", s.ID)) }
