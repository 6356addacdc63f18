package session_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/session"
)

var ctx = context.Background()

func TestLifeOfASession(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		store := newStore[user](t, c, nil)
		made := create(t, store, tanaka)
		require.Equal(t, tanaka, made.Data)
		require.WithinDuration(t, s.Now(t), made.CreatedAt, time.Minute)
		requireTTL(t, c, made.ID, 30*time.Minute)

		sess, err := store.Load(ctx, made.Token())
		require.NoError(t, err)
		require.Equal(t, made.ID, sess.ID)
		require.Equal(t, made.Token(), sess.Token())
		require.Equal(t, tanaka, sess.Data)
		require.Equal(t, made.CreatedAt, sess.CreatedAt)
		require.WithinDuration(t, time.Now(), sess.LastSeen, time.Minute)
		require.WithinDuration(t, time.Now().Add(30*time.Minute), sess.ExpiresAt, time.Minute)

		sess.Data.Role = "member"
		require.NoError(t, store.Save(ctx, sess))
		byID, err := store.ByID(ctx, sess.ID)
		require.NoError(t, err)
		require.Equal(t, user{42, "tanaka", "member"}, byID.Data)
		require.Empty(t, byID.Token(), "who has an ID does not get to know the secret")

		require.NoError(t, store.Touch(ctx, sess.ID))
		require.NoError(t, store.Destroy(ctx, sess.ID))
		require.NoError(t, store.Destroy(ctx, sess.ID), "that there is none is no error")
		_, err = store.Load(ctx, sess.Token())
		require.ErrorIs(t, err, session.ErrNotFound)
		requireGone(t, c, sess.ID)
	})
}

// What redis-cli shows after a login is what docs/keys.md says.
func TestShapeInRedis(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		sess := create(t, newStore[user](t, c, nil), tanaka)
		hash, err := c.HGetAll(ctx, "session:"+sess.ID).Result()
		require.NoError(t, err)
		require.Equal(t, "42", hash["user_id"])
		require.Equal(t, "tanaka", hash["username"])
		require.Equal(t, "admin", hash["role"])
		for _, name := range []string{"user_id", "username", "role"} {
			delete(hash, name)
		}
		require.Len(t, hash, 4)
		require.Regexp(t, `^\d{1,19}$`, hash["_v"])
		require.Regexp(t, `^[A-Za-z0-9_-]{43}$`, hash["_t"])
		require.Regexp(t, `^\d{13}$`, hash["_c"])
		require.Regexp(t, `^\d{13}$`, hash["_x"])
		var scanned user
		require.NoError(t, c.HGetAll(ctx, "session:"+sess.ID).Scan(&scanned))
		require.Equal(t, tanaka, scanned, "go-redis reads it")
		ttl, err := c.TTL(ctx, "session:"+sess.ID).Result()
		require.NoError(t, err)
		require.InDelta(t, 1800, ttl.Seconds(), 60)
	})
}

func TestAnyPrefix(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		prefix := "shop:{" + redistest.ID() + "}\x00 \n:"
		store := newStore[user](t, c, &session.Options{Prefix: prefix})
		sess := create(t, store, tanaka)
		require.EqualValues(t, 1, c.Exists(ctx, prefix+sess.ID).Val())
		_, err := store.Load(ctx, sess.Token())
		require.NoError(t, err)
		_, err = newStore[user](t, c, nil).Load(ctx, sess.Token())
		require.ErrorIs(t, err, session.ErrNotFound)
	})
}

// A value is a value, whatever bytes it has.
func TestOddValues(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		store := newStore[user](t, s.Client(t), &session.Options{MaxBytes: -1})
		for _, text := range []string{
			"", "\x00", "a\r\nb", "{tag}", "\xff\xfe", "名前", strings.Repeat("x", 1<<20), "_v", "-1", " ",
		} {
			sess := create(t, store, user{UserID: -1 << 63, Username: text})
			loaded, err := store.Load(ctx, sess.Token())
			require.NoError(t, err)
			require.Equal(t, text, loaded.Data.Username)
			loaded.Data.Username, loaded.Data.Role = "", role(text)
			require.NoError(t, store.Save(ctx, loaded))
			loaded, err = store.Load(ctx, sess.Token())
			require.NoError(t, err)
			require.Equal(t, user{UserID: -1 << 63, Role: role(text)}, loaded.Data)
		}
	})
}

