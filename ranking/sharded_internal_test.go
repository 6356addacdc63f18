package ranking

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns"
	"github.com/redispatterns/redispatterns/internal/rediskey"
)

// The tags are in the keys, so they may never change; and the slots are spread evenly.
func TestTags(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"50", "12", "0"}, tags(3))
	for _, n := range []int{1, 2, 3, 5, 16, 100, maxShards} {
		seen := map[string]bool{}
		for i, tag := range tags(n) {
			require.False(t, seen[tag])
			seen[tag] = true
			slot := rediskey.Slot("ranking:game~s{" + tag + "}")
			require.Equal(t, rediskey.Slot(tag), slot)
			require.InDelta(t, (2*i+1)*rediskey.Slots/(2*n), slot, float64(rediskey.Slots)/float64(8*n)+1)
		}
	}
}

func TestHomes(t *testing.T) {
	t.Parallel()
	b, err := newSharded(noClient{}, "game", 4, nil)
	require.NoError(t, err)
	counts := map[*Leaderboard]int{}
	for i := range 4000 {
		counts[b.shards.home("player:"+string(rune('a'+i%26))+string(rune('a'+i/26%26))+string(rune('a'+i/676)))]++
	}
	for _, n := range counts {
		require.InDelta(t, 1000, n, 200)
	}
	require.Equal(t, "ranking:game~s{1}", b.shards.home("player:alice").key)
}

type noClient struct{ redispatterns.Client }
