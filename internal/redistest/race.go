//go:build race

package redistest

// Race says whether the race detector is on: allocations are not counted then.
const Race = true
