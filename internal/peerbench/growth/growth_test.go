package main

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Everything is measured and drawn once, small.
func TestRun(t *testing.T) {
	t.Parallel()
	plots := t.TempDir()
	var out strings.Builder
	require.NoError(t, run(context.Background(), []string{"-most", "10", "-rounds", "1", "-chunk", "1ms", "-plots", plots,
		"-run", "waiters,leases,goroutines,entries,sessions"}, &out, io.Discard))
	require.NoError(t, run(context.Background(), []string{"-most", "1000", "-rounds", "1", "-chunk", "1ms", "-plots", plots,
		"-run", "members,keys"}, &out, io.Discard))
	report := out.String()
	require.NotContains(t, report, "NaN")
	require.NotContains(t, report, "Inf")
	for _, title := range []string{"Hand-over of one lock", "Renewal of held leases", "Operations on a board", "Limiters",
		"Time of an operation, by goroutines", "A sliding window's log", "Sessions of one user"} {
		require.Contains(t, report, "### "+title+"\n\n|")
	}
	drawn, err := filepath.Glob(filepath.Join(plots, "growth-*.svg"))
	require.NoError(t, err)
	require.Len(t, drawn, 3)
	for _, file := range drawn {
		svg, err := os.Open(file)
		require.NoError(t, err)
		defer svg.Close()
		for d := xml.NewDecoder(svg); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else {
				require.NoError(t, err, file)
			}
		}
	}
}

func TestTicks(t *testing.T) {
	require.Equal(t, []float64{0, 1, 2, 3, 4}, linearTicks(3.5))
	require.Equal(t, []float64{0, 200, 400, 600, 800, 1000}, linearTicks(1000))
	require.Equal(t, []float64{0.1, 1, 10, 100}, decades(0.3, 70))
	require.Equal(t, "0.017", figure(0.0171))
	require.Equal(t, "12.3", figure(12.34))
	require.Equal(t, "1907", figure(1907.4))
}

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{{"-run", "nothing"}, {"-most", "0"}, {"-chunk", "0s"}, {"-nothing"}} {
		require.Error(t, run(context.Background(), args, io.Discard, io.Discard), "%v", args)
	}
}
