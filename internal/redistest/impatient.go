package redistest

import (
	"context"
	"net"
	"sync"
	"time"
)

// quiet is after how long a silence nothing more of what a dropped reply belongs to is expected.
const quiet = 30 * time.Millisecond

// impatient is a client's connection whose reads time out from giveUp on, whatever their deadlines.
type impatient struct {
	*net.TCPConn
	mu   sync.Mutex
	over bool
}

func (p *Proxy) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &impatient{TCPConn: conn.(*net.TCPConn)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients[conn.LocalAddr().String()] = c
	return c, nil
}

// giveUp ends a client's wait for a reply that was dropped.
func (p *Proxy) giveUp(client net.Conn) {
	p.mu.Lock()
	c := p.clients[client.RemoteAddr().String()]
	p.mu.Unlock()
	if c != nil {
		c.mu.Lock()
		c.over = true
		c.mu.Unlock()
		_ = c.SetReadDeadline(time.Time{})
	}
}

// SetReadDeadline implements net.Conn.
func (c *impatient) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		t = time.Unix(1, 0)
	}
	return c.TCPConn.SetReadDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *impatient) SetDeadline(t time.Time) error {
	if err := c.SetWriteDeadline(t); err != nil {
		return err
	}
	return c.SetReadDeadline(t)
}
