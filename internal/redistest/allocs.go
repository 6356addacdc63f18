package redistest

import "testing"

// Allocs is how many allocations a call of op makes: the least of five averages, since what goes on beside a test is
// counted too. The first call is not.
func Allocs(t testing.TB, op func() error) float64 {
	t.Helper()
	call := func() {
		if err := op(); err != nil {
			t.Fatal(err)
		}
	}
	least := testing.AllocsPerRun(100, call)
	for range 4 {
		least = min(least, testing.AllocsPerRun(100, call))
	}
	return least
}
