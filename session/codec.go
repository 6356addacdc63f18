package session

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// maxFields keeps a session within what one script call can write. A hash of so many fields is slow long before.
const maxFields = 512

// plan is how the fields of a T lie in a hash: go-redis' wire format, but for named types and embedded structs too, and
// decided once rather than at each call.
type plan []field

type field struct {
	name      string
	index     []int // as in reflect.Value.FieldByIndex
	typ       string
	omitEmpty bool
	codec     codec
	method    bool // it writes itself by a method of its type
}

// codec turns a value into text and back. The value that decode gets is the zero one.
type codec struct {
	encode func(reflect.Value) (string, error)
	decode func(reflect.Value, string) error
}

// newPlan is the plan of a struct type, or what is wrong with it, naming the field.
func newPlan(t reflect.Type) (plan, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%v is not a struct", t)
	}
	var p plan
	if err := p.add(t, nil); err != nil {
		return nil, err
	}
	if len(p) > maxFields {
		return nil, fmt.Errorf("%v has %d fields, more than %d", t, len(p), maxFields)
	}
	seen := map[string]bool{}
	for _, f := range p {
		if seen[f.name] {
			return nil, fmt.Errorf("two fields of %v are tagged %q", t, f.name)
		}
		seen[f.name] = true
	}
	return p, nil
}

const noName = "it has no name in a `redis` tag; leave it out with `redis:\"-\"`"

func (p *plan) add(t reflect.Type, prefix []int) error {
	for i := range t.NumField() {
		sf := t.Field(i)
		index := append(prefix[:len(prefix):len(prefix)], i)
		tag, tagged := sf.Tag.Lookup("redis")
		name, options, _ := strings.Cut(tag, ",")
		fail := func(reason string) error { return fmt.Errorf("field %v.%s: %s", t, sf.Name, reason) }
		switch {
		case tag == "-":
			continue
		case !tagged && sf.Anonymous && sf.Type.Kind() == reflect.Struct:
			err := p.add(sf.Type, index)
			if err == nil {
				continue
			}
			if !reflect.PointerTo(sf.Type).Implements(unmarshalerType) {
				return err
			}
			return fail(noName) // a value of one piece, as time.Time is: what it has inside is not the caller's
		case !tagged || name == "":
			return fail(noName)
		case !sf.IsExported():
			return fail("it is not exported; leave it out with `redis:\"-\"`")
		case strings.HasPrefix(name, "_"):
			return fail("names that begin with _ belong to the library")
		case options != "" && options != "omitempty":
			return fail(fmt.Sprintf("unknown option %q in its tag", options))
		}
		c, err := codecOf(sf.Type)
		if err != nil {
			return fail(err.Error())
		}
		*p = append(*p, field{
			name: name, index: index, typ: sf.Type.String(), omitEmpty: options == "omitempty", codec: c,
			method: sf.Type.Implements(marshalerType) || reflect.PointerTo(sf.Type).Implements(marshalerType),
		})
	}
	return nil
}

// encode is the text of a field of data, a T; ok is false where the field has no place in the hash: a nil pointer, or an
// empty value that omitempty leaves out.
func (f *field) encode(data reflect.Value) (text string, ok bool, err error) {
	v := data.FieldByIndex(f.index)
	if f.omitEmpty && v.IsZero() || v.Kind() == reflect.Pointer && v.IsNil() {
		return "", false, nil
	}
	text, err = f.codec.encode(v)
	if err != nil {
		return "", false, fmt.Errorf("field %q: %w", f.name, err)
	}
	return text, true, nil
}

// decode sets a field of data, a T in which it is zero. Its error names the field and never shows the value.
func (f *field) decode(data reflect.Value, text string) error {
	if f.codec.decode(data.FieldByIndex(f.index), text) != nil {
		return fmt.Errorf("field %q does not hold a %s", f.name, f.typ)
	}
	return nil
}

// decode fills data, a zero T, from a hash. Fields that the hash lacks stay zero; what T does not know is ignored.
func (p plan) decode(data reflect.Value, hash map[string]string) error {
	for i := range p {
		if text, ok := hash[p[i].name]; ok {
			if err := p[i].decode(data, text); err != nil {
				return err
			}
		}
	}
	return nil
}

