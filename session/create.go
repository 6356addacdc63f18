package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"time"

	"github.com/redispatterns/redispatterns/internal/script"
)

// Create makes a session with a new ID and a new secret; hand its Token to the user. It takes nothing from the user that
// could choose either.
//
// Where no reply comes, Create tries again with another ID and another secret: the same ones, held back by the network,
// could arrive after the logout and bring the session back. So after a lost reply, and after an error, a session may exist
// that nobody has the token of. It ends by itself, and until then [Store.List] shows it.
func (s *Store[T]) Create(ctx context.Context, data T) (*Session[T], error) {
	sess := newSession[T]("", "")
	sess.Data = data
	hash := make(map[string]string, len(s.plan)+4)
	args := make([]any, 4, 4+2*len(s.plan)) // the first four are create's
	size, value := 0, reflect.ValueOf(&sess.Data).Elem()
	for i := range s.plan {
		text, ok, err := s.plan[i].encode(value)
		if err != nil {
			return nil, fmt.Errorf("session: create: %w", err)
		}
		if ok {
			size += len(s.plan[i].name) + len(text)
			hash[s.plan[i].name] = text
			args = append(args, s.plan[i].name, text)
		}
	}
	if err := s.checkSize(size); err != nil {
		return nil, fmt.Errorf("session: create: %w", err)
	}
	sess.own.hash = hash
	for try := 1; ; try++ {
		err := s.create(ctx, sess, args)
		if err == nil {
			return sess, nil
		}
		if !script.Unknown(err) || try == unknownTries || !script.Pause(ctx, rand.N(time.Millisecond<<try)) {
			return nil, fmt.Errorf("session: create %q: %w", s.key(sess.ID), err)
		}
	}
}

// create sends a session once, with an ID and a secret that were never sent before.
func (s *Store[T]) create(ctx context.Context, sess *Session[T], args []any) error {
	id, secret, hash := newID(), newSecret(), sess.own.hash
	sess.ID, *sess.own.token = id, joinToken(id, secret)
	hash[fieldSecret], hash[fieldVersion] = hashSecret(secret).String(), newVersion()
	args[0], args[1], args[2], args[3] = s.idle, milliseconds(max(s.opts.Lifetime, 0)), hash[fieldSecret], hash[fieldVersion]
	if user := s.userIn(hash); user != "" {
		if err := s.enter(ctx, user, id); err != nil {
			return err
		}
	}
	sent := s.now()
	created, err := createScript.Int(ctx, s.client, []string{s.key(id)}, args...)
	if err != nil {
		return err
	}
	if created < 0 {
		return errors.New("the key exists")
	}
	hash[fieldCreated] = strconv.FormatInt(created, 10)
	left := s.opts.IdleTimeout
	if s.opts.Lifetime > 0 {
		hash[fieldEnds] = strconv.FormatInt(created+s.opts.Lifetime.Milliseconds(), 10)
		left = min(left, s.opts.Lifetime)
	}
	sess.CreatedAt, sess.LastSeen, sess.ExpiresAt = time.UnixMilli(created), sent, sent.Add(left)
	return nil
}
