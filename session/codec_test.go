package session_test

import (
	"encoding"
	"errors"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/session"
)

type (
	level  int8
	flags  uint16
	secret []byte
	on     bool
	weight float32
	// color has its methods on the pointer, as many types do.
	color struct{ r, g, b byte }
)

func (c *color) MarshalText() ([]byte, error) {
	if c.r == 255 {
		return nil, errors.New("too red")
	}
	return []byte{c.r, c.g, c.b}, nil
}

func (c *color) UnmarshalText(text []byte) error {
	if len(text) != 3 {
		return errors.New("a color has three bytes, not " + string(text))
	}
	c.r, c.g, c.b = text[0], text[1], text[2]
	text[0] = 0 // which must reach nobody
	return nil
}

type Contact struct {
	Mail string `redis:"mail"`
}

type hidden struct {
	Phone string `redis:"phone,omitempty"`
}

// everything is a field of each kind that can be stored.
type everything struct {
	Contact
	hidden
	String   string         `redis:"string"`
	Bool     bool           `redis:"bool"`
	Int      int            `redis:"int"`
	Int8     int8           `redis:"int8"`
	Int64    int64          `redis:"int64"`
	Uint8    uint8          `redis:"uint8"`
	Uint64   uint64         `redis:"uint64"`
	Float32  float32        `redis:"float32"`
	Float64  float64        `redis:"float64"`
	Bytes    []byte         `redis:"bytes"`
	Time     time.Time      `redis:"time"`
	Duration time.Duration  `redis:"duration"`
	Level    level          `redis:"level"`
	Flags    flags          `redis:"flags"`
	Secret   secret         `redis:"secret"`
	On       on             `redis:"on"`
	Weight   weight         `redis:"weight"`
	Color    color          `redis:"color"`
	Addr     netip.Addr     `redis:"addr"`
	PString  *string        `redis:"pstring"`
	PInt     *int           `redis:"pint"`
	PTime    *time.Time     `redis:"ptime"`
	PColor   *color         `redis:"pcolor"`
	PBytes   *[]byte        `redis:"pbytes"`
	PAddr    *netip.Addr    `redis:"paddr,omitempty"`
	Skipped  map[string]int `redis:"-"`
}

func full() everything {
	text, n, addr, bytes := "", -7, netip.MustParseAddr("2001:db8::1"), []byte("\x00\xff")
	at := time.Date(2026, 8, 9, 12, 0, 0, 123456789, time.FixedZone("", 9*3600))
	return everything{
		Contact: Contact{Mail: "tanaka@example.org"}, hidden: hidden{Phone: "+81"}, String: "名前", Bool: true, Int: -1,
		Int8: math.MinInt8, Int64: math.MinInt64, Uint8: 255, Uint64: math.MaxUint64, Float32: 0.1, Float64: math.SmallestNonzeroFloat64,
		Bytes: []byte{0, 1, 255}, Time: at, Duration: -time.Nanosecond, Level: -5, Flags: 65535, Secret: secret("s"), On: true,
		Weight: 1.5, Color: color{1, 2, 3}, Addr: addr, PString: &text, PInt: &n, PTime: &at, PColor: &color{4, 5, 6}, PBytes: &bytes, PAddr: &addr,
	}
}

func TestEveryKindOfField(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		store := newStore[everything](t, s.Client(t), nil)
		for name, data := range map[string]everything{"full": full(), "zero": {}} {
			sess := create(t, store, data)
			loaded, err := store.Load(ctx, sess.Token())
			require.NoError(t, err, name)
			requireSame(t, data, loaded.Data)
			version := s.Client(t).HGet(ctx, "session:"+sess.ID, "_v").Val()
			require.NoError(t, store.Save(ctx, loaded))
			require.Equal(t, version, s.Client(t).HGet(ctx, "session:"+sess.ID, "_v").Val(), "%s: nothing changed", name)
		}
	})
}

// requireSame compares times as moments, as their zone's name is not stored.
func requireSame(t *testing.T, want, got everything) {
	t.Helper()
	require.True(t, want.Time.Equal(got.Time), "%v is not %v", got.Time, want.Time)
	require.Equal(t, want.PTime == nil, got.PTime == nil)
	if want.PTime != nil {
		require.True(t, want.PTime.Equal(*got.PTime), "%v is not %v", got.PTime, want.PTime)
	}
	want.Time, want.PTime, got.Time, got.PTime = time.Time{}, nil, time.Time{}, nil
	require.Equal(t, want, got)
}

