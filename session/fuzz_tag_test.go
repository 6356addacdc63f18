package session

import (
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
)

// A tag is refused, or a field that keeps its value, under a name that is not the library's.
func FuzzTag(f *testing.F) {
	for _, text := range append(redistest.Hostile(), "name,omitempty", "_v", "-", "-,", ",omitempty", "a,b,c") {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, tag string) {
		typ := reflect.StructOf([]reflect.StructField{
			{Name: "A", Type: reflect.TypeFor[string](), Tag: reflect.StructTag("redis:" + strconv.Quote(tag))},
		})
		p, err := newPlan(typ)
		if err != nil || len(p) == 0 {
			return
		}
		require.False(t, strings.HasPrefix(p[0].name, "_"))
		require.NotEmpty(t, p[0].name)
		value := reflect.New(typ).Elem()
		value.Field(0).SetString(tag)
		text, ok, err := p[0].encode(value)
		require.NoError(t, err)
		require.True(t, ok || tag == "")
		again := reflect.New(typ).Elem()
		require.NoError(t, p.decode(again, map[string]string{p[0].name: text}))
		require.Equal(t, tag, again.Field(0).String())
	})
}
