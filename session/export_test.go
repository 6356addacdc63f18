package session

import (
	"reflect"
	"time"
)

// SetClock gives a store the clock of a process whose time is off.
func (s *Store[T]) SetClock(now func() time.Time) { s.now = now }

// Encode is data as a hash.
func Encode[T any](data T) (map[string]string, error) {
	p, err := newPlan(reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	hash := map[string]string{}
	for i := range p {
		text, ok, err := p[i].encode(reflect.ValueOf(&data).Elem())
		if err != nil {
			return nil, err
		}
		if ok {
			hash[p[i].name] = text
		}
	}
	return hash, nil
}

// Decode is the T in a hash.
func Decode[T any](hash map[string]string) (data T, err error) {
	p, err := newPlan(reflect.TypeFor[T]())
	if err != nil {
		return data, err
	}
	return data, p.decode(reflect.ValueOf(&data).Elem(), hash)
}
