package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/session"
)

// Items shows how a map gets into a field: as text, here JSON.
type Items map[string]int

func (i Items) MarshalText() ([]byte, error) { return json.Marshal(map[string]int(i)) }

func (i *Items) UnmarshalText(text []byte) error {
	return json.Unmarshal(text, (*map[string]int)(i))
}

type Shopper struct {
	UserID    int64     `redis:"user_id"`
	Items     Items     `redis:"items"`
	Flash     string    `redis:"flash,omitempty"`
	SudoUntil time.Time `redis:"sudo_until,omitempty"`
}

// Flash messages, the cart of somebody who has not logged in yet, and asking for the password again before something
// dangerous need no API of their own: they are fields.
func Example_fields() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	sessions, err := session.New[Shopper](rdb, nil)
	if err != nil {
		log.Fatal(err)
	}

	// A stranger fills a cart. Two clicks at once count both: the new value depends on the old one, so it is an Update.
	sess, err := sessions.Create(ctx, Shopper{Items: Items{"apple": 1}})
	if err != nil {
		log.Fatal(err)
	}
	err = sessions.Update(ctx, sess, func(s *Shopper) error {
		s.Items["apple"]++
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}

	// The login. The cart stays, the token of before ends, and the next page will greet.
	sess.Data.UserID = 42
	sess.Data.Flash = "welcome back"
	if err := sessions.Rotate(ctx, sess); err != nil {
		log.Fatal(err)
	}

	// The next page shows the message; of two pages that load at once, one does.
	var flash string
	err = sessions.Update(ctx, sess, func(s *Shopper) error {
		flash, s.Flash = s.Flash, ""
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(flash, sess.Data.Items)

	// The password once more: for ten minutes more is allowed, to a token that nobody saw before.
	sess.Data.SudoUntil = time.Now().Add(10 * time.Minute)
	if err := sessions.Rotate(ctx, sess); err != nil {
		log.Fatal(err)
	}
	fmt.Println(time.Now().Before(sess.Data.SudoUntil))
	// Output:
	// welcome back map[apple:2]
	// true
}
