package contenders

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
)

func init() {
	all := []bench.Contender[bench.SessionConfig, bench.SessionStore]{{
		Name: "by hand: hash per session", Ref: true,
		Note: "HGETALL + EXPIRE in a pipeline; HSET of the changed fields + EXPIRE in another",
		New:  newHandSessions(plain),
	}, {
		Name: "by hand, auto-pipelined", Ref: true, Merges: true, Same: true,
		Note: "the same commands on go-redis' asynchronous AutoPipeliner: both are sent before one is waited for",
		New:  newHandSessions(deferring),
	}}
	bench.Register(&bench.SessionRequests, all...)
	bench.Register(&bench.SessionReads, all...)
}

func newHandSessions(open connect) func(bench.SessionConfig) (bench.SessionStore, error) {
	return func(c bench.SessionConfig) (bench.SessionStore, error) {
		db, close, err := open(c.Conn)
		return &handSessions{db, close, c.TTL}, err
	}
}

type handSessions struct {
	db    redis.UniversalClient
	close func() error
	ttl   time.Duration
}

func (s *handSessions) Close() error { return s.close() }

func (s *handSessions) Handler(app bench.SessionApp) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		var id string
		session := &handSession{}
		cookie, err := r.Cookie("sid")
		if err == nil {
			id = cookie.Value
			if session.values, err = s.load(ctx, id); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		} else {
			id = token()
			http.SetCookie(w, sessionCookie(id))
		}
		body := app(session)
		if len(session.changed) > 0 {
			if err := s.save(ctx, id, session.changed); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		_, _ = io.WriteString(w, body)
	})
}

// sessionCookie is what names a session until the browser is closed.
func sessionCookie(value string) *http.Cookie {
	return &http.Cookie{Name: "sid", Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode}
}

func (s *handSessions) load(ctx context.Context, id string) (map[string]string, error) {
	pipe := batch(s.db)
	values := pipe.HGetAll(ctx, "session:"+id)
	expire := pipe.Expire(ctx, "session:"+id, s.ttl)
	send(ctx, pipe)
	return values.Val(), firstError(values.Err(), expire.Err())
}

func (s *handSessions) save(ctx context.Context, id string, changed []any) error {
	pipe := batch(s.db)
	set := pipe.HSet(ctx, "session:"+id, changed...)
	expire := pipe.Expire(ctx, "session:"+id, s.ttl)
	send(ctx, pipe)
	return firstError(set.Err(), expire.Err())
}

type handSession struct {
	values  map[string]string
	changed []any
}

func (s *handSession) Get(field string) string { return s.values[field] }

func (s *handSession) Set(field, value string) { s.changed = append(s.changed, field, value) }
