// Package faults holds what the four patterns guarantee when Redis fails, as a table of which each row is text and test:
// fault × pattern, what the caller sees, what can be lost, and for how long. docs/guarantees.md is made of it.
//
//   - table_test.go: the faults in order, and what a row is
//   - one_test.go, failover_test.go, cluster_test.go: the rows, by the servers that they need
//   - session_test.go, ratelimit_test.go, ranking_test.go, lock_test.go: what the rows of a pattern have in common
//   - run_test.go: how a fault strikes four checks at once
//   - page_test.go: the page
package faults

//go:generate go test . -run ^TestPage$ -write
