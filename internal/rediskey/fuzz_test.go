package rediskey_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/rediskey"
	"github.com/redispatterns/redispatterns/internal/redistest"
)

func FuzzCompanion(f *testing.F) {
	for _, key := range append(redistest.Hostile(), "lock:order:12345", "lock:{x}:1") {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		slot := rediskey.Slot(key)
		require.True(t, 0 <= slot && slot < rediskey.Slots)
		if rediskey.Check(key) != nil {
			return
		}
		for _, suffix := range []string{"~m", "~o1", "~s{tag}"} {
			companion := rediskey.Companion(key, suffix)
			if suffix != "~s{tag}" { // chosen to lie in another slot where the key has no tag
				require.Equal(t, slot, rediskey.Slot(companion), "slots of %q and %q", key, companion)
			}
			require.Error(t, rediskey.Check(companion), "a companion must not be a name")
		}
	})
}
