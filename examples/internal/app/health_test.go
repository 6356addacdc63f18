package app

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHealthyAsksTheServerOnADDR(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, w, "server", ":0", http.NotFoundHandler()) }()
	line, err := bufio.NewReader(r).ReadString('\n')
	require.NoError(t, err)
	port := strings.TrimSpace(line[strings.LastIndexByte(line, ':'):])

	for _, addr := range []string{port, "0.0.0.0" + port, "[::]" + port, "127.0.0.1" + port} {
		t.Setenv("ADDR", addr)
		require.NoError(t, healthy(ctx, io.Discard), addr)
	}
	cancel()
	require.NoError(t, <-ended)
	require.Error(t, healthy(t.Context(), io.Discard), "it has stopped")
}

func TestHealthyNeedsADDR(t *testing.T) {
	t.Setenv("ADDR", "")
	require.ErrorContains(t, healthy(t.Context(), io.Discard), "ADDR")
}

func TestOnlyAServerOfOursIsHealthy(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	// A handler that answers everything does not get the question.
	go func() {
		_ = Serve(ctx, w, "server", "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTeapot)
		}))
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	require.NoError(t, err)
	t.Setenv("ADDR", strings.TrimSpace(strings.TrimPrefix(line, "server listens on http://")))
	require.NoError(t, healthy(ctx, io.Discard))
}
