package bench

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Control is a plain RESP2 connection with which the harness observes the server. It is apart from every contender's
// client, and it knows how many bytes its own requests and replies take, so that they can be subtracted.
type Control struct {
	conn      net.Conn
	r         *bufio.Reader
	infoCPU   time.Duration // server CPU time that one snapshot costs
	strangers int64         // connections that were there before any contender's, this one included
}

// Dial opens a control connection.
func Dial(to Conn) (*Control, error) {
	conn, err := net.DialTimeout("tcp", to.Addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	c := &Control{conn: conn, r: bufio.NewReaderSize(conn, 64<<10)}
	auth := []string{"AUTH", to.Username, to.Password}
	if to.Username == "" {
		auth = []string{"AUTH", to.Password}
	}
	if to.Password != "" {
		_, err = c.Do(auth...)
	}
	if err == nil {
		_, err = c.Do("SELECT", strconv.Itoa(to.DB))
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

// Close closes the connection.
func (c *Control) Close() error { return c.conn.Close() }

// Do sends one command and returns its reply as text. Array replies are not supported: the harness has no use for them.
func (c *Control) Do(args ...string) (string, error) {
	if _, err := c.conn.Write(request(args)); err != nil {
		return "", err
	}
	return c.reply()
}

func request(args []string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b
}

func (c *Control) reply() (string, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return "", errors.New("empty reply line")
	}
	switch line[0] {
	case '+', ':':
		return line[1:], nil
	case '-':
		return "", errors.New(line[1:])
	case '$':
		size, err := strconv.Atoi(line[1:])
		if err != nil || size < 0 {
			return "", err
		}
		body := make([]byte, size+2)
		if _, err := io.ReadFull(c.r, body); err != nil {
			return "", err
		}
		return string(body[:size]), nil
	}
	return "", fmt.Errorf("unexpected reply %q", line)
}

// Snapshot holds the server's counters at one moment.
type Snapshot struct {
	Reads  int64 // socket reads: one per request batch, so one per round trip
	NetIn  int64
	NetOut int64
	CPU    time.Duration

	requestLen, replyLen int64
}

var snapshotArgs = []string{"INFO", "stats", "cpu"}

// Snapshot reads the server's counters.
func (c *Control) Snapshot() (Snapshot, error) {
	text, err := c.Do(snapshotArgs...)
	if err != nil {
		return Snapshot{}, err
	}
	return Snapshot{
		Reads:      infoInt(text, "total_reads_processed"),
		NetIn:      infoInt(text, "total_net_input_bytes"),
		NetOut:     infoInt(text, "total_net_output_bytes"),
		CPU:        infoSeconds(text, "used_cpu_user") + infoSeconds(text, "used_cpu_sys"),
		requestLen: int64(len(request(snapshotArgs))),
		replyLen:   int64(len(text) + len(strconv.Itoa(len(text))) + 5),
	}, nil
}

// Calibrate measures what a snapshot itself costs the server, and counts who is connected.
func (c *Control) Calibrate() error {
	c.infoCPU = 0
	const times = 200
	first, err := c.Snapshot()
	if err != nil {
		return err
	}
	var last Snapshot
	for range times {
		if last, err = c.Snapshot(); err != nil {
			return err
		}
	}
	c.infoCPU = (last.CPU - first.CPU) / times
	text, err := c.Do("INFO", "clients")
	c.strangers = infoInt(text, "connected_clients")
	return err
}

// Since returns what the server did between two snapshots of this connection, less what the snapshots themselves cost.
func (c *Control) Since(from, to Snapshot) Snapshot {
	return Snapshot{
		Reads:  to.Reads - from.Reads - 1,
		NetIn:  to.NetIn - from.NetIn - to.requestLen,
		NetOut: to.NetOut - from.NetOut - from.replyLen,
		CPU:    max(0, to.CPU-from.CPU-c.infoCPU),
	}
}

// Flush empties the database.
func (c *Control) Flush() error {
	_, err := c.Do("FLUSHDB", "SYNC")
	return err
}

// SettledMemory returns used_memory once the contenders' connections are gone and the figure has stopped moving
// (dictionaries rehash in the background).
func (c *Control) SettledMemory() (int64, error) {
	last, same := int64(-1), 0
	for range 100 {
		text, err := c.Do("INFO", "everything")
		if err != nil {
			return 0, err
		}
		used := infoInt(text, "used_memory")
		if infoInt(text, "connected_clients") <= c.strangers && used == last {
			if same++; same == 3 {
				return used, nil
			}
		} else {
			same = 0
		}
		last = used
		time.Sleep(60 * time.Millisecond)
	}
	return last, nil // good to within a few kB
}

// Keys returns the number of keys in the database.
func (c *Control) Keys() (int64, error) {
	text, err := c.Do("DBSIZE")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// Version returns the server's name and version.
func (c *Control) Version() (string, error) {
	text, err := c.Do("INFO", "server")
	if v := infoField(text, "valkey_version"); v != "" {
		return "valkey-server " + v, err
	}
	return "redis-server " + infoField(text, "redis_version"), err
}

func infoField(text, name string) string {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func infoInt(text, name string) int64 {
	n, _ := strconv.ParseInt(infoField(text, name), 10, 64)
	return n
}

func infoSeconds(text, name string) time.Duration {
	f, _ := strconv.ParseFloat(infoField(text, name), 64)
	return time.Duration(f * float64(time.Second))
}

// Monitor counts commands by watching them, which is the only way to tell top-level commands from those that a script
// calls: commandstats mixes them.
type Monitor struct {
	c    *Control
	to   Conn
	done chan struct{}

	TopLevel, Lua int64
	ByName        map[string]int64
}

const monitorEnd = "peerbench-monitor-end"

// StartMonitor begins to count every command that the server runs in the database.
func StartMonitor(to Conn) (*Monitor, error) {
	c, err := Dial(to)
	if err != nil {
		return nil, err
	}
	if _, err := c.Do("MONITOR"); err != nil {
		c.Close()
		return nil, fmt.Errorf("MONITOR: %w", err)
	}
	m := &Monitor{c: c, to: to, done: make(chan struct{}), ByName: map[string]int64{}}
	go m.loop()
	return m, nil
}

func (m *Monitor) loop() {
	defer close(m.done)
	db := fmt.Sprintf("[%d ", m.to.DB)
	for {
		line, err := m.c.r.ReadString('\n')
		if err != nil || strings.Contains(line, monitorEnd) {
			return
		}
		// 1700000000.123456 [0 127.0.0.1:1234] "get" "key"
		from, rest, ok := strings.Cut(line, "] \"")
		if !ok || !strings.Contains(from, db) {
			continue
		}
		name, args, _ := strings.Cut(rest, "\"")
		name = strings.ToUpper(name)
		switch {
		case aside(name, args):
		case strings.HasSuffix(from, " lua"):
			m.Lua++
			m.ByName["lua:"+name]++
		default:
			m.TopLevel++
			m.ByName[name]++
		}
	}
}

// aside says that a command is of a connection's beginning, or of the harness itself.
func aside(name, args string) bool {
	switch name {
	case "HELLO", "AUTH", "SELECT", "INFO":
		return true
	case "CLIENT":
		args = strings.ToLower(strings.TrimLeft(args, " \""))
		return strings.HasPrefix(args, "set") || strings.HasPrefix(args, "maint_notifications")
	}
	return false
}

// Stop ends the counting once everything sent before it has been seen.
func (m *Monitor) Stop() error {
	defer m.c.Close()
	c, err := Dial(m.to)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Do("ECHO", monitorEnd); err != nil {
		return err
	}
	select {
	case <-m.done:
	case <-time.After(10 * time.Second):
		return errors.New("MONITOR did not catch up")
	}
	return nil
}
