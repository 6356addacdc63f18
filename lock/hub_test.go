package lock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
)

// A line for a lock may be opened in the instant in which the last one for it ends. It must go on to hear.
func TestALineThatEndsTakesNoOtherOffTheAir(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		c, ctx := s.Client(t), context.Background()
		l, err := New(s.Client(t), nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		m := l.Mutex(redistest.ID())
		ends := &line{locker: l, mutex: m, channel: m.queue + ":" + l.process, inbox: make(chan string, 16)}
		comes := &line{locker: l, mutex: m, channel: ends.channel, inbox: make(chan string, 16)}
		e := l.hub.listen(ends)
		require.Same(t, e, l.hub.listen(comes))
		e.remove(ends)

		redistest.Eventually(t, func() bool { return c.Publish(ctx, comes.channel, "token").Val() == 1 }, "it is subscribed")
		heard := func() string {
			select {
			case message := <-comes.inbox:
				return message
			case <-time.After(5 * time.Second):
				return "nothing"
			}
		}
		message := heard()
		for message == "" { // a confirmation of its subscription
			message = heard()
		}
		require.Equal(t, "token", message)
		require.NotPanics(t, func() { e.remove(comes) })
		redistest.Eventually(t, func() bool { return c.Publish(ctx, comes.channel, "token").Val() == 0 }, "nobody listens any more")
	})
}
