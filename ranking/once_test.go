package ranking_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ranking"
)

// However busy a board is, its operations are forgotten after twice OnceFor: a write in the millisecond in which a period
// begins, while Redis still shows the operations of the one before the last, does not keep those.
func TestOperationsAreForgottenUnderFire(t *testing.T) {
	t.Parallel()
	c, name := redistest.Real(t).Client(t), redistest.ID()
	b := newBoardNamed(t, c, name, &ranking.Options{OnceFor: time.Second})
	memories := []string{"{ranking:" + name + "}~o0", "{ranking:" + name + "}~o1"}
	look := redis.NewScript(`
		local now = redis.call('TIME')
		local reply = {now[1] * 1000 + math.floor(now[2] / 1000)}
		for _, key in ipairs(KEYS) do
			local ends = redis.call('PEXPIRETIME', key)
			for _, op in ipairs(redis.call('HKEYS', key)) do reply[#reply + 1], reply[#reply + 2] = op, ends end
		end
		return reply`)
	var by []int64                                                    // the server's time at the end of each round, in ms
	for round := 0; round == 0 || by[round-1] < by[0]+4000; round++ { // in which two or three periods end
		for i := range 200 {
			_, err := b.IncrementOnce(background, "alice", 1, fmt.Sprintf("%d-%d", round, i))
			require.NoError(t, err)
		}
		reply, err := look.Run(background, c, memories).Slice()
		require.NoError(t, err)
		by = append(by, reply[0].(int64))
		for i := 1; i < len(reply); i += 2 {
			var of int
			_, err := fmt.Sscanf(reply[i].(string), "%d-", &of)
			require.NoError(t, err)
			require.LessOrEqual(t, reply[i+1].(int64)-by[of], int64(2000), "operation %v, in round %d", reply[i], round)
		}
	}
}
