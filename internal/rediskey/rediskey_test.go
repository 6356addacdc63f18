package rediskey_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/rediskey"
	"github.com/redispatterns/redispatterns/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestSlotIsTheServers(t *testing.T) {
	t.Parallel()
	c := redistest.OneNode(t).Client(t)
	for _, key := range []string{
		"foo", "lock:order:12345", "{user42}.following", "a{b", "a}b", "{}a", "x{}{y}", "{{t}}", "", "ü{ß}", "\x00{\r\n}", "{a}{b}",
		strings.Repeat("k", 10_000),
	} {
		slot, err := c.ClusterKeySlot(context.Background(), key).Result()
		require.NoError(t, err)
		require.Equal(t, int(slot), rediskey.Slot(key), "slot of %q", key)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"lock:order:12345", "lock:{x}:1", "a{b", "{t}", "a~", "~", "a~B", "a~m ", "user~name@example.org", "a{t}b}c",
	} {
		require.NoError(t, rediskey.Check(good), good)
	}
	for _, bad := range []string{"", "a}b", "{}a", "{}x{y}", "a}{", "a~m", "{a}~m", "a~o1", "a~s{x}", "a~d:2026-11-29"} {
		require.ErrorIs(t, rediskey.Check(bad), rediskey.ErrName, bad)
	}
}

func TestCompanion(t *testing.T) {
	t.Parallel()
	require.Equal(t, "{lock:order:12345}~m", rediskey.Companion("lock:order:12345", "~m"))
	require.Equal(t, "lock:{a}:1~m", rediskey.Companion("lock:{a}:1", "~m"))
	require.Equal(t, "{a{b}~m", rediskey.Companion("a{b", "~m"))
}
