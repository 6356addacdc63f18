package session_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/session"
)

// addr is where the examples find Redis.
var addr string

func exampleServer() string {
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		log.Fatal(err)
	}
	return m.Addr()
}

func Example() {
	type User struct {
		UserID   int64  `redis:"user_id"`
		Username string `redis:"username"`
		Role     string `redis:"role"`
	}
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()

	// On every server of the application:
	sessions, err := session.New[User](rdb, nil)
	if err != nil {
		log.Fatal(err)
	}

	// Login, on one server. The token goes into a cookie.
	sess, err := sessions.Create(ctx, User{UserID: 42, Username: "tanaka", Role: "admin"})
	if err != nil {
		log.Fatal(err)
	}
	token := sess.Token()

	// A request, on another.
	sess, err = sessions.Load(ctx, token)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sess.Data.Username, sess.Data.Role)

	// Logout, on a third.
	if err := sessions.Destroy(ctx, sess.ID); err != nil {
		log.Fatal(err)
	}
	_, err = sessions.Load(ctx, token)
	fmt.Println(errors.Is(err, session.ErrNotFound))
	// Output:
	// tanaka admin
	// true
}

type Cart struct {
	UserID int64  `redis:"user_id"`
	Items  int    `redis:"items"`
	Lang   string `redis:"lang,omitempty"`
}

func ExampleNew() {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()

	sessions, err := session.New[Cart](rdb, &session.Options{
		IdleTimeout: 15 * time.Minute,
		Lifetime:    8 * time.Hour,
	})
	fmt.Println(sessions != nil, err)

	type Unusable struct {
		Friends []string `redis:"friends"`
	}
	_, err = session.New[Unusable](rdb, nil)
	fmt.Println(err)
	// Output:
	// true <nil>
	// session: new: field session_test.Unusable.Friends: []string cannot be stored in a hash field; give it MarshalText and UnmarshalText
}

func ExampleStore_Create() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	sessions, err := session.New[Cart](rdb, nil)
	if err != nil {
		log.Fatal(err)
	}

	sess, err := sessions.Create(ctx, Cart{UserID: 42, Items: 1})
	if err != nil {
		log.Fatal(err)
	}
	key := "session:" + sess.ID
	fmt.Println(rdb.HMGet(ctx, key, "user_id", "items").Val(), rdb.TTL(ctx, key).Val())
	// Output: [42 1] 30m0s
}

func ExampleStore_Load() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	sessions, err := session.New[Cart](rdb, nil)
	if err != nil {
		log.Fatal(err)
	}

	_, err = sessions.Load(ctx, "a token from who knows where")
	switch {
	case errors.Is(err, session.ErrNotFound):
		fmt.Println("please log in")
	case err != nil:
		fmt.Println("503: Redis cannot be asked")
	}
	// Output: please log in
}

func ExampleStore_ByID() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	sessions, err := session.New[Cart](rdb, nil)
	if err != nil {
		log.Fatal(err)
	}
	sess, err := sessions.Create(ctx, Cart{UserID: 42, Items: 1})
	if err != nil {
		log.Fatal(err)
	}
	logged := sess.ID // no secret, so a log may have it

	// A page of the administrators:
	sess, err = sessions.ByID(ctx, logged)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("user %d, token %q\n", sess.Data.UserID, sess.Token())
	// Output: user 42, token ""
}

func ExampleStore_Touch() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	sessions, err := session.New[Cart](rdb, nil)
	if err != nil {
		log.Fatal(err)
	}
	sess, err := sessions.Create(ctx, Cart{UserID: 42})
	if err != nil {
		log.Fatal(err)
	}

	// A WebSocket is open, and no request comes that would renew the session. Now and then:
	fmt.Println(sessions.Touch(ctx, sess.ID))

	// The user logged out in another window: time to close the connection.
	if err := sessions.Destroy(ctx, sess.ID); err != nil {
		log.Fatal(err)
	}
	fmt.Println(errors.Is(sessions.Touch(ctx, sess.ID), session.ErrNotFound))
	// Output:
	// <nil>
	// true
}

func ExampleStore_Save() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	sessions, err := session.New[Cart](rdb, nil)
	if err != nil {
		log.Fatal(err)
	}
	login, err := sessions.Create(ctx, Cart{UserID: 42})
	if err != nil {
		log.Fatal(err)
	}

	// Two requests of one user at the same time.
	a, _ := sessions.Load(ctx, login.Token())
	b, _ := sessions.Load(ctx, login.Token())
	a.Data.Items = 3
	b.Data.Lang = "ja"
	if err := errors.Join(sessions.Save(ctx, a), sessions.Save(ctx, b)); err != nil {
		log.Fatal(err)
	}

	sess, err := sessions.Load(ctx, login.Token())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%+v\n", sess.Data)
	// Output: {UserID:42 Items:3 Lang:ja}
}

