package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redispatterns/redispatterns/internal/script"
)

// Save writes the fields of sess that changed since it was loaded or last saved, and only those, and renews its idle time.
// Saves that run in parallel merge, and of one field the last wins. It compares nothing but that the session still exists;
// ErrNotFound if it does not. A value that depends on the old one needs
// Update.
//
// Fields of over MaxBytes are ErrTooLarge. After an error that is neither, the changes may have been written, and another
// Save writes these fields again, be it with the values of before.
func (s *Store[T]) Save(ctx context.Context, sess *Session[T]) error {
	if err := check(sess); err != nil {
		return fmt.Errorf("session: save: %w", err)
	}
	c, err := s.changes(sess)
	if err == nil {
		err = s.stale(ctx, sess, c)
	}
	if err == nil {
		err = s.save(ctx, sess, c)
	}
	if err != nil {
		return fmt.Errorf("session: save %q: %w", s.key(sess.ID), err)
	}
	return nil
}

// save writes changes of sess, or with none renews its idle time.
func (s *Store[T]) save(ctx context.Context, sess *Session[T], c *changes) error {
	return s.indexed(ctx, sess, c, func() error {
		sent := s.now()
		left, err := s.write(ctx, saveScript, sess.ID, "", c)
		if err != nil {
			sess.own.unsure = c.names()
			return err
		}
		sess.written(c, sent, left)
		return nil
	})
}

// write sends changes of a session to save.lua and returns what the session has left. It is not written where it has
// another version than the one given.
func (s *Store[T]) write(ctx context.Context, save *script.Script, id, version string, c *changes) (time.Duration, error) {
	own := ""
	if c != nil {
		own = c.version
	}
	args := append(make([]any, 0, 4+c.len()), s.idle, version, own)
	return answer(save.Int(ctx, s.client, []string{s.key(id)}, c.appendTo(args)...))
}

// answer reads what save.lua and rotate.lua return.
func answer(left int64, err error) (time.Duration, error) {
	switch {
	case err != nil:
		return 0, err
	case left == -2:
		return 0, ErrConflict
	case left < 0:
		return 0, ErrNotFound
	}
	return time.Duration(left) * time.Millisecond, nil
}

const (
	updateTries   = 20
	updateBackoff = 100 * time.Millisecond // at the most
	unknownTries  = 6                      // a pool may hold several connections that a restart of Redis has closed
)

// Update reads sess afresh, applies fn to its data and writes what changed, provided that nobody wrote meanwhile; if
// somebody did, it starts over, so fn may run several times. sess then holds what was written. Changes of sess.Data that
// were not saved before are dropped. An error of fn ends it, and nothing is written.
//
// After many tries that others won it is ErrConflict. If no reply came and asking again does not tell, it is ErrUnknown:
// fn may have been applied once, never twice. Fields of over MaxBytes are ErrTooLarge.
func (s *Store[T]) Update(ctx context.Context, sess *Session[T], fn func(*T) error) error {
	if err := check(sess); err != nil {
		return fmt.Errorf("session: update: %w", err)
	}
	if err := s.update(ctx, sess, fn); err != nil {
		return fmt.Errorf("session: update %q: %w", s.key(sess.ID), err)
	}
	return nil
}

func (s *Store[T]) update(ctx context.Context, sess *Session[T], fn func(*T) error) error {
	for try := 1; ; try++ {
		fresh, sent := newSession[T](sess.ID, sess.Token()), s.now()
		hash, left, err := s.read(ctx, sess.ID)
		if err != nil {
			return err
		}
		if err := s.fill(fresh, hash, sent, left); err != nil {
			return err
		}
		if err := fn(&fresh.Data); err != nil {
			return err
		}
		c, err := s.changes(fresh)
		if err != nil {
			return err
		}
		if c == nil {
			err = s.save(ctx, fresh, nil)
		} else {
			err = s.indexed(ctx, fresh, c, func() error { return s.compareAndSave(ctx, fresh, c) })
		}
		if err == nil {
			*sess = *fresh
			return nil
		}
		if !errors.Is(err, ErrConflict) || try == updateTries {
			return err
		}
		if !script.Pause(ctx, rand.N(min(time.Millisecond<<try, updateBackoff))) {
			return context.Cause(ctx)
		}
	}
}

