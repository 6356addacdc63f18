package session

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/script"
)

// The index of a user's sessions lies in another slot than the sessions, so nothing writes both at once. What always
// holds: each session that lives is in its user's index, while an entry may be there whose session has ended or changed
// its user. So an entry is made before its session, and removed after; and whoever reads an entry looks at the session.

//go:embed index.lua
var indexSource string

//go:embed unindex.lua
var unindexSource string

var (
	indexScript   = script.New(indexSource)
	unindexScript = script.New(unindexSource)
)

const (
	// Whoever makes an entry writes the session next. Until that has surely happened the entry stays, whatever the session
	// looks like.
	entryGrace = 5 * time.Minute

	indexChunk = 100 // sessions in one round trip
)

var errNoIndex = errors.New("there is no index of users: Options.UserField is not set")

// entry is a session in an index.
type entry struct {
	id    string
	score string // "" for any
}

// userIn is the user that a hash names; "" is nobody, whose sessions are in no index.
func (s *Store[T]) userIn(hash map[string]string) string {
	if user := hash[s.opts.UserField]; user != s.nobody {
		return user
	}
	return ""
}

// nobodyOf is how the user field of a zero T is written.
func nobodyOf[T any](p plan, userField string) (string, error) {
	for i := range p {
		if p[i].name == userField {
			text, _, err := p[i].encode(reflect.ValueOf(new(T)).Elem())
			return text, err
		}
	}
	return "", fmt.Errorf("Options.UserField is %q, must be in the tag of a field of %v", userField, reflect.TypeFor[T]())
}

func (s *Store[T]) indexKey(user string) string { return s.opts.Prefix + "user:" + user }

// enter puts a session in a user's index, before the session is written.
func (s *Store[T]) enter(ctx context.Context, user, id string) error {
	// A session lives no longer than its lifetime, or without one for an idle time after each renewal, which renews
	// the entry too. Of these one may be lost.
	keep := max(s.opts.Lifetime, 2*s.opts.IdleTimeout) + entryGrace
	key := s.indexKey(user)
	if _, err := indexScript.Int(ctx, s.client, []string{key}, id, milliseconds(keep)); err != nil {
		return fmt.Errorf("index %q: %w", key, err)
	}
	return nil
}

// reenter renews a session's entry where each renewal of the session must, in the index of the user that Redis knows. It
// leaves to the caller the entry of the user whose the caller takes it for.
func (s *Store[T]) reenter(ctx context.Context, id, except string) error {
	if s.opts.UserField == "" || s.opts.Lifetime >= 0 {
		return nil
	}
	hash, _, err := s.read(ctx, id)
	if err != nil {
		return err
	}
	if user := s.userIn(hash); user != "" && user != except {
		return s.enter(ctx, user, id)
	}
	return nil
}

// stale does for sess, which may have been read long ago, what reenter does, unless changes c say whose it is to be.
func (s *Store[T]) stale(ctx context.Context, sess *Session[T], c *changes) error {
	if _, moves := c.value(s.opts.UserField); moves {
		return nil
	}
	return s.reenter(ctx, sess.ID, s.userIn(sess.own.hash))
}

// leave takes entries out of a user's index that are as old as age. That it fails is no harm: whoever reads an entry looks
// at the session, and the next who finds it dead takes it out.
func (s *Store[T]) leave(ctx context.Context, user string, age time.Duration, entries ...entry) {
	if len(entries) == 0 {
		return
	}
	args := append(make([]any, 0, 1+2*len(entries)), milliseconds(age))
	for _, e := range entries {
		args = append(args, e.id, e.score)
	}
	_, _ = unindexScript.Int(ctx, s.client, []string{s.indexKey(user)}, args...)
}

// indexed runs write, which does changes c to sess in Redis, and does around it what the index needs: nothing, unless they
// change the user, or the session's lifetime has no bound.
func (s *Store[T]) indexed(ctx context.Context, sess *Session[T], c *changes, write func() error) error {
	if s.opts.UserField == "" {
		return write()
	}
	from := s.userIn(sess.own.hash)
	to, moves := c.value(s.opts.UserField)
	if to == s.nobody {
		to = ""
	}
	if !moves {
		to = from
	}
	old := entry{id: sess.ID}
	if from != to && from != "" {
		var err error
		if old.score, err = s.score(ctx, from, sess.ID); err != nil {
			return err
		}
	}
	if to != "" && (moves || s.opts.Lifetime < 0) { // it may move to where it was, from where a failed Save may have put it
		if err := s.enter(ctx, to, sess.ID); err != nil {
			return err
		}
	}
	if err := write(); err != nil {
		return err
	}
	if from != to && old.score != "" {
		// Where the score is another, or young, somebody may move the session back.
		s.leave(ctx, from, entryGrace, old)
	}
	return nil
}

// score is a session's score in a user's index, "" if it has none.
func (s *Store[T]) score(ctx context.Context, user, id string) (string, error) {
	cmd := redis.NewStringCmd(ctx, "zscore", s.indexKey(user), id)
	_ = s.client.Process(ctx, cmd)
	if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("index %q: %w", s.indexKey(user), err)
	}
	return cmd.Val(), nil
}

