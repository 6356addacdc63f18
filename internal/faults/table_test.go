package faults_test

import "testing"

// table is docs/guarantees.md, in its order.
var table = []fault{
	restart, readOnly, loading, outOfMemory, eviction, fullPool, storm,
	sentinelKill, sentinelStale,
	clusterKill, clusterFailover, clusterMigration,
}

// fault is something that befalls Redis, and what each pattern makes of it.
type fault struct {
	name  string // of the section and, with _ for spaces, of the test
	story string // what happens, in a sentence or two
	// start starts servers for the fault, and says how it strikes them and how it ends.
	start func(t *testing.T) *world
	cells map[string]cell // by pattern
}

// cell is a row of the page, and the test of what it says.
type cell struct {
	sees  string // what the caller sees
	lost  string // what can be lost
	long  string // for how long
	check func(c *check)
}

// patterns are the rows of each section.
var patterns = []string{"session", "ratelimit", "ranking", "lock"}
