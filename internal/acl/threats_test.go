package acl_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/lock"
	"github.com/redispatterns/redispatterns/ratelimit"
)

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	return string(text)
}

var testName = regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)`")

// Each test that docs/security.md names is there.
func TestTheTestsThatThePageNamesExist(t *testing.T) {
	t.Parallel()
	var tests strings.Builder
	require.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			source, err := os.ReadFile(path)
			tests.Write(source)
			return err
		}
		return err
	}))
	names := testName.FindAllStringSubmatch(page(t), -1)
	require.NotEmpty(t, names)
	for _, name := range names {
		require.Contains(t, tests.String(), "\nfunc "+name[1]+"(", "docs/security.md names it")
	}
}

// What an id costs in Redis is what the page says, to a tenth.
func TestBytesPerID(t *testing.T) {
	t.Parallel()
	s, _ := redistest.Own(t)
	c := s.Client(t)
	limit := ratelimit.PerHour(100)
	calm := &ratelimit.Options{Timeout: -1}
	fixed, err := ratelimit.NewFixedWindow(c, limit, calm)
	require.NoError(t, err)
	sliding, err := ratelimit.NewSlidingWindow(c, limit, calm)
	require.NoError(t, err)
	counter, err := ratelimit.NewSlidingCounter(c, limit, calm)
	require.NoError(t, err)
	bucket, err := ratelimit.NewTokenBucket(c, limit, calm)
	require.NoError(t, err)
	several, err := ratelimit.NewMulti(c, []ratelimit.Rule{
		{Name: "burst", Limit: ratelimit.PerSecond(10), Algorithm: ratelimit.TokenBucket}, {Name: "minute", Limit: ratelimit.PerMinute(100)},
		{Name: "day", Limit: ratelimit.PerDay(10_000)},
	}, calm)
	require.NoError(t, err)
	used := func() int {
		n, err := strconv.Atoi(c.InfoMap(ctx, "memory").Item("Memory", "used_memory"))
		require.NoError(t, err)
		return n
	}
	for _, row := range []struct {
		name    string
		limiter *ratelimit.Limiter
		events  int
	}{
		{"fixed window", fixed, 1}, {"sliding window, 1 event", sliding, 1}, {"sliding window, 10 events", sliding, 10},
		{"sliding counter", counter, 1}, {"token bucket", bucket, 1}, {"several rules (3)", several, 1},
	} {
		require.NoError(t, c.FlushDB(ctx).Err())
		_, err := row.limiter.Allow(ctx, "203.000.113.007") // the script, and Redis' own
		require.NoError(t, err)
		const ids = 3000 // Redis' tables, which double, are as full as they are on average
		before := used()
		for i := range ids {
			for range row.events {
				r, err := row.limiter.Allow(ctx, fmt.Sprintf("203.%03d.113.%03d", i/1000, i%1000))
				require.NoError(t, err)
				require.True(t, r.Allowed)
			}
		}
		each := (used() - before) / ids
		said := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(row.name) + ` \| (\d+) \|`).FindStringSubmatch(page(t))
		require.NotNil(t, said, "docs/security.md has no row %q; it measures %d bytes", row.name, each)
		want, err := strconv.Atoi(said[1])
		require.NoError(t, err)
		if !strings.Contains(c.InfoMap(ctx, "server").Item("Server", "redis_version"), "7.0.") {
			continue // the page says what 7.0 takes
		}
		if each < want*9/10 || each > want*11/10 {
			t.Errorf("%s: docs/security.md says %d bytes, measured are %d", row.name, want, each)
		}
	}
}

func TestNoErrorOfALockHoldsItsToken(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		var events []lock.Event
		l, err := lock.New(s.Client(t), &lock.Options{Observe: func(_ context.Context, e lock.Event) { events = append(events, e) }})
		require.NoError(t, err)
		defer l.Close()
		m := l.Mutex(redistest.ID())
		lease, err := m.Lock(ctx)
		require.NoError(t, err)
		_, held := m.TryLock(ctx)
		var details *lock.HeldError
		require.ErrorAs(t, held, &details)
		require.Equal(t, lease.Token(), details.Owner, "it is there for who asks for it")
		var log strings.Builder
		slog.New(slog.NewTextHandler(&log, nil)).Info("held", "lease", lease)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("held", "lease", lease)
		require.NotContains(t, fmt.Sprintf("%v %+v %#v %s", lease, lease, lease, &log), lease.Token())
		require.NoError(t, m.ForceUnlock(ctx))
		lost := lease.Extend(ctx, time.Minute)
		require.Error(t, lost)
		released := lease.Release(ctx)
		require.Error(t, released)
		for _, err := range []error{held, lost, released, errors.Join(held, lost)} {
			require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err.Error()), lease.Token())
		}
		require.NotEmpty(t, events)
		require.NotContains(t, fmt.Sprintf("%+v", events), lease.Token())
	})
}

// The client of the page, against a server that takes nothing but TLS.
func TestTLS(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"redis.example.com"}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	cert, secret := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(secret, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(free.Addr().String())
	require.NoError(t, err)
	require.NoError(t, free.Close())

	s, _ := redistest.Own(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", secret, "--tls-ca-cert-file", cert, "--tls-auth-clients", "no")
	u := user(t, s.Client(t), granted(t)["sessions"])
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	client := func(config *tls.Config) *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port, Username: u.name, Password: u.name, TLSConfig: config, MaxRetries: -1, DialerRetries: 1})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	_, err = try(sessions, u, client(&tls.Config{ServerName: "redis.example.com", RootCAs: roots}), false)
	require.NoError(t, err)
	_, err = try(sessions, u, client(&tls.Config{ServerName: "redis.example.org", RootCAs: roots}), false)
	var wrongName x509.HostnameError
	require.ErrorAs(t, err, &wrongName)
}
