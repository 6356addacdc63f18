package main

import (
	"os"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

func TestMain(m *testing.M) {
	embedded := miniredis.NewMiniRedis()
	embedded.ClockTTL(true)
	if err := embedded.Start(); err != nil {
		panic(err)
	}
	defer embedded.Close()
	os.Setenv("REDIS_ADDR", embedded.Addr())
	m.Run()
}

func Example() {
	main()
	// Output:
	// logged in: user42
	// allowed: true
	// rank: 1
	// held: true
}
