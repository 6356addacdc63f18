// Proxy gives each request to the next of the servers in SERVERS, and to another where one cannot be reached. It knows
// nothing of sessions: it can send anybody anywhere, since the servers share them.
//
//	SERVERS=http://localhost:8080,http://localhost:8081 ADDR=127.0.0.1:8085 go run ./examples/session/proxy
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redispatterns/redispatterns/examples/internal/app"
)

func main() { app.Main(run) }

func run(ctx context.Context, out io.Writer) error {
	servers, err := parse(os.Getenv("SERVERS"))
	if err != nil {
		return err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetXForwarded() },
		Transport: &roundRobin{servers: servers, transport: transport()},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			var tooLarge *http.MaxBytesError
			if errors.As(err, &tooLarge) {
				app.Fail(w, http.StatusRequestEntityTooLarge, "the body is too large")
				return
			}
			log.Print(err)
			app.Fail(w, http.StatusBadGateway, "no server can be reached")
		},
	}
	limited := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 1<<16)
		proxy.ServeHTTP(w, r)
	})
	return app.Serve(ctx, out, "proxy", app.Getenv("ADDR", "127.0.0.1:8085"), limited)
}

func parse(list string) ([]*url.URL, error) {
	var servers []*url.URL
	for _, text := range strings.Split(list, ",") {
		server, err := url.Parse(text)
		if err != nil || server.Scheme != "http" || server.Host == "" {
			return nil, fmt.Errorf("SERVERS is %q, and must be addresses such as http://server-a:8080, with commas between", list)
		}
		servers = append(servers, server)
	}
	return servers, nil
}

// transport opens a connection for each request, so that a server that has gone shows when it is dialled, which is when
// another may still be asked.
func transport() http.RoundTripper {
	return &http.Transport{DialContext: (&net.Dialer{Timeout: time.Second}).DialContext, DisableKeepAlives: true}
}

type roundRobin struct {
	servers   []*url.URL
	transport http.RoundTripper
	turn      atomic.Uint64
}

func (b *roundRobin) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	var body []byte
	if req.Body != nil {
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		_ = req.Body.Close()
	}
	turn := b.turn.Add(1)
	for i := range uint64(len(b.servers)) {
		server := b.servers[(turn+i)%uint64(len(b.servers))]
		to := req.Clone(req.Context())
		to.URL.Scheme, to.URL.Host = server.Scheme, server.Host
		to.Body = io.NopCloser(bytes.NewReader(body))
		var dial *net.OpError
		if resp, err = b.transport.RoundTrip(to); err == nil || !errors.As(err, &dial) || dial.Op != "dial" {
			return resp, err // answered, or perhaps carried out: whoever asked has to know
		}
	}
	return nil, err
}
