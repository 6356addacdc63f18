//go:build unix

package app

import (
	"context"
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSignalsEndAnExampleCleanly(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		r, w := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			ended <- untilSignal(func(ctx context.Context, _ io.Writer) error {
				return Serve(ctx, w, "server", "127.0.0.1:0", http.NotFoundHandler())
			})
		}()
		_, err := r.Read(make([]byte, 100)) // it listens
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(syscall.Getpid(), sig))
		select {
		case err := <-ended:
			require.NoError(t, err)
		case <-time.After(10 * time.Second):
			t.Fatalf("it runs on after %v", sig)
		}
	}
}
