// Package grpcexample holds the example of docs/algorithms.md that needs gRPC, and its test, in a module of its own: the
// library does not depend on gRPC.
package grpcexample