// fifty has fifty fields, f0 to f49.
type fifty struct {
	ten0
	ten1
	ten2
	ten3
	ten4
}
type ten0 struct {
	F0 int `redis:"f0"`
	F1 int `redis:"f1"`
	F2 int `redis:"f2"`
	F3 int `redis:"f3"`
	F4 int `redis:"f4"`
	F5 int `redis:"f5"`
	F6 int `redis:"f6"`
	F7 int `redis:"f7"`
	F8 int `redis:"f8"`
	F9 int `redis:"f9"`
}
type ten1 struct {
	G0 int `redis:"f10"`
	G1 int `redis:"f11"`
	G2 int `redis:"f12"`
	G3 int `redis:"f13"`
	G4 int `redis:"f14"`
	G5 int `redis:"f15"`
	G6 int `redis:"f16"`
	G7 int `redis:"f17"`
	G8 int `redis:"f18"`
	G9 int `redis:"f19"`
}
type ten2 struct {
	H0 int `redis:"f20"`
	H1 int `redis:"f21"`
	H2 int `redis:"f22"`
	H3 int `redis:"f23"`
	H4 int `redis:"f24"`
	H5 int `redis:"f25"`
	H6 int `redis:"f26"`
	H7 int `redis:"f27"`
	H8 int `redis:"f28"`
	H9 int `redis:"f29"`
}
type ten3 struct {
	I0 int `redis:"f30"`
	I1 int `redis:"f31"`
	I2 int `redis:"f32"`
	I3 int `redis:"f33"`
	I4 int `redis:"f34"`
	I5 int `redis:"f35"`
	I6 int `redis:"f36"`
	I7 int `redis:"f37"`
	I8 int `redis:"f38"`
	I9 int `redis:"f39"`
}
type ten4 struct {
	J0 int `redis:"f40"`
	J1 int `redis:"f41"`
	J2 int `redis:"f42"`
	J3 int `redis:"f43"`
	J4 int `redis:"f44"`
	J5 int `redis:"f45"`
	J6 int `redis:"f46"`
	J7 int `redis:"f47"`
	J8 int `redis:"f48"`
	J9 int `redis:"f49"`
}

func (f *fifty) at(i int) reflect.Value { return reflect.ValueOf(f).Elem().Field(i / 10).Field(i % 10) }

func TestParallelSavesMerge(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		store := newStore[fifty](t, s.Client(t), nil)
		sess := create(t, store, fifty{})
		var loaded, saved sync.WaitGroup
		errs := make([]error, 50)
		loaded.Add(50)
		for i := range 50 {
			saved.Go(func() {
				mine, err := store.Load(ctx, sess.Token())
				loaded.Done()
				loaded.Wait() // nobody saves before all have loaded
				if err == nil {
					mine.Data.at(i).SetInt(int64(i + 1))
					err = store.Save(ctx, mine)
				}
				errs[i] = err
			})
		}
		saved.Wait()
		after, err := store.Load(ctx, sess.Token())
		require.NoError(t, err)
		for i := range 50 {
			require.NoError(t, errs[i])
			require.EqualValues(t, i+1, after.Data.at(i).Int(), "field f%d", i)
		}
	})
}

// A slow request that only read, and one that changed something else, undo nothing.
func TestSlowRequestUndoesNothing(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		store := newStore[user](t, c, nil)
		sess := create(t, store, tanaka)
		reader, err := store.Load(ctx, sess.Token())
		require.NoError(t, err)
		writer, err := store.Load(ctx, sess.Token())
		require.NoError(t, err)
		other, err := store.Load(ctx, sess.Token())
		require.NoError(t, err)
		writer.Data.Role = "member"
		require.NoError(t, store.Save(ctx, writer))
		version := c.HGet(ctx, "session:"+sess.ID, "_v").Val()

		require.NoError(t, store.Save(ctx, reader), "nothing changed, nothing is written")
		require.Equal(t, version, c.HGet(ctx, "session:"+sess.ID, "_v").Val())
		other.Data.Username = "suzuki"
		require.NoError(t, store.Save(ctx, other))
		other.Data.UserID = 43
		require.NoError(t, store.Save(ctx, other), "a session can be saved again")
		after, err := store.Load(ctx, sess.Token())
		require.NoError(t, err)
		require.Equal(t, user{43, "suzuki", "member"}, after.Data)
		require.NotEqual(t, version, c.HGet(ctx, "session:"+sess.ID, "_v").Val())
	})
}

type preferences struct {
	Theme *string   `redis:"theme"`
	Lang  string    `redis:"lang,omitempty"`
	Beta  bool      `redis:"beta"`
	Cart  []byte    `redis:"cart"`
	Since time.Time `redis:"since"`
}

// Only what changed is sent, by value: what a pointer points to counts, another writing of the same value does not.
func TestWhatCountsAsAChange(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		store := newStore[preferences](t, c, nil)
		dark := "dark"
		sess := create(t, store, preferences{Theme: &dark, Lang: "ja", Cart: []byte("a")})
		key := "session:" + sess.ID
		require.NoError(t, c.HSet(ctx, key, "beta", "true", "unknown", "kept").Err())
		require.NoError(t, c.HDel(ctx, key, "since").Err())
		loaded, err := store.Load(ctx, sess.Token())
		require.NoError(t, err)
		require.True(t, loaded.Data.Beta)
		before := c.HGetAll(ctx, key).Val()
		require.NoError(t, store.Save(ctx, loaded))
		require.Equal(t, before, c.HGetAll(ctx, key).Val())

		*loaded.Data.Theme, loaded.Data.Cart[0], loaded.Data.Lang = "light", 'b', ""
		require.NoError(t, store.Save(ctx, loaded))
		after := c.HGetAll(ctx, key).Val()
		before["theme"], before["cart"], before["_v"] = "light", "b", after["_v"]
		delete(before, "lang")
		require.Equal(t, before, after)

		loaded.Data.Theme = nil
		require.NoError(t, store.Save(ctx, loaded))
		after = c.HGetAll(ctx, key).Val()
		require.NotContains(t, after, "theme")
		require.Equal(t, "kept", after["unknown"], "what a newer version wrote stays")
		again, err := store.Load(ctx, sess.Token())
		require.NoError(t, err)
		require.Equal(t, loaded.Data, again.Data)
	})
}

