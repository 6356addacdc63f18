package session

import (
	"reflect"
	"slices"
)

// changes of a session's hash. A nil *changes is none.
type changes struct {
	version string
	set     []string // name, value, name, value
	delete  []string
}

// changes are those that were made to sess.Data since its hash was read or written, nil if there are none. A field whose
// last write failed counts as changed, or the way back to its old value would be lost.
func (s *Store[T]) changes(sess *Session[T]) (*changes, error) {
	var c changes
	size := 0
	data := reflect.ValueOf(&sess.Data).Elem()
	for i := range s.plan {
		f := &s.plan[i]
		text, ok, err := f.encode(data)
		if err != nil {
			return nil, err
		}
		if ok {
			size += len(f.name) + len(text)
		}
		stored, was := sess.own.hash[f.name]
		if !slices.Contains(sess.own.unsure, f.name) {
			if ok == was && text == stored {
				continue
			}
			// Another writer may have put the same value otherwise ("true" for 1), or left a field out that is zero.
			if s.same(f, text, ok, stored, was) {
				continue
			}
		}
		if ok {
			c.set = append(c.set, f.name, text)
		} else {
			c.delete = append(c.delete, f.name)
		}
	}
	if len(c.set)+len(c.delete) == 0 {
		return nil, nil
	}
	c.version = newVersion()
	return &c, s.checkSize(size)
}

// same says whether text, or nothing, is what this store would have written where it read stored, or nothing. What a type
// writes by a method of its own need not be the same text twice; that counts as the same where it reads the same.
func (s *Store[T]) same(f *field, text string, ok bool, stored string, was bool) bool {
	before, err := s.decoded(f, stored, was)
	if err != nil {
		return false
	}
	again, present, err := f.encode(before)
	if err != nil || present != ok {
		return false
	}
	if again == text || !ok || !f.method {
		return again == text
	}
	now, err := s.decoded(f, text, ok)
	return err == nil && reflect.DeepEqual(before.FieldByIndex(f.index).Interface(), now.FieldByIndex(f.index).Interface())
}

// decoded is a T with a field as text has it.
func (s *Store[T]) decoded(f *field, text string, ok bool) (reflect.Value, error) {
	v := reflect.ValueOf(new(T)).Elem()
	if !ok {
		return v, nil
	}
	return v, f.decode(v, text)
}

func (c *changes) len() int {
	if c == nil {
		return 0
	}
	return len(c.set) + len(c.delete)
}

// value is what a field is changed to, "" where it is deleted; ok is false where it is not changed.
func (c *changes) value(name string) (value string, ok bool) {
	if c == nil {
		return "", false
	}
	for i := 0; i < len(c.set); i += 2 {
		if c.set[i] == name {
			return c.set[i+1], true
		}
	}
	return "", slices.Contains(c.delete, name)
}

// appendTo appends the fields as scripts take them: how many to delete, which, and what to set.
func (c *changes) appendTo(args []any) []any {
	if c == nil {
		return append(args, 0)
	}
	args = append(args, len(c.delete))
	for _, name := range c.delete {
		args = append(args, name)
	}
	for _, s := range c.set {
		args = append(args, s)
	}
	return args
}

// names are the fields that are changed.
func (c *changes) names() []string {
	if c == nil {
		return nil
	}
	names := slices.Clone(c.delete)
	for i := 0; i < len(c.set); i += 2 {
		names = append(names, c.set[i])
	}
	return names
}

// apply does to hash what was done in Redis.
func (c *changes) apply(hash map[string]string) {
	if c == nil {
		return
	}
	hash[fieldVersion] = c.version
	for _, name := range c.delete {
		delete(hash, name)
	}
	for i := 0; i < len(c.set); i += 2 {
		hash[c.set[i]] = c.set[i+1]
	}
}
