package acl_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/session"
)

type data struct {
	User string `redis:"user_id"`
	Role string `redis:"role,omitempty"`
}

func sessions(c *calls, client redispatterns.Client) {
	for _, o := range []session.Options{
		{},
		{UserField: "user_id", Grace: time.Minute},
		{UserField: "user_id", TouchEvery: -1, Lifetime: -1},
		{UserField: "user_id", TouchEvery: time.Millisecond, IdleTimeout: time.Hour, Lifetime: 59 * time.Minute}, // its end bounds it
	} {
		store, err := session.New[data](client, &o)
		c.did("New", err)
		useStore(c, store, o.UserField != "")
		useManager(c, store, o.UserField != "")
	}
	knows[session.Store[data]](c)
	knows[session.Manager[data]](c, "Store", "Handler", "Require") // which every visit goes through
}

func useStore(c *calls, store *session.Store[data], indexed bool) {
	name := redistest.ID()
	sess, err := store.Create(c.ctx, data{User: name, Role: "member"})
	c.did("Store.Create", err)
	before := sess.Token()
	sess.Data.Role = ""
	c.did("Store.Save", store.Save(c.ctx, sess))
	c.did("Store.Rotate", store.Rotate(c.ctx, sess))
	_, err = store.Load(c.ctx, before)
	if !errors.Is(err, session.ErrNotFound) { // unless it has a grace
		c.did("Store.Load", err)
	}
	sess, err = store.Load(c.ctx, sess.Token())
	c.did("Store.Load", err)
	c.did("Store.Rotate", store.Rotate(c.ctx, sess))
	c.did("Store.Update", store.Update(c.ctx, sess, func(d *data) error { d.User += "2"; return nil }))
	c.did("Store.Touch", store.Touch(c.ctx, sess.ID))
	_, err = store.ByID(c.ctx, sess.ID)
	c.did("Store.ByID", err)
	if indexed {
		second, err := store.Create(c.ctx, sess.Data)
		c.did("Store.Create", err)
		_, err = store.List(c.ctx, sess.Data.User)
		c.did("Store.List", err)
		_, err = store.DestroyAll(c.ctx, sess.Data.User, second.ID)
		c.did("Store.DestroyAll", err)
	}
	c.did("Store.Destroy", store.Destroy(c.ctx, sess.ID))
}

// useManager goes through a visit: in, on with a new token, out elsewhere, out.
func useManager(c *calls, store *session.Store[data], indexed bool) {
	m, err := session.NewManager(store, nil)
	c.did("NewManager", err)
	cookie := ""
	visit := func(method string, do func(w http.ResponseWriter, r *http.Request) error) {
		var err error
		handler := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { err = do(w, r) }))
		if cookie != "" {
			handler = m.Require(handler)
		}
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "https://localhost/", nil)
		r.Header.Set("Cookie", cookie)
		m.Handler(handler).ServeHTTP(w, r)
		if err == nil && w.Code != http.StatusOK {
			err = errors.New(w.Body.String())
		}
		c.did("Manager."+method, err)
		for _, set := range w.Result().Cookies() {
			cookie = set.Name + "=" + set.Value
		}
	}
	visit("Start", func(w http.ResponseWriter, r *http.Request) error {
		_, err := m.Start(w, r, data{User: redistest.ID()})
		return err
	})
	visit("Get", func(_ http.ResponseWriter, r *http.Request) error {
		_, err := m.Get(r.Context())
		return err
	})
	visit("Rotate", func(w http.ResponseWriter, r *http.Request) error {
		_, err := m.Rotate(w, r)
		return err
	})
	if indexed {
		visit("LogoutOthers", func(_ http.ResponseWriter, r *http.Request) error {
			_, err := m.LogoutOthers(r)
			return err
		})
	}
	visit("Logout", func(w http.ResponseWriter, r *http.Request) error { return m.Logout(w, r) })
}
