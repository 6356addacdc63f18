package session

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/script"
)

//go:embed create.lua
var createSource string

//go:embed load.lua
var loadSource string

//go:embed save.lua
var saveSource string

//go:embed rotate.lua
var rotateSource string

//go:embed destroy.lua
var destroySource string

var (
	createScript  = script.New(createSource).Once()
	loadScript    = script.New(loadSource)
	saveScript    = script.New(saveSource)
	updateScript  = saveScript.Once()
	rotateScript  = script.New(rotateSource).Once()
	destroyScript = script.New(destroySource)
)

// The library's own fields in a session's hash.
const (
	fieldVersion = "_v" // a random number, of the last writer; that it is there makes a hash a session
	fieldSecret  = "_t" // the hash of the token's secret
	fieldBefore  = "_p" // the hash of the secret before the last Rotate, and in _g until when that is good, in ms
	fieldCreated = "_c" // when it was created, in ms
	fieldEnds    = "_x" // the end of its lifetime, in ms; absent where that has no bound
	fieldSeen    = "_s" // its last use, in ms: there only once the end of the lifetime bounds the TTL, so that renewing is over
)

// Store keeps sessions whose data is a T: a struct whose fields carry `redis:"name"` tags. Safe for concurrent use.
type Store[T any] struct {
	client redispatterns.Client
	opts   Options
	plan   plan
	idle   string // IdleTimeout in ms, as scripts take it
	nobody string // what the user field holds where the session is nobody's
	now    func() time.Time
}

// New makes a Store. It sends nothing to Redis.
//
// Every field of T needs a tag, `redis:"name"`, or `redis:"-"` to be left out; names that begin with _ are the library's.
// With `redis:"name,omitempty"` an empty value is left out of the hash. Fields may be strings, booleans, integers, floats,
// []byte, time.Time and time.Duration, types made of these, types with MarshalText and UnmarshalText, and pointers to all
// of them, of which a nil one is absent from the hash; the fields of embedded structs count as T's own. They are stored as
// go-redis stores them, so that HGetAll(…).Scan reads them. A T that cannot be stored is an error that names the field.
func New[T any](client redispatterns.Client, opts *Options) (*Store[T], error) {
	if client == nil {
		return nil, errors.New("session: new: the client is nil")
	}
	o, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("session: new: %w", err)
	}
	p, err := newPlan(reflect.TypeFor[T]())
	if err != nil {
		return nil, fmt.Errorf("session: new: %w", err)
	}
	s := &Store[T]{client: client, opts: o, plan: p, idle: milliseconds(o.IdleTimeout), now: time.Now}
	if o.UserField != "" {
		if s.nobody, err = nobodyOf[T](p, o.UserField); err != nil {
			return nil, fmt.Errorf("session: new: %w", err)
		}
	}
	return s, nil
}

// Load returns the session of a token, and renews its idle time if that is due. It is what each request calls. Every token
// that Create did not make, however odd, is ErrNotFound.
func (s *Store[T]) Load(ctx context.Context, token string) (*Session[T], error) {
	id, secret, ok := splitToken(token)
	if !ok {
		return nil, fmt.Errorf("session: load: %w", ErrNotFound)
	}
	sess := newSession[T](id, token)
	if err := s.load(ctx, sess, hashSecret(secret)); err != nil {
		return nil, fmt.Errorf("session: load %q: %w", s.key(id), err)
	}
	return sess, nil
}

func (s *Store[T]) load(ctx context.Context, sess *Session[T], secret secretHash) error {
	// Where each renewal must renew the index too, that comes first, and takes knowing whose the session is.
	if s.opts.TouchEvery < 0 && (s.opts.UserField == "" || s.opts.Lifetime > 0) {
		return s.loadAndTouch(ctx, sess, secret)
	}
	sent := s.now()
	hash, left, err := s.read(ctx, sess.ID)
	if err != nil {
		return err
	}
	if !secret.is(hash[fieldSecret]) {
		if secret.is(hash[fieldBefore]) {
			return s.loadAndTouch(ctx, sess, secret) // Redis knows if it is still good
		}
		return ErrNotFound
	}
	if err := s.fill(sess, hash, sent, left); err != nil {
		return err
	}
	// Once the end of its lifetime bounds the TTL of a session, renewing it is over. A TTL that is gone is put back.
	if left <= s.opts.IdleTimeout-s.opts.TouchEvery && hash[fieldSeen] == "" || left < 0 {
		return s.save(ctx, sess, nil)
	}
	return nil
}

// loadAndTouch is a read that renews, in one round trip. It takes the secret before a Rotate too, while that is good.
func (s *Store[T]) loadAndTouch(ctx context.Context, sess *Session[T], secret secretHash) error {
	sent := s.now()
	reply, err := loadScript.Strings(ctx, s.client, script.AnyLength, []string{s.key(sess.ID)}, s.idle, secret.String())
	if err != nil {
		return err
	}
	if len(reply) == 0 {
		return ErrNotFound
	}
	last := len(reply) - 1
	left, err := strconv.ParseInt(reply[last], 10, 64)
	if err != nil || last%2 != 0 {
		return fmt.Errorf("script answered %d values of an unknown form", len(reply))
	}
	hash := make(map[string]string, last/2)
	for i := 0; i < last; i += 2 {
		hash[reply[i]] = reply[i+1]
	}
	if err := s.fill(sess, hash, sent, time.Duration(left)*time.Millisecond); err != nil {
		return err
	}
	return s.indexed(ctx, sess, nil, func() error { return nil })
}

