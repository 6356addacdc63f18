// Package bench measures contenders beside each other: the scenarios, the clock and the counters. It knows no library;
// package contenders registers them.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Contender is one library, or one way to use it, in one scenario. C is the scenario's configuration and T the interface
// that the scenario drives.
type Contender[C, T any] struct {
	Name   string
	Note   string // one line under the table: settings, semantics worth knowing
	Ref    bool   // a hand-written reference; the first one divides the ratios
	Merges bool   // its client sends the commands of several goroutines together; the first such Ref divides another ratio
	Floor  bool   // of lock/handoff: the reference that no lock can beat
	Same   bool   // keeps in Redis what another contender keeps: left out of the memory tables
	Apart  bool   // of lock/handoff: also measured with a process for each waiter
	New    func(C) (T, error)

	again bool // a reference that takes part a second time
}

// Ours is how the names of this library's contenders begin.
const Ours = "redispatterns"

func (c Contender[C, T]) about() about {
	return about{name: c.Name, note: c.Note, ref: c.Ref, merges: c.Merges, again: c.again}
}

// Conn tells a contender how to reach the server. Every contender gets a client of its own with room for Size connections.
type Conn struct {
	Addr, Username, Password string
	DB                       int
	Size                     int
}

// ParseAddr reads host:port, or redis://user:password@host:port/db.
func ParseAddr(s string) (Conn, error) {
	if strings.Contains(s, "://") {
		u, err := url.Parse(s)
		if err != nil {
			return Conn{}, err
		}
		if u.Scheme != "redis" {
			return Conn{}, fmt.Errorf("%s:// is not measured, only redis:// is", u.Scheme)
		}
		o, err := redis.ParseURL(s)
		if err != nil {
			return Conn{}, err
		}
		return Conn{Addr: o.Addr, Username: o.Username, Password: o.Password, DB: o.DB}, nil
	}
	if _, _, err := net.SplitHostPort(s); err != nil {
		return Conn{}, errors.New("want host:port or redis://user:password@host:port/db")
	}
	return Conn{Addr: s}, nil
}

// Locker is a mutual exclusion lock library.
type Locker interface {
	// Lock waits until key is held by the caller, or ctx is done.
	Lock(ctx context.Context, key string) (Held, error)
	io.Closer
}

// Held is a lock that is held.
type Held interface {
	Unlock(ctx context.Context) error
}

// LockConfig configures a Locker.
type LockConfig struct {
	Conn
	TTL time.Duration // how long a lock lives when its holder dies
}

// KeyPreparer is implemented by a Locker whose key must be set up before its first use.
type KeyPreparer interface {
	PrepareKey(ctx context.Context, key string) error
}

// Limiter is a rate limiter library.
type Limiter interface {
	// Allow decides on one request of the client named key.
	Allow(ctx context.Context, key string) (bool, error)
	io.Closer
}

// LimiterConfig configures a Limiter: Limit requests per Period, with the full limit available as a burst where the
// algorithm knows bursts.
type LimiterConfig struct {
	Conn
	Limit  int
	Period time.Duration
}

// SessionStore is an HTTP session library.
type SessionStore interface {
	// Handler wraps app with the library's session handling, as an application would: load the session that the
	// request's cookie names, run app, save what it changed, and answer with the body that app returns.
	Handler(app SessionApp) http.Handler
	io.Closer
}

// SessionApp is what an application does with a request's session.
type SessionApp func(Session) (body string)

// Session is the application's view of a session.
type Session interface {
	Get(field string) string
	Set(field, value string)
}

// The fields of a session.
const (
	UserID   = "user_id"
	Username = "username"
	Role     = "role"
)

// SessionConfig configures a SessionStore.
type SessionConfig struct {
	Conn
	TTL time.Duration // idle time after which a session is dropped
}

// Board is a leaderboard, best first. A member is there when its standing is asked for.
type Board interface {
	// Set gives a member this score and answers where it stands now.
	Set(ctx context.Context, member string, score float64) (Standing, error)
	// Add adds to a member's score and answers where it stands now.
	Add(ctx context.Context, member string, delta float64) (Standing, error)
	Get(ctx context.Context, member string) (Standing, error)
	Top(ctx context.Context, n int) ([]Entry, error)
	// Fill adds n members; it is not timed, so batch it.
	Fill(ctx context.Context, n int, entry func(i int) Entry) error
	io.Closer
}

// Entry is a member of a board.
type Entry struct {
	Member string
	Score  float64
}

// Standing is where a member stands.
type Standing struct {
	Rank  int64 // 1 is the best
	Score float64
	Total int64 // members of the board
}

// BoardConfig configures a Board.
type BoardConfig struct {
	Conn
	Name string
}

// A contender takes part in a scenario family by appending itself to the family's list in an init function.
var (
	UncontendedLocks []Contender[LockConfig, Locker]
	HandoffLocks     []Contender[LockConfig, Locker]
	Limiters         []Contender[LimiterConfig, Limiter]
	SessionRequests  []Contender[SessionConfig, SessionStore] // load, change, save, renew
	SessionReads     []Contender[SessionConfig, SessionStore] // load only
	Boards           []Contender[BoardConfig, Board]
)

// Register appends contenders to a family's list.
func Register[C, T any](family *[]Contender[C, T], c ...Contender[C, T]) {
	*family = append(*family, c...)
}