func ExampleStore_Destroy() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	sessions, err := session.New[Cart](rdb, nil)
	if err != nil {
		log.Fatal(err)
	}
	sess, err := sessions.Create(ctx, Cart{UserID: 42})
	if err != nil {
		log.Fatal(err)
	}

	if err := sessions.Destroy(ctx, sess.ID); err != nil {
		log.Fatal(err)
	}
	sess.Data.Items = 3 // by a request that was under way
	fmt.Println(errors.Is(sessions.Save(ctx, sess), session.ErrNotFound), rdb.Exists(ctx, "session:"+sess.ID).Val())
	// Output: true 0
}

func ExampleStore_Update() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	sessions, err := session.New[Cart](rdb, nil)
	if err != nil {
		log.Fatal(err)
	}
	sess, err := sessions.Create(ctx, Cart{UserID: 42, Items: 1})
	if err != nil {
		log.Fatal(err)
	}

	// Right however many requests do it at the same time.
	err = sessions.Update(ctx, sess, func(c *Cart) error {
		c.Items++
		return nil
	})
	fmt.Println(sess.Data.Items, err)
	// Output: 2 <nil>
}

func ExampleStore_Rotate() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	sessions, err := session.New[Cart](rdb, nil)
	if err != nil {
		log.Fatal(err)
	}
	sess, err := sessions.Create(ctx, Cart{Items: 3}) // of somebody who has not logged in
	if err != nil {
		log.Fatal(err)
	}
	before := sess.Token()

	sess.Data.UserID = 42 // the login
	if err := sessions.Rotate(ctx, sess); err != nil {
		log.Fatal(err)
	}
	_, err = sessions.Load(ctx, before)
	fmt.Println(errors.Is(err, session.ErrNotFound))
	sess, err = sessions.Load(ctx, sess.Token())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%+v\n", sess.Data)
	// Output:
	// true
	// {UserID:42 Items:3 Lang:}
}

func ExampleStore_DestroyAll() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	sessions, err := session.New[Cart](rdb, &session.Options{Prefix: "shop:session:", UserField: "user_id"})
	if err != nil {
		log.Fatal(err)
	}
	var last *session.Session[Cart]
	for _, lang := range []string{"ja", "en", "de"} { // on three devices
		if last, err = sessions.Create(ctx, Cart{UserID: 42, Lang: lang}); err != nil {
			log.Fatal(err)
		}
	}

	n, err := sessions.DestroyAll(ctx, "42", last.ID)
	fmt.Println(n, err)

	devices, err := sessions.List(ctx, "42")
	if err != nil {
		log.Fatal(err)
	}
	for _, sess := range devices {
		fmt.Println(sess.Data.Lang)
	}
	// Output:
	// 2 <nil>
	// de
}

func ExampleManager() {
	type User struct {
		UserID   int64  `redis:"user_id"`
		Username string `redis:"username"`
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	store, err := session.New[User](rdb, nil)
	if err != nil {
		log.Fatal(err)
	}
	sessions, err := session.NewManager(store, nil)
	if err != nil {
		log.Fatal(err)
	}

	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		// Once the password is right:
		if _, err := sessions.Start(w, r, User{UserID: 42, Username: "tanaka"}); err != nil {
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("POST /logout", func(w http.ResponseWriter, r *http.Request) {
		if err := sessions.Logout(w, r); err != nil {
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		}
	})
	mux.Handle("GET /me", sessions.Require(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sess, err := sessions.Get(r.Context())
		if err != nil {
			http.Error(w, "try again later", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "hello %s", sess.Data.Username)
	})))
	handler := sessions.Handler(mux)

	// A browser's requests:
	var cookies []*http.Cookie
	for _, request := range []string{"GET /me", "POST /login", "GET /me", "POST /logout", "GET /me"} {
		var method, path string
		fmt.Sscan(request, &method, &path)
		r := httptest.NewRequest(method, path, nil)
		for _, cookie := range cookies {
			r.AddCookie(cookie)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if set := w.Result().Cookies(); len(set) > 0 {
			cookies = set
		}
		fmt.Println(request, w.Code)
	}
	// Output:
	// GET /me 401
	// POST /login 200
	// GET /me 200
	// POST /logout 200
	// GET /me 401
}