// compareAndSave writes changes of sess where its version is still the one that was read. No reply leaves open if it was
// written. Then it is sent again: who finds its own version has written, and who finds another cannot tell.
func (s *Store[T]) compareAndSave(ctx context.Context, sess *Session[T], c *changes) error {
	var unknown error
	for try := 1; try <= unknownTries; try++ {
		if unknown != nil && !script.Pause(ctx, rand.N(time.Millisecond<<try)) {
			break
		}
		sent := s.now()
		left, err := s.write(ctx, updateScript, sess.ID, sess.own.hash[fieldVersion], c)
		switch {
		case err == nil:
			sess.written(c, sent, left)
			return nil
		case script.Unknown(err):
			unknown = err
		case unknown == nil:
			return err
		case !errors.Is(err, ErrNotFound):
			return fmt.Errorf("%w: %w", ErrUnknown, unknown)
		default:
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrUnknown, unknown)
}

// Rotate replaces sess's token, which ends the old one, and writes its changed fields, in one step. It belongs where a
// user's rights grow, so that a token which leaked before is worth nothing afterwards. The ID stays, and so does the end of
// the lifetime. With [Options.Grace] the old token stays good for a while, but it cannot rotate.
//
// Of Rotates that run in parallel one wins, and the others get ErrConflict. ErrNotFound if there is no session any more.
// When no reply comes, Rotate asks which token holds, for up to five seconds even if ctx has ended, and sess has that
// token; only if no answer comes is it ErrUnknown. A session that was loaded by its ID cannot be rotated.
func (s *Store[T]) Rotate(ctx context.Context, sess *Session[T]) error {
	if err := check(sess); err != nil {
		return fmt.Errorf("session: rotate: %w", err)
	}
	if _, _, ok := splitToken(sess.Token()); !ok {
		return errors.New("session: rotate: the session was loaded by its ID, not by its token")
	}
	c, err := s.changes(sess)
	if err == nil {
		if c == nil {
			c = &changes{version: newVersion()}
		}
		err = s.stale(ctx, sess, c)
	}
	if err == nil {
		err = s.indexed(ctx, sess, c, func() error { return s.rotate(ctx, sess, c) })
	}
	if errors.Is(err, ErrUnknown) {
		sess.own.unsure = c.names()
	}
	if err != nil {
		return fmt.Errorf("session: rotate %q: %w", s.key(sess.ID), err)
	}
	return nil
}

func (s *Store[T]) rotate(ctx context.Context, sess *Session[T], c *changes) error {
	_, secret, _ := splitToken(sess.Token())
	next := newSecret()
	from, to := hashSecret(secret), hashSecret(next)
	args := append(make([]any, 0, 6+c.len()), s.idle, from.String(), to.String(), milliseconds(s.opts.Grace), c.version)
	args = c.appendTo(args)
	for try := 1; ; try++ {
		sent := s.now()
		left, err := answer(rotateScript.Int(ctx, s.client, []string{s.key(sess.ID)}, args...))
		if script.Unknown(err) {
			var hash map[string]string
			asked := script.Cleanup(ctx, func(ctx context.Context) (err error) {
				sent = s.now()
				hash, left, err = s.read(ctx, sess.ID)
				if errors.Is(err, ErrNotFound) {
					err = nil // an answer
				}
				return err
			})
			switch {
			case asked != nil:
				return fmt.Errorf("%w: %w", ErrUnknown, err)
			case hash == nil:
				return ErrNotFound
			case to.is(hash[fieldSecret]):
				err = nil
			case !from.is(hash[fieldSecret]):
				return ErrConflict
			case try < unknownTries && ctx.Err() == nil:
				continue
			}
		}
		if err != nil {
			return err
		}
		sess.written(c, sent, left)
		sess.own.hash[fieldSecret] = to.String()
		*sess.own.token = joinToken(sess.ID, next)
		return nil
	}
}

// written has sess know what it holds after its changes were written.
func (sess *Session[T]) written(c *changes, sent time.Time, left time.Duration) {
	c.apply(sess.own.hash)
	if c != nil {
		sess.own.unsure = nil // all of them were among the changes
	}
	sess.LastSeen, sess.ExpiresAt = sent, sent.Add(left)
}

// checkSize refuses fields of size bytes if that is too many.
func (s *Store[T]) checkSize(size int) error {
	if s.opts.MaxBytes >= 0 && size > s.opts.MaxBytes {
		return fmt.Errorf("%d bytes, more than %d: %w", size, s.opts.MaxBytes, ErrTooLarge)
	}
	return nil
}

// check refuses what no Store returned.
func check[T any](sess *Session[T]) error {
	if sess == nil || sess.own == nil {
		return errors.New("the session is not one that a Store returned")
	}
	return checkID(sess.ID)
}

// newVersion is random rather than counted up, so that a writer who finds its own knows that it has written.
func newVersion() string { return strconv.FormatInt(rand.Int64(), 10) }