func TestNothingComesBackAfterDestroy(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		store := newStore[user](t, c, nil)
		for _, save := range []func(*session.Session[user]) error{
			func(sess *session.Session[user]) error { return store.Save(ctx, sess) },
			func(sess *session.Session[user]) error { sess.Data.Role = "x"; return store.Save(ctx, sess) },
			func(sess *session.Session[user]) error { return store.Touch(ctx, sess.ID) },
			func(sess *session.Session[user]) error { return store.Update(ctx, sess, increment) },
			func(sess *session.Session[user]) error { return store.Rotate(ctx, sess) },
			func(sess *session.Session[user]) error { sess.Data.Role = "x"; return store.Rotate(ctx, sess) },
			func(sess *session.Session[user]) error { _, err := store.Load(ctx, sess.Token()); return err },
			func(sess *session.Session[user]) error { _, err := store.ByID(ctx, sess.ID); return err },
		} {
			sess := create(t, store, tanaka)
			require.NoError(t, store.Destroy(ctx, sess.ID))
			require.ErrorIs(t, save(sess), session.ErrNotFound)
			requireGone(t, c, sess.ID)
		}
	})
}

// A logout between a read and the touch that it finds due.
func TestLateTouchBringsNothingBack(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		direct, hooked := s.Client(t), s.Client(t)
		store := newStore[user](t, direct, nil)
		late := newStore[user](t, hooked, &session.Options{IdleTimeout: time.Hour}) // to which a touch is due
		sess := create(t, store, tanaka)
		hooked.AddHook(beforeScript(func() { require.NoError(t, store.Destroy(ctx, sess.ID)) }))
		_, err := late.Load(ctx, sess.Token())
		require.ErrorIs(t, err, session.ErrNotFound)
		requireGone(t, direct, sess.ID)
	})
}

func TestSaveRacingDestroy(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		store := newStore[user](t, c, nil)
		for i := range 50 {
			sess := create(t, store, tanaka)
			sess.Data.Role = role(fmt.Sprint(i))
			var both sync.WaitGroup
			var saved, destroyed error
			both.Go(func() { saved = store.Save(ctx, sess) })
			both.Go(func() { destroyed = store.Destroy(ctx, sess.ID) })
			both.Wait()
			require.NoError(t, destroyed)
			if saved != nil {
				require.ErrorIs(t, saved, session.ErrNotFound)
			}
			requireGone(t, c, sess.ID)
		}
	})
}

// A hash that no Create made is no session, and nothing is made of it.
func TestStrayHashIsNoSession(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		store := newStore[user](t, c, nil)
		sess := create(t, store, tanaka)
		key := "session:" + sess.ID
		require.NoError(t, c.Del(ctx, key).Err())
		require.NoError(t, c.HSet(ctx, key, "role", "admin").Err())
		sess.Data.Role = "x"
		_, err := store.Load(ctx, sess.Token())
		require.ErrorIs(t, err, session.ErrNotFound)
		_, err = store.ByID(ctx, sess.ID)
		require.ErrorIs(t, err, session.ErrNotFound)
		require.ErrorIs(t, store.Save(ctx, sess), session.ErrNotFound)
		require.ErrorIs(t, store.Touch(ctx, sess.ID), session.ErrNotFound)
		require.ErrorIs(t, store.Update(ctx, sess, increment), session.ErrNotFound)
		require.ErrorIs(t, store.Rotate(ctx, sess), session.ErrNotFound)
		require.NoError(t, store.Destroy(ctx, sess.ID))
		require.Equal(t, map[string]string{"role": "admin"}, c.HGetAll(ctx, key).Val())

		require.NoError(t, c.HSet(ctx, key, "_v", "1").Err())
		_, err = store.Load(ctx, sess.Token())
		require.ErrorIs(t, err, session.ErrNotFound, "no secret fits where none is stored")
	})
}

func TestUnreadableFieldIsNamedAndNotShown(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		store := newStore[user](t, c, nil)
		sess := create(t, store, tanaka)
		require.NoError(t, c.HSet(ctx, "session:"+sess.ID, "user_id", "confidential").Err())
		_, err := store.Load(ctx, sess.Token())
		require.ErrorContains(t, err, `field "user_id" does not hold a int64`)
		require.NotContains(t, err.Error(), "confidential")
		require.NotErrorIs(t, err, session.ErrNotFound)
	})
}
