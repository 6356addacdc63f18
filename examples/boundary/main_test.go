package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"io"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/examples/internal/apptest"
	"github.com/redispatterns/redispatterns/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// A run shows what docs/algorithms.md says of it.
func TestARunShowsTheBoundaryProblem(t *testing.T) {
	apptest.EachRedis(t, func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, boundary(context.Background(), &out, 100*time.Millisecond))
		shows(t, out.String())
	})
}

// So does the picture of the page.
func TestThePictureShowsTheBoundaryProblem(t *testing.T) {
	t.Parallel()
	picture, err := os.ReadFile("../../docs/boundary.svg")
	require.NoError(t, err)
	shows(t, string(picture))
}

var said = regexp.MustCompile(`aria-label="[^"]*NewFixedWindow let (\d+) [^"]*NewSlidingWindow let (\d+) [^"]*NewTokenBucket let (\d+) `)

func shows(t *testing.T, svg string) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewBufferString(svg)); ; {
		_, err := d.Token()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
	}
	m := said.FindStringSubmatch(svg)
	require.NotNil(t, m)
	require.Equal(t, strconv.Itoa(2*limit), m[1], "a fixed window: once from each side")
	require.Equal(t, strconv.Itoa(limit), m[2], "a sliding window")
	bucket, err := strconv.Atoi(m[3])
	require.NoError(t, err)
	require.Greater(t, bucket, limit, "a bucket: what it held, and what came since")
	require.LessOrEqual(t, bucket, 2*limit)
}

func TestWithoutRedis(t *testing.T) {
	t.Setenv("REDIS_ADDR", "127.0.0.1:1")
	require.ErrorContains(t, run(context.Background(), io.Discard), "127.0.0.1:1")
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, sleepUntil(ended, time.Now().Add(time.Hour)), context.Canceled)
}