// ByID returns a session by its ID, for administration: it asks for no secret, and renews nothing. The session has no Token.
func (s *Store[T]) ByID(ctx context.Context, id string) (*Session[T], error) {
	if err := checkID(id); err != nil {
		return nil, fmt.Errorf("session: by ID: %w", err)
	}
	sess, sent := newSession[T](id, ""), s.now()
	hash, left, err := s.read(ctx, id)
	if err == nil {
		err = s.fill(sess, hash, sent, left)
	}
	if err != nil {
		return nil, fmt.Errorf("session: by ID %q: %w", s.key(id), err)
	}
	return sess, nil
}

// Touch renews a session's idle time, as its use does: for a connection that stays open without requests. ErrNotFound if
// there is no such session.
func (s *Store[T]) Touch(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return fmt.Errorf("session: touch: %w", err)
	}
	if err := s.touch(ctx, id); err != nil {
		return fmt.Errorf("session: touch %q: %w", s.key(id), err)
	}
	return nil
}

func (s *Store[T]) touch(ctx context.Context, id string) error {
	if err := s.reenter(ctx, id, ""); err != nil {
		return err
	}
	_, err := s.write(ctx, saveScript, id, "", nil)
	return err
}

// Destroy ends a session: the logout. That there is none is no error; only what cannot be an ID, a token say, is ErrNotFound.
func (s *Store[T]) Destroy(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return fmt.Errorf("session: destroy: %w", err)
	}
	_, user, err := s.destroy(ctx, id, "")
	if err != nil {
		return fmt.Errorf("session: destroy %q: %w", s.key(id), err)
	}
	if user != "" && user != s.nobody {
		s.leave(ctx, user, 0, entry{id: id})
	}
	return nil
}

func (s *Store[T]) key(id string) string { return s.opts.Prefix + id }

// read asks for a session's hash and for what it has left, in one round trip.
func (s *Store[T]) read(ctx context.Context, id string) (map[string]string, time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	f := s.find(ctx, id)
	if err := s.together(ctx, f.all, f.ttl); err != nil {
		return nil, 0, err
	}
	if !f.exists() {
		return nil, 0, ErrNotFound
	}
	return f.hash(), f.left(), nil
}

// together sends two reads of one session in one round trip, on an AutoPipeliner in any order.
func (s *Store[T]) together(ctx context.Context, first, second redis.Cmder) error {
	ap, ok := s.client.(*redis.AutoPipeliner)
	if !ok {
		_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			_ = p.Process(ctx, first)
			_ = p.Process(ctx, second)
			return nil
		})
		return err
	}
	// It merges commands of many goroutines, and would send a pipeline by itself.
	var wg sync.WaitGroup
	if ap.IsBlocking() {
		wg.Go(func() { _ = ap.Process(ctx, second) })
	} else {
		_ = ap.Process(ctx, second)
	}
	_ = ap.Process(ctx, first)
	wg.Wait()
	if err := first.Err(); err != nil {
		return err
	}
	return second.Err()
}

// readAll is read of several sessions in one round trip, or one to each node.
func (s *Store[T]) readAll(ctx context.Context, entries []entry) ([]found, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	all := make([]found, len(entries))
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, e := range entries {
			all[i] = s.find(ctx, e.id)
			_ = p.Process(ctx, all[i].all)
			_ = p.Process(ctx, all[i].ttl)
		}
		return nil
	})
	return all, err
}

// found is what is asked of a session and, after that, what the answer was.
type found struct {
	all *redis.MapStringStringCmd
	ttl *redis.IntCmd
}

func (s *Store[T]) find(ctx context.Context, id string) found {
	var key any = s.key(id) // boxed once
	return found{redis.NewMapStringStringCmd(ctx, "hgetall", key), redis.NewIntCmd(ctx, "pttl", key)}
}

// exists says whether it is a session, and did not end between the two commands.
func (f found) exists() bool { return f.all.Val()[fieldVersion] != "" && f.ttl.Val() != -2 }

func (f found) hash() map[string]string { return f.all.Val() }

func (f found) left() time.Duration { return time.Duration(f.ttl.Val()) * time.Millisecond }

// fill makes sess what Redis holds. left was right at some time after sent.
func (s *Store[T]) fill(sess *Session[T], hash map[string]string, sent time.Time, left time.Duration) error {
	sess.own.hash = hash
	if err := s.plan.decode(reflect.ValueOf(&sess.Data).Elem(), hash); err != nil {
		return err
	}
	sess.CreatedAt = timeOf(hash, fieldCreated)
	sess.ExpiresAt = sent.Add(left)
	unused := s.opts.IdleTimeout - left
	if hash[fieldSeen] != "" {
		unused = timeOf(hash, fieldEnds).Add(-left).Sub(timeOf(hash, fieldSeen))
	}
	sess.LastSeen = sent.Add(-max(unused, 0))
	return nil
}

func checkID(id string) error {
	if !isID(id) {
		return fmt.Errorf("malformed ID: %w", ErrNotFound)
	}
	return nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// timeOf is a time among the library's own fields, the zero one if it is not there.
func timeOf(hash map[string]string, name string) time.Time {
	ms, err := strconv.ParseInt(hash[name], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
