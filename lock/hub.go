package lock

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redispatterns/redispatterns/internal/rediskey"
	"github.com/redispatterns/redispatterns/internal/script"
)

// hub is how the lines of a Locker hear of grants: over one connection where the client is a single node, else over at most
// sixteen, by slot, since in a cluster a message comes fastest from the node that has its channel's slot.
type hub []*ear

const clusterEars = 16

func newHub(l *Locker) hub {
	n := clusterEars
	switch l.client.(type) {
	case *redis.Ring: // its Subscribe reaches one shard, and panics when all are down
		return nil
	case *redis.Client:
		n = 1
	}
	h := make(hub, n)
	for i := range h {
		h[i] = &ear{locker: l, lines: map[string]*line{}}
	}
	return h
}

// listen subscribes to a line's channel, and waits some time for the confirmation. It is nil where no message would come.
func (h hub) listen(q *line) *ear {
	if len(h) == 0 {
		return nil
	}
	e := h[h.place(q.mutex.key)]
	e.add(q)
	return e
}

// place says which of the connections serves a key.
func (h hub) place(key string) int { return rediskey.Slot(key) * len(h) / rediskey.Slots }

const (
	pingEvery      = 3 * time.Second // on a connection without messages
	minResubscribe = 50 * time.Millisecond
	maxResubscribe = time.Second
)

// ear is one subscription connection, open while a line needs it.
type ear struct {
	locker *Locker
	denied atomic.Bool // an ACL forbids SUBSCRIBE

	mu     sync.Mutex
	lines  map[string]*line // by each of its two channels
	pubsub *redis.PubSub    // nil while there are no lines
}

// deaf says that no message will come, so that waiters poll.
func (e *ear) deaf() bool { return e == nil || e.denied.Load() }

func (e *ear) add(q *line) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lines[q.mutex.queue], e.lines[q.channel] = q, q
	if e.pubsub == nil {
		e.pubsub = e.locker.client.Subscribe(context.Background(), q.mutex.queue, q.channel)
		pubsub := e.pubsub
		e.locker.background.Go(func() { e.hear(pubsub) })
		return
	}
	_ = e.pubsub.Subscribe(context.Background(), q.mutex.queue, q.channel) // what fails here, hear repairs
}

func (e *ear) remove(q *line) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lines[q.channel] != q {
		return // a line that was opened since hears by the same channels
	}
	delete(e.lines, q.mutex.queue)
	delete(e.lines, q.channel)
	if len(e.lines) == 0 {
		_ = e.pubsub.Close()
		e.pubsub = nil
		return
	}
	_ = e.pubsub.Unsubscribe(context.Background(), q.mutex.queue, q.channel)
}

// hear passes messages on until the subscription is closed. go-redis connects and subscribes again by itself; what was sent
// meanwhile is missed, so each new confirmation wakes the line.
func (e *ear) hear(pubsub *redis.PubSub) {
	silent, pause := 0, minResubscribe
	for {
		received, err := pubsub.ReceiveTimeout(context.Background(), pingEvery)
		var timeout net.Error
		switch {
		case err == nil:
			silent, pause = 0, minResubscribe
			switch m := received.(type) {
			case *redis.Message:
				e.pass(m.Channel, m.Payload)
			case *redis.Subscription:
				if m.Kind == "subscribe" {
					e.denied.Store(false)
					e.pass(m.Channel, "")
				}
			}
			continue
		case errors.Is(err, redis.ErrClosed):
			return
		case redis.IsPermissionError(err):
			e.denied.Store(true)
			e.passAll()
		case errors.As(err, &timeout) && timeout.Timeout() && silent == 0:
			silent++
			_ = pubsub.Ping(context.Background())
			continue
		case errors.As(err, &timeout) && timeout.Timeout():
			if pubsub = e.renew(pubsub); pubsub == nil {
				return
			}
			silent = 0
			continue
		}
		if !script.Pause(e.locker.closing, pause+rand.N(pause)) {
			return
		}
		pause = min(2*pause, maxResubscribe)
	}
}

// renew replaces a subscription whose connection is silent, even to a ping; nil when it is not needed any more.
func (e *ear) renew(old *redis.PubSub) *redis.PubSub {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pubsub != old {
		return nil
	}
	_ = old.Close()
	channels := make([]string, 0, len(e.lines))
	for channel := range e.lines {
		channels = append(channels, channel)
	}
	e.pubsub = e.locker.client.Subscribe(context.Background(), channels...)
	return e.pubsub
}

func (e *ear) pass(channel, message string) {
	e.mu.Lock()
	q := e.lines[channel]
	e.mu.Unlock()
	switch {
	case q == nil:
	case channel == q.channel:
		q.hint(message)
	case message != "":
		e.locker.renewer.taken(q.mutex.key, strings.Fields(message))
	}
}

func (e *ear) passAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for channel, q := range e.lines {
		if channel == q.channel {
			q.hint("")
		}
	}
}
