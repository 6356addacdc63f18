package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

const healthPath = "/health"

// withHealth answers GET /health itself. It says that this process serves, and nothing about Redis: a server whose Redis
// is away is not mended by being restarted.
func withHealth(handler http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+healthPath, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.Handle("/", handler)
	return mux
}

// healthy asks the server on ADDR for its health.
func healthy(ctx context.Context, _ io.Writer) error {
	host, port, err := net.SplitHostPort(os.Getenv("ADDR"))
	if err != nil {
		return fmt.Errorf("-health: ADDR says which server to ask: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "localhost"
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+healthPath, nil)
	if err != nil {
		return fmt.Errorf("-health: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("-health: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		return errors.New("-health: it answers " + resp.Status)
	}
	return nil
}
