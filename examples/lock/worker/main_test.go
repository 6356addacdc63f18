package main

import (
	"bufio"
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

type worker struct {
	lines *bufio.Scanner
	stop  func() error
}

func (w worker) next(t *testing.T) string {
	t.Helper()
	require.True(t, w.lines.Scan(), "%v", w.lines.Err())
	return w.lines.Text()
}

func start(t *testing.T) worker {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, w)
		_ = w.CloseWithError(err)
		ended <- err
	}()
	return worker{bufio.NewScanner(r), func() error { cancel(); return <-ended }}
}

func TestOneHoldsAndTheOtherWaits(t *testing.T) {
	s, p := redistest.Own(t)
	t.Setenv("REDIS_ADDR", p.Addr)
	first := start(t)
	require.Contains(t, first.next(t), "worker holds order:12345 after")
	second, third := start(t), start(t)
	require.Contains(t, second.next(t), "is refused")
	require.Contains(t, third.next(t), "is refused")

	stopped := make(chan error, 1)
	go func() { stopped <- third.stop() }()
	require.Contains(t, third.next(t), "waits no more")
	require.NoError(t, <-stopped)

	go func() { stopped <- first.stop() }()
	require.Equal(t, "worker releases order:12345", first.next(t))
	require.NoError(t, <-stopped)
	require.Contains(t, second.next(t), "worker holds order:12345 after")

	require.NoError(t, s.Client(t).Del(t.Context(), "lock:order:12345").Err())
	require.False(t, second.lines.Scan())
	require.ErrorContains(t, second.lines.Err(), "lost")
	require.Error(t, second.stop())
}