var (
	timeType        = reflect.TypeFor[time.Time]()
	marshalerType   = reflect.TypeFor[encoding.TextMarshaler]()
	unmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func codecOf(t reflect.Type) (codec, error) {
	if t.Kind() != reflect.Pointer {
		return valueCodec(t)
	}
	elem := t.Elem()
	if elem.Kind() == reflect.Pointer {
		return codec{}, errors.New("a pointer to a pointer cannot be stored")
	}
	c, err := valueCodec(elem)
	return codec{
		encode: func(v reflect.Value) (string, error) { return c.encode(v.Elem()) },
		decode: func(v reflect.Value, text string) error {
			v.Set(reflect.New(elem))
			return c.decode(v.Elem(), text)
		},
	}, err
}

func valueCodec(t reflect.Type) (codec, error) {
	pointer := reflect.PointerTo(t) // whose methods are also those of t
	marshals, unmarshals := pointer.Implements(marshalerType), pointer.Implements(unmarshalerType)
	switch {
	case t == timeType:
		return codec{encodeTime, decodeText}, nil
	case t.Kind() == reflect.Interface:
		return codec{}, errors.New("an interface cannot be stored: what to make of its text is unknown")
	case marshals && unmarshals:
		if _, err := encodeText(reflect.New(t).Elem()); errors.Is(err, errPanic) {
			return codec{}, fmt.Errorf("the zero %v cannot be stored: its MarshalText panics", t)
		}
		return codec{encodeText, decodeText}, nil
	case marshals || unmarshals:
		return codec{}, fmt.Errorf("%v has only one of MarshalText and UnmarshalText", t)
	}
	switch t.Kind() {
	case reflect.String:
		return codec{encodeString, decodeString}, nil
	case reflect.Bool:
		return codec{encodeBool, decodeBool}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return codec{encodeInt, decodeInt}, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return codec{encodeUint, decodeUint}, nil
	case reflect.Float32, reflect.Float64:
		return codec{encodeFloat, decodeFloat}, nil
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return codec{encodeBytes, decodeBytes}, nil
		}
	}
	return codec{}, fmt.Errorf("%v cannot be stored in a hash field; give it MarshalText and UnmarshalText", t)
}

func encodeString(v reflect.Value) (string, error) { return v.String(), nil }

func decodeString(v reflect.Value, text string) error {
	v.SetString(text)
	return nil
}

func encodeBool(v reflect.Value) (string, error) {
	if v.Bool() {
		return "1", nil
	}
	return "0", nil
}

func decodeBool(v reflect.Value, text string) error {
	b, err := strconv.ParseBool(text)
	v.SetBool(b)
	return err
}

func encodeInt(v reflect.Value) (string, error) { return strconv.FormatInt(v.Int(), 10), nil }

func decodeInt(v reflect.Value, text string) error {
	n, err := strconv.ParseInt(text, 10, v.Type().Bits())
	v.SetInt(n)
	return err
}

func encodeUint(v reflect.Value) (string, error) { return strconv.FormatUint(v.Uint(), 10), nil }

func decodeUint(v reflect.Value, text string) error {
	n, err := strconv.ParseUint(text, 10, v.Type().Bits())
	v.SetUint(n)
	return err
}

// encodeFloat writes a float32 as the float64 that it is, as go-redis does.
func encodeFloat(v reflect.Value) (string, error) {
	return strconv.FormatFloat(v.Float(), 'f', -1, 64), nil
}

func decodeFloat(v reflect.Value, text string) error {
	f, err := strconv.ParseFloat(text, v.Type().Bits())
	v.SetFloat(f)
	return err
}

func encodeBytes(v reflect.Value) (string, error) { return string(v.Bytes()), nil }

func decodeBytes(v reflect.Value, text string) error {
	if text != "" {
		v.SetBytes([]byte(text))
	}
	return nil
}

// encodeTime writes RFC 3339 with nanoseconds. That has no seconds in its offset, which some zones of old have.
func encodeTime(v reflect.Value) (string, error) {
	t := *v.Addr().Interface().(*time.Time)
	if _, offset := t.Zone(); offset%60 != 0 {
		t = t.UTC()
	}
	text, err := t.MarshalText()
	return string(text), err
}

var errPanic = errors.New("a text method of it panics")

// noPanic makes a panic of MarshalText or UnmarshalText an error, as where a type has them from an embedded nil pointer.
// What the panic says is left out: it may show the value.
func noPanic(err *error) {
	if recover() != nil {
		*err = errPanic
	}
}

func encodeText(v reflect.Value) (_ string, err error) {
	defer noPanic(&err)
	text, err := v.Addr().Interface().(encoding.TextMarshaler).MarshalText()
	return string(text), err
}

func decodeText(v reflect.Value, text string) (err error) {
	defer noPanic(&err)
	return v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
}
