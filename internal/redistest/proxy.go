package redistest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Proxy is a TCP proxy in front of a server that loses what passes through it, on demand.
type Proxy struct {
	listener net.Listener
	options  redis.Options
	wg       sync.WaitGroup

	mu      sync.Mutex
	network string // of the server
	addr    string
	conns   map[net.Conn]struct{}
	fault   fault
	left    int
	names   []string
	clients map[string]*impatient // of Client, by their local addresses
	delay   time.Duration
	hole    bool
	hit     int
	changed chan struct{} // closed when hole or the set of connections changes
	closed  bool
}

type fault int

const (
	dropReply fault = iota + 1
	closeAfter
	closeBefore
)

// Proxy starts a proxy in front of s, until the test ends.
func (s *Server) Proxy(t testing.TB) *Proxy {
	t.Helper()
	network := s.options.Network
	if network == "" {
		network = "tcp"
	}
	p, err := newProxy(network, s.options.Addr)
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	p.options = s.options
	p.options.Network, p.options.Addr = "tcp", p.Addr()
	t.Cleanup(p.Close)
	return p
}

// StartProxy starts a proxy in front of the server at addr, for a program that is no test.
func StartProxy(addr string) (*Proxy, error) { return newProxy("tcp", addr) }

func newProxy(network, addr string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		listener: l, network: network, addr: addr, conns: map[net.Conn]struct{}{}, clients: map[string]*impatient{},
		changed: make(chan struct{}),
	}
	p.wg.Go(p.accept)
	return p, nil
}

// Addr is where clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// To closes all connections, and sends those that come from now on to the server at addr; to none if addr is "".
func (p *Proxy) To(addr string) {
	p.mu.Lock()
	p.network, p.addr = "tcp", addr
	p.mu.Unlock()
	p.Kill()
}

// Client connects through the proxy until the test ends. It runs into its timeout as soon as a reply is dropped, so that the
// timeout itself, unless set changes it, is longer than a busy machine stalls (what it took for lost would be sent again and
// count twice; and go-redis repeats no dial that timed out in its handshake). What may be sent again is sent so often that a
// busy server is not taken for a lost one.
func (p *Proxy) Client(t testing.TB, set ...func(*redis.Options)) *redis.Client {
	t.Helper()
	o := p.options
	o.ReadTimeout, o.MaxRetries, o.Dialer = 4*time.Second, 10, p.dial
	for _, f := range set {
		f(&o)
	}
	c := redis.NewClient(&o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// DropReplies lets the next n requests that have a command of one of names (any but a handshake's, if none is given) be
// executed, and their replies vanish: the client runs into its timeout.
func (p *Proxy) DropReplies(n int, names ...string) { p.arm(dropReply, n, names) }

// CloseAfter lets the next n such requests be executed and then closes their connections, without the reply.
func (p *Proxy) CloseAfter(n int, names ...string) { p.arm(closeAfter, n, names) }

// CloseBefore closes the connections of the next n such requests instead of passing them on.
func (p *Proxy) CloseBefore(n int, names ...string) { p.arm(closeBefore, n, names) }

func (p *Proxy) arm(f fault, n int, names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.left, p.names, p.hit = f, n, names, 0
}

// Hits is how many requests met the fault that was armed last.
func (p *Proxy) Hits() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hit
}

// Delay makes each reply late by d.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// BlackHole, when on, swallows everything in both directions and keeps the connections open.
func (p *Proxy) BlackHole(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hole = on
	close(p.changed)
	p.changed = make(chan struct{})
}

// Kill closes all connections.
func (p *Proxy) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.BlackHole(false)
	p.Kill()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	network, addr := p.network, p.addr
	p.mu.Unlock()
	server, err := net.Dial(network, addr)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	closed := p.closed || p.addr != addr
	p.mu.Unlock()
	l := &link{proxy: p, client: client, server: server}
	if closed {
		l.close()
	}
	var both sync.WaitGroup
	both.Go(l.requests)
	both.Go(l.replies)
	both.Wait()
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, server)
	p.mu.Unlock()
}

// meets says which fault, if any, a request of this command meets.
func (p *Proxy) meets(name string) fault {
	if isHandshake(name) {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left == 0 {
		return 0
	}
	if len(p.names) > 0 && !slices.Contains(p.names, name) {
		return 0
	}
	p.left--
	p.hit++
	return p.fault
}

// passes waits while the proxy is a black hole.
func (p *Proxy) passes() time.Duration {
	for {
		p.mu.Lock()
		hole, changed, delay := p.hole, p.changed, p.delay
		p.mu.Unlock()
		if !hole {
			return delay
		}
		<-changed
	}
}

// link is one client's connection through the proxy.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	mu             sync.Mutex
	lost           fault // of the request under way
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// requests copies commands to the server, one by one.
func (l *link) requests() {
	defer l.close()
	in := bufio.NewReader(l.client)
	for {
		name, raw, err := readCommand(in)
		if err != nil {
			return
		}
		l.proxy.passes()
		switch f := l.proxy.meets(name); f {
		case closeBefore:
			return
		case dropReply, closeAfter:
			l.mu.Lock()
			l.lost = f
			l.mu.Unlock()
		}
		if _, err := l.server.Write(raw); err != nil {
			return
		}
	}
}

// replies copies replies to the client. From a lost one on nothing passes any more: whoever waits for it gives the
// connection up. An impatient client does so when no more comes that would be lost with it, as of a pipeline.
func (l *link) replies() {
	defer l.close()
	buf := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			l.proxy.giveUp(l.client)
			_ = l.server.SetReadDeadline(time.Time{})
			continue
		}
		if err != nil {
			return
		}
		if d := l.proxy.passes(); d > 0 {
			time.Sleep(d)
		}
		l.mu.Lock()
		lost := l.lost
		l.mu.Unlock()
		switch lost {
		case closeAfter:
			return
		case dropReply:
			_ = l.server.SetReadDeadline(time.Now().Add(quiet))
			continue
		}
		if _, err := l.client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// readCommand reads one command, an array of bulk strings, and returns its name in lower case and all its bytes.
func readCommand(in *bufio.Reader) (name string, raw []byte, err error) {
	line := func() (int, error) {
		b, err := in.ReadSlice('\n')
		raw = append(raw, b...)
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(string(b[1:])))
	}
	args, err := line()
	if err != nil {
		return "", nil, err
	}
	for i := range args {
		size, err := line()
		if err != nil {
			return "", nil, err
		}
		from := len(raw)
		raw = append(raw, make([]byte, size+2)...)
		if _, err := io.ReadFull(in, raw[from:]); err != nil {
			return "", nil, err
		}
		if i == 0 {
			name = strings.ToLower(string(raw[from : from+size]))
		}
	}
	return name, raw, nil
}