// What go-redis can write and scan is stored as go-redis does it.
func TestWireFormatIsGoRedis(t *testing.T) {
	t.Parallel()
	type plain struct {
		String   string        `redis:"string"`
		Bool     bool          `redis:"bool"`
		Int      int64         `redis:"int"`
		Uint     uint64        `redis:"uint"`
		Float32  float32       `redis:"float32"`
		Float64  float64       `redis:"float64"`
		Bytes    []byte        `redis:"bytes"`
		Time     time.Time     `redis:"time"`
		Duration time.Duration `redis:"duration"`
	}
	c := redistest.Mini(t).Client(t)
	for _, data := range []plain{
		{},
		{"x", true, -1, 1, 0.1, 1e300, []byte("\x00"), time.Date(2026, 8, 9, 12, 0, 0, 5, time.FixedZone("", 3600)), time.Hour},
		{Float32: math.MaxFloat32, Float64: math.Inf(-1), Time: time.Unix(1<<33, 1)},
	} {
		require.NoError(t, c.Del(ctx, "h").Err())
		require.NoError(t, c.HSet(ctx, "h", data).Err())
		hash, err := session.Encode(data)
		require.NoError(t, err)
		require.Equal(t, c.HGetAll(ctx, "h").Val(), hash)
		var scanned plain
		require.NoError(t, c.HGetAll(ctx, "h").Scan(&scanned))
		decoded, err := session.Decode[plain](hash)
		require.NoError(t, err)
		if data.Bytes == nil {
			scanned.Bytes = nil // go-redis reads an empty one
		}
		require.Equal(t, scanned, decoded)
	}
}

type onlyMarshal struct{ _ int }

func (onlyMarshal) MarshalText() ([]byte, error) { return nil, nil }

func TestUnusableDataIsRefused(t *testing.T) {
	t.Parallel()
	c := redistest.Mini(t).Client(t)
	for want, err := range map[string]error{
		"session: new: int is not a struct":                errorOf(session.New[int](c, nil)),
		"session: new: *session_test.user is not a struct": errorOf(session.New[*user](c, nil)),
		"A: []string cannot be stored in a hash field; give it MarshalText and UnmarshalText": errorOf(session.New[struct {
			A []string `redis:"a"`
		}](c, nil)),
		"B: map[string]string cannot be stored": errorOf(session.New[struct {
			B map[string]string `redis:"b"`
		}](c, nil)),
		"C: session_test.user cannot be stored": errorOf(session.New[struct {
			C user `redis:"c"`
		}](c, nil)),
		"D: a pointer to a pointer cannot be stored": errorOf(session.New[struct {
			D **int `redis:"d"`
		}](c, nil)),
		"E: an interface cannot be stored": errorOf(session.New[struct {
			E encoding.TextMarshaler `redis:"e"`
		}](c, nil)),
		"F: session_test.onlyMarshal has only one of MarshalText and UnmarshalText": errorOf(session.New[struct {
			F onlyMarshal `redis:"f"`
		}](c, nil)),
		"G: it has no name in a `redis` tag; leave it out with `redis:\"-\"`": errorOf(session.New[struct{ G int }](c, nil)),
		"H: it has no name in a `redis` tag": errorOf(session.New[struct {
			H int `redis:",omitempty"`
		}](c, nil)),
		"I: names that begin with _ belong to the library": errorOf(session.New[struct {
			I int `redis:"_v"`
		}](c, nil)),
		`J: unknown option "string" in its tag`: errorOf(session.New[struct {
			J int `redis:"j,string"`
		}](c, nil)),
		`K: it is not exported`: errorOf(session.New[struct {
			K Contact `redis:"-"`
			k int     `redis:"k"`
		}](c, nil)),
		"user: it has no name in a `redis` tag":              errorOf(session.New[struct{ *user }](c, nil)),
		`two fields of session_test.twice are tagged "mail"`: errorOf(session.New[twice](c, nil)),
		"L: chan int cannot be stored": errorOf(session.New[struct {
			L chan int `redis:"l"`
		}](c, nil)),
		"M: complex64 cannot be stored": errorOf(session.New[struct {
			M complex64 `redis:"m"`
		}](c, nil)),
		"struct { time.Time }.Time: it has no name in a `redis` tag": errorOf(session.New[struct{ time.Time }](c, nil)),
		"O: the zero session_test.borrowed cannot be stored: its MarshalText panics": errorOf(session.New[struct {
			O borrowed `redis:"o"`
		}](c, nil)),
		"P: the zero session_test.borrowed cannot be stored": errorOf(session.New[struct {
			P *borrowed `redis:"p"`
		}](c, nil)),
		"N: uintptr cannot be stored": errorOf(session.New[struct {
			N uintptr `redis:"n"`
		}](c, nil)),
	} {
		if want == "K: it is not exported" {
			want = "k: it is not exported"
		}
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "session: new: ")
	}
}

// borrowed has its methods from a pointer that is nil in the zero value.
type borrowed struct{ *time.Time }

// touchy panics where it may not.
type touchy struct{ text string }

func (t *touchy) MarshalText() ([]byte, error) {
	if t.text == "confidential" {
		panic(t.text)
	}
	return []byte(t.text), nil
}

func (t *touchy) UnmarshalText(text []byte) error {
	if string(text) == "confidential" {
		panic(t.text)
	}
	t.text = string(text)
	return nil
}

