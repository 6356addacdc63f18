package sessionadapters

import (
	"bytes"
	"encoding/gob"
	"errors"
	"net/http"

	"github.com/gorilla/sessions"

	"github.com/redispatterns/redispatterns/session"
)

// Gorilla is a store for github.com/gorilla/sessions. A session's ID there is its token here.
type Gorilla struct {
	Store   *session.Store[GorillaRecord]
	Options sessions.Options // of the cookies
}

// GorillaRecord is what a session holds: all its values, by encoding/gob.
type GorillaRecord struct {
	Values []byte `redis:"values"`
}

// Get implements sessions.Store.
func (g *Gorilla) Get(r *http.Request, name string) (*sessions.Session, error) {
	return sessions.GetRegistry(r).Get(g, name)
}

// New implements sessions.Store.
func (g *Gorilla) New(r *http.Request, name string) (*sessions.Session, error) {
	s := sessions.NewSession(g, name)
	options := g.Options
	s.Options, s.IsNew = &options, true
	cookie, err := r.Cookie(name)
	if err != nil {
		return s, nil
	}
	stored, err := g.Store.Load(r.Context(), cookie.Value)
	if errors.Is(err, session.ErrNotFound) {
		return s, nil
	}
	if err == nil {
		err = gob.NewDecoder(bytes.NewReader(stored.Data.Values)).Decode(&s.Values)
	}
	if err == nil {
		s.ID, s.IsNew = cookie.Value, false
	}
	return s, err
}

// Save implements sessions.Store. A negative MaxAge destroys the session; an ID of "" makes a new one, as a login should.
func (g *Gorilla) Save(r *http.Request, w http.ResponseWriter, s *sessions.Session) error {
	ctx := r.Context()
	if s.Options.MaxAge < 0 {
		stored, err := g.Store.Load(ctx, s.ID)
		if err == nil {
			err = g.Store.Destroy(ctx, stored.ID)
		}
		http.SetCookie(w, sessions.NewCookie(s.Name(), "", s.Options))
		if errors.Is(err, session.ErrNotFound) {
			return nil
		}
		return err
	}
	var values bytes.Buffer
	if err := gob.NewEncoder(&values).Encode(s.Values); err != nil {
		return err
	}
	if s.ID == "" {
		made, err := g.Store.Create(ctx, GorillaRecord{values.Bytes()})
		if err != nil {
			return err
		}
		s.ID = made.Token()
	} else {
		stored, err := g.Store.Load(ctx, s.ID)
		if err != nil {
			return err // ErrNotFound: it has ended, and does not come back
		}
		stored.Data.Values = values.Bytes()
		if err := g.Store.Save(ctx, stored); err != nil {
			return err
		}
	}
	http.SetCookie(w, sessions.NewCookie(s.Name(), s.ID, s.Options))
	return nil
}
