package grpcexample_test

import (
	"context"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/redispatterns/redispatterns/ratelimit"
)

// Limit allows each user so many calls of each method.
func Limit(l *ratelimit.Limiter) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		r, err := l.Allow(ctx, userOf(ctx)+" "+info.FullMethod)
		switch {
		case err != nil || !r.Allowed && r.Reason == ratelimit.ReasonUnavailable:
			return nil, status.Error(codes.Unavailable, "rate limiter unavailable")
		case !r.Allowed:
			s, _ := status.New(codes.ResourceExhausted, "rate limit exceeded").
				WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(r.RetryAfter)})
			return nil, s.Err()
		}
		return handler(ctx, req)
	}
}

// userOf stands for whatever has authenticated the caller.
func userOf(ctx context.Context) string {
	if users := metadata.ValueFromIncomingContext(ctx, "user"); len(users) == 1 {
		return users[0]
	}
	return "nobody"
}