func TestPanicsOfTheDataAreErrors(t *testing.T) {
	t.Parallel()
	type data struct {
		Touchy touchy `redis:"touchy"`
	}
	c := redistest.Mini(t).Client(t)
	store := newStore[data](t, c, nil)
	_, err := store.Create(ctx, data{touchy{"confidential"}})
	require.EqualError(t, err, `session: create: field "touchy": a text method of it panics`)
	sess := create(t, store, data{touchy{"harmless"}})
	require.NoError(t, c.HSet(ctx, "session:"+sess.ID, "touchy", "confidential").Err())
	_, err = store.Load(ctx, sess.Token())
	require.ErrorContains(t, err, `field "touchy" does not hold a session_test.touchy`)
	require.NotContains(t, err.Error(), "confidential")
}

type twice struct {
	Contact
	Address string `redis:"mail"`
}

func errorOf[T any](_ *session.Store[T], err error) error { return err }

func TestValueThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	c := redistest.Mini(t).Client(t)
	store := newStore[everything](t, c, nil)
	sess := create(t, store, full())
	n := redistest.Count(c)
	_, err := store.Create(ctx, everything{Color: color{r: 255}})
	require.EqualError(t, err, `session: create: field "color": too red`)
	sess.Data.PColor.r = 255
	require.ErrorContains(t, store.Save(ctx, sess), `field "pcolor": too red`)
	sess.Data.Time = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	require.ErrorContains(t, store.Save(ctx, sess), `field "time": `)
	require.Zero(t, n.Trips())
}

func TestDecodingErrorsHideTheValue(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"bool": "confidential", "int8": "128", "uint8": "-1", "float64": "confidential", "time": "confidential", "color": "confidential",
		"addr": "confidential", "pint": "confidential", "pcolor": "confidential", "duration": "5s", "level": "-129",
	} {
		_, err := session.Decode[everything](map[string]string{name: text})
		require.ErrorContains(t, err, `field "`+name+`" does not hold a `)
		require.NotContains(t, err.Error(), text)
	}
}

// A zone of before the standard times, whose offset has seconds, which RFC 3339 cannot say.
func TestTimeWithSecondsInItsOffset(t *testing.T) {
	t.Parallel()
	type data struct {
		At time.Time `redis:"at"`
	}
	at := time.Date(1900, 1, 1, 0, 0, 0, 0, time.FixedZone("LMT", 3208))
	hash, err := session.Encode(data{at})
	require.NoError(t, err)
	got, err := session.Decode[data](hash)
	require.NoError(t, err)
	require.True(t, at.Equal(got.At), "%v is not %v", got.At, at)
}

func FuzzCodecRoundTrip(f *testing.F) {
	f.Add("text", true, int64(-1), uint64(1), 0.1, []byte("x"), int64(0), int32(0), false)
	f.Add("\x00\xff", false, int64(math.MinInt64), uint64(math.MaxUint64), math.Inf(1), []byte{}, int64(1<<62), int32(3601), true)
	f.Fuzz(func(t *testing.T, s string, b bool, i int64, u uint64, fl float64, bytes []byte, sec int64, offset int32, null bool) {
		if math.IsNaN(fl) {
			fl = 0 // which equals nothing, itself included
		}
		at := time.Unix(sec%200_000_000_000, i%1e9).In(time.FixedZone("z", int(offset)%86_000))
		if len(bytes) == 0 {
			bytes = nil // an empty one and none are the same text
		}
		n := int(i)
		data := everything{
			Contact: Contact{Mail: s}, hidden: hidden{Phone: s}, String: s, Bool: b, Int: n, Int8: int8(i), Int64: i, Uint8: uint8(u),
			Uint64: u, Float32: float32(fl), Float64: fl, Bytes: bytes, Time: at, Duration: time.Duration(i), Level: level(i),
			Flags: flags(u), Secret: secret(bytes), On: on(b), Weight: weight(fl), Color: color{byte(i) / 2, 0, byte(u)},
		}
		if !null {
			data.PString, data.PInt, data.PTime, data.PBytes, data.PColor = &s, &n, &at, &bytes, &color{1, byte(i), byte(u)}
		}
		hash, err := session.Encode(data)
		if err != nil {
			require.Contains(t, err.Error(), "time", "only a time may be out of range")
			return
		}
		got, err := session.Decode[everything](hash)
		require.NoError(t, err)
		requireSame(t, data, got)
		again, err := session.Encode(got)
		require.NoError(t, err)
		require.Equal(t, hash, again)
	})
}

func FuzzCodecArbitraryHash(f *testing.F) {
	f.Add("time", "2026-08-09T12:00:00Z", "color", "abc")
	f.Add("int", "1e3", "pbytes", "")
	f.Fuzz(func(t *testing.T, name, text, name2, text2 string) {
		data, err := session.Decode[everything](map[string]string{name: text, name2: text2})
		if err == nil {
			_, err = session.Encode(data)
			if err != nil {
				require.ErrorContains(t, err, "too red")
			}
			return
		}
		require.ErrorContains(t, err, "does not hold a ")
	})
}
