package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/session"
)

const (
	sessionSlots = 6
	sessionIdle  = 8 * time.Second
	sessionTouch = 500 * time.Millisecond
)

// record is what is in a session: a field for each worker, which it alone saves, and one that all update.
type record struct {
	User   string `redis:"user"`
	F0     int64  `redis:"f0"`
	F1     int64  `redis:"f1"`
	F2     int64  `redis:"f2"`
	F3     int64  `redis:"f3"`
	Visits int64  `redis:"visits"`
}

// fields are those of a record in the order of its spans; the last is Visits.
func (r *record) fields() [maxWorkers + 1]*int64 {
	return [...]*int64{&r.F0, &r.F1, &r.F2, &r.F3, &r.Visits}
}

const visits = maxWorkers // as a field

func newStore(client redispatterns.Client) (*session.Store[record], error) {
	return session.New[record](client, &session.Options{IdleTimeout: sessionIdle, TouchEvery: sessionTouch, Lifetime: time.Hour, UserField: "user"})
}

func userOf(slot int) string { return fmt.Sprintf("user%d", slot) }

// sessions works on a few sessions that all workers share.
func (w *worker) sessions(ctx context.Context) error {
	store, err := newStore(w.client)
	if err != nil {
		return err
	}
	w.repeat(ctx, 10, func() { w.visit(store) }) // one goroutine: a field's values must arrive in order
	return nil
}

func (w *worker) visit(store *session.Store[record]) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*opTimeout)
	defer cancel()
	slot := rand.IntN(sessionSlots)
	var v View
	w.ask("Session", slot, &v)
	if v.Token == "" {
		w.create(ctx, store, slot)
		return
	}
	switch n := rand.IntN(100); {
	case n < 2:
		w.destroy(ctx, store, v)
	case n < 5:
		w.rotate(ctx, store, v)
	case n < 25:
		w.update(ctx, store, v)
	default:
		if sess := w.load(ctx, store, v); sess != nil && n < 75 {
			w.save(ctx, store, v, sess)
		}
	}
}

func (w *worker) create(ctx context.Context, store *session.Store[record], slot int) {
	sent := now()
	sess, err := store.Create(ctx, record{User: userOf(slot)})
	if err != nil {
		w.failed("session", err)
		return
	}
	w.did("session: created")
	var kept bool
	w.ask("Created", View{Slot: slot, Token: sess.Token(), ID: sess.ID, At: sent}, &kept)
	if !kept { // another was faster; this one expires, or the end finds it
		if err := store.Destroy(ctx, sess.ID); err != nil {
			w.failed("session", err)
		}
	}
}

// load reads a session, and compares it with what was acknowledged. It is nil where there is none, or no answer.
func (w *worker) load(ctx context.Context, store *session.Store[record], v View) *session.Session[record] {
	v.At = now()
	sess, err := store.Load(ctx, v.Token)
	if err != nil {
		w.noSession(v, err)
		return nil
	}
	w.did("session: loaded")
	for i, f := range sess.Data.fields() {
		v.Values[i] = *f
	}
	var ok bool
	w.ask("Loaded", v, &ok)
	return sess
}

// noSession counts an error. That there is no session may be wrong; the oracle knows.
func (w *worker) noSession(v View, err error) {
	if errors.Is(err, session.ErrNotFound) {
		v.At = now()
		var ok bool
		w.ask("Missing", v, &ok)
	}
	w.failed("session", err, session.ErrNotFound, session.ErrUnknown, session.ErrConflict)
}

// save writes this worker's field, and reads it back.
func (w *worker) save(ctx context.Context, store *session.Store[record], v View, sess *session.Session[record]) {
	c := Change{View: v, Field: w.Index}
	w.ask("Change", c, &c.Value)
	*sess.Data.fields()[w.Index] = c.Value
	c.At = now()
	if !w.planted("session", 10) {
		if err := store.Save(ctx, sess); err != nil {
			w.noSession(v, err)
			return
		}
	}
	w.did("session: saved")
	var ok bool
	w.ask("Changed", c, &ok)
	w.ask("Session", v.Slot, &v)
	if v.Token != "" {
		w.load(ctx, store, v)
	}
}

// update counts a visit, which all workers do on one field.
func (w *worker) update(ctx context.Context, store *session.Store[record], v View) {
	sess := w.load(ctx, store, v)
	if sess == nil {
		return
	}
	c := Change{View: v, Field: visits}
	w.ask("Change", c, &c.Value)
	c.At = now()
	err := store.Update(ctx, sess, func(r *record) error {
		r.Visits++
		return nil
	})
	var ok bool
	switch {
	case err == nil:
		w.did("session: updated")
		w.ask("Changed", c, &ok)
	case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrConflict):
		w.ask("Unchanged", c, &ok)
		w.noSession(v, err)
	default:
		w.noSession(v, err)
	}
}

// rotate changes a session's token. Nobody else does so at the time.
func (w *worker) rotate(ctx context.Context, store *session.Store[record], v View) {
	v.Worker = w.Index
	var mine bool
	if w.ask("Rotate", v, &mine); !mine {
		return
	}
	sess := w.load(ctx, store, v)
	var err error
	if sess != nil {
		v.At = now()
		err = store.Rotate(ctx, sess)
	}
	next := v
	switch {
	case sess == nil, errors.Is(err, session.ErrConflict), errors.Is(err, session.ErrNotFound): // it has the token of before
	case errors.Is(err, session.ErrUnknown):
		next.Token = "" // which one it has, nobody knows
	default: // after any other error Rotate has asked which one holds
		next.Token = sess.Token()
	}
	var ok bool
	w.ask("Rotated", next, &ok)
	if err != nil {
		w.noSession(next, err)
		return
	}
	if sess == nil {
		return
	}
	w.did("session: rotated")
	if _, err := store.Load(ctx, v.Token); !errors.Is(err, session.ErrNotFound) {
		w.outlived(v, "a token was rotated", err)
	}
}

// destroy ends a session, for sure.
func (w *worker) destroy(ctx context.Context, store *session.Store[record], v View) {
	var mine bool
	if w.ask("Retire", v, &mine); !mine {
		return
	}
	if err := store.Destroy(ctx, v.ID); err != nil {
		w.failed("session", err) // it expires, or the end finds it
		return
	}
	w.did("session: destroyed")
	if _, err := store.Load(ctx, v.Token); !errors.Is(err, session.ErrNotFound) {
		w.outlived(v, "a session was destroyed", err)
	}
}

// outlived is about a token that should not open anything any more.
func (w *worker) outlived(v View, why string, err error) {
	if err == nil {
		w.violate("session", "%s, and its token still opens it: %s", why, v.ID)
		return
	}
	w.failed("session", err)
}
