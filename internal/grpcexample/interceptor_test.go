package grpcexample_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/redispatterns/redispatterns/internal/redistest"
	"github.com/redispatterns/redispatterns/ratelimit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// serve starts a server behind the interceptor and returns a client of it.
func serve(t *testing.T, l *ratelimit.Limiter) grpc_health_v1.HealthClient {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer(grpc.UnaryInterceptor(Limit(l)))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///test", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return grpc_health_v1.NewHealthClient(conn)
}

func TestInterceptor(t *testing.T) {
	redistest.Run(t, func(t *testing.T, s *redistest.Server) {
		l, err := ratelimit.NewTokenBucket(s.Client(t), ratelimit.PerHour(2), &ratelimit.Options{Timeout: -1})
		require.NoError(t, err)
		client := serve(t, l)
		call := func(user string) *status.Status {
			_, err := client.Check(metadata.AppendToOutgoingContext(context.Background(), "user", user), &grpc_health_v1.HealthCheckRequest{})
			return status.Convert(err)
		}
		user := redistest.ID()
		require.Equal(t, codes.OK, call(user).Code())
		require.Equal(t, codes.OK, call(user).Code())
		denied := call(user)
		require.Equal(t, codes.ResourceExhausted, denied.Code())
		retry := denied.Details()[0].(*errdetails.RetryInfo).RetryDelay.AsDuration()
		require.Greater(t, retry, 29*time.Minute)
		require.LessOrEqual(t, retry, 30*time.Minute)
		require.Equal(t, codes.OK, call(redistest.ID()).Code(), "another user")
	})
}

// Redis being down is never a denial.
func TestInterceptorWithoutRedis(t *testing.T) {
	for _, policy := range []ratelimit.FailurePolicy{ratelimit.FailWithError, ratelimit.FailClosed} {
		s := redistest.Mini(t)
		l, err := ratelimit.NewTokenBucket(s.Client(t), ratelimit.PerHour(2), &ratelimit.Options{Timeout: -1, OnFailure: policy})
		require.NoError(t, err)
		s.Mini.SetError("LOADING x")
		_, err = serve(t, l).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
		require.Equal(t, codes.Unavailable, status.Code(err))
	}
}