// entries are those of a user's index, the oldest first.
func (s *Store[T]) entries(ctx context.Context, user string) ([]entry, error) {
	if s.opts.UserField == "" {
		return nil, errNoIndex
	}
	if user == "" || user == s.nobody {
		return nil, errors.New("the user given is the one of sessions that are nobody's, and not in an index")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cmd := redis.NewZSliceCmd(ctx, "zrange", s.indexKey(user), 0, -1, "withscores")
	_ = s.client.Process(ctx, cmd)
	if err := cmd.Err(); err != nil {
		return nil, fmt.Errorf("index %q: %w", s.indexKey(user), err)
	}
	entries := make([]entry, 0, len(cmd.Val()))
	for _, z := range cmd.Val() {
		id, ok := z.Member.(string)
		if !ok || !isID(id) {
			continue // not made by this package
		}
		entries = append(entries, entry{id, strconv.FormatFloat(z.Score, 'f', 0, 64)})
	}
	return entries, nil
}

// List returns the sessions of a user, as the text of the field that Options.UserField names, in the order of their logins:
// for a page that shows "your devices". It renews none of them, and they have no Token. A user without any is an empty list.
func (s *Store[T]) List(ctx context.Context, user string) ([]*Session[T], error) {
	entries, err := s.entries(ctx, user)
	if err != nil {
		return nil, fmt.Errorf("session: list %q: %w", user, err)
	}
	var list []*Session[T]
	var dead []entry
	for chunk := range slices.Chunk(entries, indexChunk) {
		sent := s.now()
		found, err := s.readAll(ctx, chunk)
		if err != nil {
			return nil, fmt.Errorf("session: list %q: %w", user, err)
		}
		for i, f := range found {
			if !f.exists() || s.userIn(f.hash()) != user {
				dead = append(dead, chunk[i])
				continue
			}
			sess := newSession[T](chunk[i].id, "")
			if err := s.fill(sess, f.hash(), sent, f.left()); err != nil {
				return nil, fmt.Errorf("session: list %q: %q: %w", user, s.key(sess.ID), err)
			}
			list = append(list, sess)
		}
	}
	s.leave(ctx, user, entryGrace, dead...)
	return list, nil
}

// DestroyAll ends all sessions of a user but those whose IDs are given: it logs out everywhere, or on all other devices. It
// returns how many it ended, with an error too; where a reply was lost, and Redis asked again, those that the lost one told
// of are not counted. A session that is created meanwhile may live.
func (s *Store[T]) DestroyAll(ctx context.Context, user string, except ...string) (int, error) {
	n, err := s.destroyAll(ctx, user, except)
	if err != nil {
		return n, fmt.Errorf("session: destroy all of %q: %w", user, err)
	}
	return n, nil
}

func (s *Store[T]) destroyAll(ctx context.Context, user string, except []string) (int, error) {
	for _, id := range except {
		if err := checkID(id); err != nil {
			return 0, err
		}
	}
	entries, err := s.entries(ctx, user)
	if err != nil {
		return 0, err
	}
	entries = slices.DeleteFunc(entries, func(e entry) bool { return slices.Contains(except, e.id) })
	var ended, dead []entry
	var failed error
	for chunk := range slices.Chunk(entries, indexChunk) {
		replies, err := s.destroyEach(ctx, chunk, user)
		for i, n := range replies {
			switch n {
			case 1:
				ended = append(ended, chunk[i])
			case 0, -1:
				dead = append(dead, chunk[i])
			}
		}
		if failed == nil {
			failed = err
		}
		if err != nil && !script.Replied(err) {
			return len(ended), failed
		}
	}
	s.leave(ctx, user, 0, ended...)
	s.leave(ctx, user, entryGrace, dead...)
	return len(ended), failed
}

const undecided = -2 // it may live: its entry stays

// destroyEach is destroy of several sessions of a user in one round trip, or one to each node. The error is the first one;
// of each session that has one it returns undecided.
func (s *Store[T]) destroyEach(ctx context.Context, entries []entry, user string) ([]int, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cmds := make([]*redis.StringSliceCmd, len(entries))
	for i, e := range entries {
		cmds[i] = destroyScript.StringsCmd(ctx, script.Keys{s.key(e.id)}, s.opts.UserField, user)
	}
	_, sent := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, cmd := range cmds {
			_ = p.Process(ctx, cmd)
		}
		return nil
	})
	replies := make([]int, len(entries))
	var failed error
	for i, cmd := range cmds {
		reply, err := cmd.Result()
		if err == nil && reply == nil {
			err = sent // none was
		}
		replies[i], _, err = destroyed(reply, err)
		if redis.HasErrorPrefix(err, "NOSCRIPT") && (failed == nil || script.Replied(failed)) {
			replies[i], _, err = s.destroy(ctx, entries[i].id, user)
		}
		if err != nil {
			replies[i] = undecided
		}
		if failed == nil && err != nil {
			failed = fmt.Errorf("%q: %w", s.key(entries[i].id), err)
		}
	}
	return replies, failed
}

// destroy ends a session, if a user is given only where it is that user's. It returns what destroy.lua does.
func (s *Store[T]) destroy(ctx context.Context, id, user string) (n int, owner string, err error) {
	return destroyed(destroyScript.Strings(ctx, s.client, script.AnyLength, []string{s.key(id)}, s.opts.UserField, user))
}

// destroyed reads what destroy.lua returns.
func destroyed(reply []string, err error) (n int, owner string, _ error) {
	if err != nil {
		return 0, "", err
	}
	if len(reply) != 2 {
		return 0, "", fmt.Errorf("script answered %d values, not 2", len(reply))
	}
	n, err = strconv.Atoi(reply[0])
	return n, reply[1], err
}
