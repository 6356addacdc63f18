package contenders

import (
	"context"
	"io"
	"net/http"

	"github.com/alexedwards/scs/goredisstore"
	"github.com/alexedwards/scs/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
)

func init() {
	all := []bench.Contender[bench.SessionConfig, bench.SessionStore]{
		{Name: "scs, default", Note: "a fixed lifetime of 24 h: no request renews the TTL", New: newSCS(false)},
		{Name: "scs, IdleTimeout", Note: "every request saves the session and so renews the TTL", New: newSCS(true)},
	}
	bench.Register(&bench.SessionRequests, all...)
	bench.Register(&bench.SessionReads, all...)
}

func newSCS(idle bool) func(bench.SessionConfig) (bench.SessionStore, error) {
	return func(c bench.SessionConfig) (bench.SessionStore, error) {
		db := client(c.Conn)
		m := scs.New()
		m.Store = goredisstore.New(db)
		if idle {
			m.IdleTimeout = c.TTL
		}
		return &scsStore{m, db}, nil
	}
}

type scsStore struct {
	manager *scs.SessionManager
	db      *redis.Client
}

func (s *scsStore) Close() error { return s.db.Close() }

func (s *scsStore) Handler(app bench.SessionApp) http.Handler {
	// The middleware saves when the handler first writes.
	return s.manager.LoadAndSave(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, app(scsSession{s.manager, r.Context()}))
	}))
}

type scsSession struct {
	manager *scs.SessionManager
	ctx     context.Context
}

func (s scsSession) Get(field string) string { return s.manager.GetString(s.ctx, field) }

func (s scsSession) Set(field, value string) { s.manager.Put(s.ctx, field, value) }
