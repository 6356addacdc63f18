package session_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/session"
)

// A change of the password logs the user's other devices out.
func ExampleManager_LogoutOthers() {
	type User struct {
		UserID int64 `redis:"user_id"`
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	store, err := session.New[User](rdb, &session.Options{UserField: "user_id"})
	if err != nil {
		log.Fatal(err)
	}
	sessions, err := session.NewManager(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	login := sessions.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := sessions.Start(w, r, User{UserID: 77}); err != nil {
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		}
	}))
	password := sessions.Handler(sessions.Require(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Once the new password is stored:
		n, err := sessions.LogoutOthers(r)
		fmt.Println(n, err)
	})))

	var phone []*http.Cookie
	for range 3 { // a laptop, a tablet, a phone
		w := httptest.NewRecorder()
		login.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/login", nil))
		phone = w.Result().Cookies()
	}
	r := httptest.NewRequest(http.MethodPost, "/password", nil)
	r.AddCookie(phone[0])
	password.ServeHTTP(httptest.NewRecorder(), r)
	// Output: 2 <nil>
}
