package main

import (
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// report is what a run has done and seen. Safe for concurrent use until it is printed.
type report struct {
	mu         sync.Mutex
	began      time.Time
	length     time.Duration
	operations map[string]int64 // "lock: acquired" and so on: what callers asked for, and got
	answers    map[string]int64 // "lock: lost": what else they were told
	faults     map[string]int64
	violations []violation
	more       int // violations beyond those that are kept
}

// violation is a promise that was broken.
type violation struct {
	at   time.Duration // since the beginning
	kind string
	what string
}

// maxOfKind violations of a kind are kept, so that a broken run can still be read.
const maxOfKind = 10

func newReport() *report {
	return &report{began: time.Now(), operations: map[string]int64{}, answers: map[string]int64{}, faults: map[string]int64{}}
}

func (r *report) fault(name string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults[name] += int64(n)
}

func (r *report) add(operations, answers map[string]int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, n := range operations {
		r.operations[name] += n
	}
	for name, n := range answers {
		r.answers[name] += n
	}
}

func (r *report) violate(kind, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	same := 0
	for _, v := range r.violations {
		if v.kind == kind {
			same++
		}
	}
	if same == maxOfKind {
		r.more++
		return
	}
	r.violations = append(r.violations, violation{time.Since(r.began), kind, fmt.Sprintf(format, args...)})
}

// kinds are those of the violations so far.
func (r *report) kinds() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[string]bool{}
	for _, v := range r.violations {
		seen[v.kind] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// operated are the patterns of which some operation went as asked so far.
func (r *report) operated() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[string]bool{}
	for name := range r.operations {
		pattern, _, _ := strings.Cut(name, ":")
		seen[pattern] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

func (r *report) print(w io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(w, "%s of load and faults, %s/%s, %d CPUs\n", r.length.Round(time.Second), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	section(w, "operations", r.operations)
	section(w, "other answers", r.answers)
	section(w, "faults", r.faults)
	fmt.Fprintf(w, "violations: %d\n", len(r.violations)+r.more)
	for _, v := range r.violations {
		fmt.Fprintf(w, "  %8s %s: %s\n", v.at.Round(time.Millisecond), v.kind, strings.ReplaceAll(v.what, "\n", "\n    "))
	}
	if r.more > 0 {
		fmt.Fprintf(w, "  and %d more\n", r.more)
	}
}

func section(w io.Writer, title string, counts map[string]int64) {
	var sum int64
	for _, n := range counts {
		sum += n
	}
	fmt.Fprintf(w, "%s: %d\n", title, sum)
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(w, "  %8d %s\n", counts[name], name)
	}
}
