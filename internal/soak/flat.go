package main

import (
	"fmt"
	"slices"
)

// sample is what one process uses at one time.
type sample struct {
	Goroutines int
	Heap       uint64 // bytes, after a collection
}

const (
	enoughSamples  = 30 // half seconds
	goroutineSlack = 30
	heapSlack      = 4 << 20
)

// flat compares the last third of a process's life with the first: what leaks is more at its least in the end than it was
// at its most in the beginning.
func flat(samples []sample) error {
	n := len(samples)
	if n < enoughSamples {
		return nil
	}
	samples = samples[n/10:] // while it warms up
	third := len(samples) / 3
	first, last := samples[:third], samples[len(samples)-third:]
	goroutines := func(a, b sample) int { return a.Goroutines - b.Goroutines }
	if was, is := slices.MaxFunc(first, goroutines).Goroutines, slices.MinFunc(last, goroutines).Goroutines; is > was+goroutineSlack {
		return fmt.Errorf("at most %d goroutines in the first third, at least %d in the last", was, is)
	}
	heap := func(a, b sample) int { return int(a.Heap) - int(b.Heap) }
	if was, is := slices.MaxFunc(first, heap).Heap, slices.MinFunc(last, heap).Heap; is > was+was/4+heapSlack {
		return fmt.Errorf("at most %d bytes of heap in the first third, at least %d in the last", was, is)
	}
	return nil
}
