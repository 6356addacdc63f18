package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Scenarios, by the name that selects them.
var Scenarios = []struct {
	Name   string
	Run    func(*Run) error
	Memory func(*Run) error // may be nil; runs after all timed tables
}{
	{"lock", (*Run).lock, nil},
	{"ratelimit", (*Run).rateLimit, (*Run).limiterMemory},
	{"session", (*Run).session, (*Run).sessionMemory},
	{"ranking", (*Run).ranking, (*Run).rankingMemory},
}

// Do runs the scenarios of these names, or all, and ends with a summary.
func (r *Run) Do(names ...string) error {
	wanted := func(name string) bool { return slices.Contains(names, "all") || slices.Contains(names, name) }
	for _, name := range names {
		known := name == "all"
		for _, s := range Scenarios {
			known = known || s.Name == name
		}
		if !known {
			return fmt.Errorf("no scenario %q", name)
		}
	}
	for _, s := range Scenarios {
		if wanted(s.Name) {
			r.Out.Section(s.Name)
			if err := s.Run(r); err != nil {
				return err
			}
		}
	}
	first := true
	for _, s := range Scenarios {
		if s.Memory != nil && wanted(s.Name) {
			if first {
				r.Out.Section("memory")
				first = false
			}
			if err := s.Memory(r); err != nil {
				return err
			}
		}
	}
	r.Out.Summary()
	return nil
}

// field returns the contenders of a family that take part: references first, this library next, then by name, so that the
// order does not depend on file names.
func field[C, T any](r *Run, family []Contender[C, T]) []Contender[C, T] {
	group := func(c Contender[C, T]) int {
		switch {
		case c.Ref:
			return 0
		case ours(c.Name):
			return 1
		}
		return 2
	}
	var out []Contender[C, T]
	for _, c := range family {
		if c.Ref || strings.Contains(c.Name, r.Only) {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b Contender[C, T]) int {
		if g := group(a); g != group(b) || g < 2 {
			return cmp.Compare(g, group(b)) // references and ours keep the order they were registered in
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return out
}

// timed returns the contenders of a closed-loop table: those of field, and the first reference once more. What its ratio lacks
// to 1 is the noise of the run.
func timed[C, T any](r *Run, family []Contender[C, T]) []Contender[C, T] {
	out := field(r, family)
	i := slices.IndexFunc(out, func(c Contender[C, T]) bool { return c.Ref })
	if i < 0 {
		return out
	}
	again := out[i]
	again.Name, again.Note, again.again = again.Name+", again", "the same once more: what it lacks to 1 is noise", true
	return slices.Insert(out, i+1, again)
}

// stores returns those of field that keep something of their own in Redis.
func stores[C, T any](r *Run, family []Contender[C, T]) []Contender[C, T] {
	return slices.DeleteFunc(field(r, family), func(c Contender[C, T]) bool { return c.Same })
}

// table runs one closed-loop table: a work per contender, made by build.
func table[C, T any](r *Run, what string, workers int, family []Contender[C, T], build func(Contender[C, T]) (work, error)) error {
	title := titled(what, workers)
	r.Progress("%s", title)
	if err := r.Control.Flush(); err != nil {
		return err
	}
	var works []work
	for _, c := range timed(r, family) {
		w, err := build(c)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", title, c.Name, err)
		}
		w.about = c.about()
		works = append(works, w)
	}
	return r.measure(what, workers, works)
}

// measure runs the workloads and prints their table.
func (r *Run) measure(what string, workers int, works []work) error {
	rows, err := r.closedLoop(workers, works)
	if err != nil {
		return fmt.Errorf("%s: %w", titled(what, workers), err)
	}
	r.Out.ClosedLoop(what, workers, rows)
	return nil
}

func titled(what string, workers int) string { return fmt.Sprintf("%s, c=%d", what, workers) }

// conn is how a contender reaches the server at a concurrency.
func (r *Run) conn(workers int) Conn {
	c := r.Server
	c.Size = max(workers, 4)
	return c
}

// memory returns the growth of used_memory, and the number of keys, that fill leaves behind after it has closed its
// connections.
func (r *Run) memory(fill func() error) (used, keys int64, err error) {
	if err := r.Control.Flush(); err != nil {
		return 0, 0, err
	}
	before, err := r.Control.SettledMemory()
	if err != nil {
		return 0, 0, err
	}
	if err := fill(); err != nil {
		return 0, 0, err
	}
	after, err := r.Control.SettledMemory()
	if err != nil {
		return 0, 0, err
	}
	if keys, err = r.Control.Keys(); err != nil {
		return 0, 0, err
	}
	return after - before, keys, r.Control.Flush()
}
