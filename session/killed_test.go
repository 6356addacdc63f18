package session_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/session"
)

// serverEnv makes this test binary one of the servers of TestServerKilledUnderLoad: how to reach Redis, as JSON.
const serverEnv = "SESSION_TEST_SERVER"

type redisAddress struct {
	Network, Addr string
	DB            int
}

// runServer serves an application until it is killed: login, a counter in the session, and who one is.
func runServer(address string) error {
	var a redisAddress
	if err := json.Unmarshal([]byte(address), &a); err != nil {
		return err
	}
	store, err := session.New[user](redis.NewClient(&redis.Options{Network: a.Network, Addr: a.Addr, DB: a.DB}), nil)
	if err != nil {
		return err
	}
	m, err := session.NewManager(store, &session.ManagerOptions{Cookie: "sid", Insecure: true})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, sess *session.Session[user], err error) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, sess.Data.UserID)
	}
	mux.HandleFunc("/login", func(w http.ResponseWriter, r *http.Request) {
		sess, err := m.Start(w, r, user{Username: r.FormValue("name")})
		answer(w, sess, err)
	})
	mux.Handle("/count", m.Require(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sess, err := m.Get(r.Context())
		if err == nil {
			err = store.Update(r.Context(), sess, increment)
		}
		answer(w, sess, err)
	})))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends, however it does
		os.Exit(0)
	}()
	return http.Serve(l, m.Handler(mux))
}

type serverProcess struct {
	url string
	cmd *exec.Cmd
}

func startServer(t *testing.T, s *redistest.Server) *serverProcess {
	t.Helper()
	o := s.Options()
	address, err := json.Marshal(redisAddress{o.Network, o.Addr, o.DB})
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverEnv+"="+string(address))
	cmd.Stderr = os.Stderr
	_, err = cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &serverProcess{cmd: cmd}
	t.Cleanup(p.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	p.url = "http://" + strings.TrimSpace(line)
	return p
}

func (p *serverProcess) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// Two processes serve 200 users; one is killed under load. Nobody is logged out, and no write that was answered is lost.
func TestServerKilledUnderLoad(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	servers := []*serverProcess{startServer(t, s), startServer(t, s)}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}, Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	request := func(server *serverProcess, path, cookie string) (n int64, set string, status int, err error) {
		r, err := http.NewRequest(http.MethodGet, server.url+path, nil)
		if err != nil {
			return 0, "", 0, err
		}
		if cookie != "" {
			r.AddCookie(&http.Cookie{Name: "sid", Value: cookie})
		}
		resp, err := client.Do(r)
		if err != nil {
			return 0, "", 0, err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			return 0, "", resp.StatusCode, err
		}
		if cookies := resp.Cookies(); len(cookies) == 1 {
			set = cookies[0].Value
		}
		n, err = strconv.ParseInt(string(text), 10, 64)
		return n, set, resp.StatusCode, err
	}

	const users = 200
	cookies, answered := make([]string, users), make([]int64, users)
	var served atomic.Int64
	var all sync.WaitGroup
	work := make(chan int)
	go func() {
		defer close(work)
		for range 6 {
			for i := range users {
				work <- i
			}
		}
	}()
	for i := range cookies {
		_, set, status, err := request(servers[i%2], fmt.Sprint("/login?name=u", i), "")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
		require.NotEmpty(t, set)
		cookies[i] = set
	}
	for range 8 {
		all.Go(func() {
			for i := range work {
				n, _, status, err := request(servers[int(served.Add(1))%2], "/count", cookies[i])
				if err == nil && status != http.StatusOK {
					t.Errorf("user %d got %d", i, status)
				}
				for err == nil { // the highest that any server answered
					old := atomic.LoadInt64(&answered[i])
					if n <= old || atomic.CompareAndSwapInt64(&answered[i], old, n) {
						break
					}
				}
			}
		})
	}
	redistest.Eventually(t, func() bool { return served.Load() > 2*users }, "under load")
	servers[0].kill()
	all.Wait()
	for i, cookie := range cookies {
		n, _, status, err := request(servers[1], "/count", cookie)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status, "user %d is logged out", i)
		require.Greater(t, n, answered[i], "user %d lost a write that was answered", i)
	}
}
