package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// page is what docs/performance.md shows of a run.
type page struct {
	works []*pageWork
	other strings.Builder // tables of another kind
}

// pageWork is one piece of work at all the concurrencies that it was measured with.
type pageWork struct {
	what   string
	levels []int
	rows   [][]row // by level
}

func (p *page) add(what string, workers int, rows []row) {
	i := slices.IndexFunc(p.works, func(w *pageWork) bool { return w.what == what })
	if i < 0 {
		i = len(p.works)
		p.works = append(p.works, &pageWork{what: what})
	}
	p.works[i].levels = append(p.works[i].levels, workers)
	p.works[i].rows = append(p.works[i].rows, rows)
}

// table keeps a table of another kind.
func (p *page) table(title string, head []string, lines [][]string) {
	on := Report{W: &p.other}
	on.Text("\n%s:\n", title)
	on.Table(head, lines)
}

// aside writes a table into the report and keeps it for the page.
func (p *Report) aside(title string, head []string, lines [][]string) {
	p.Title(title)
	p.Table(head, lines)
	p.page.table(title, head, lines)
}

// Page writes the run as docs/performance.md has it: a line for each contender, with all concurrencies in it.
func (p *Report) Page(w io.Writer) {
	out := Report{W: w}
	if noise := p.page.noise(); noise != "" {
		out.Text("\n%s", noise)
	}
	for _, work := range p.page.works {
		out.Text("\n%s:\n", work.what)
		out.Table(work.table())
	}
	out.Text("%s", strings.TrimRight(p.page.other.String(), "\n"))
}

// noise says how far the lines that do the same as the reference lie from it.
func (p *page) noise() string {
	off := map[int][]float64{}
	var levels []int
	for _, work := range p.works {
		for i, level := range work.levels {
			for _, r := range work.rows[i] {
				if r.again {
					if off[level] == nil {
						levels = append(levels, level)
					}
					off[level] = append(off[level], math.Abs(r.ratio-1))
				}
			}
		}
	}
	var parts []string
	for _, level := range levels {
		parts = append(parts, fmt.Sprintf("%.2f in the median and %.2f at most with %s", median(off[level]), slices.Max(off[level]), goroutines(level)))
	}
	if parts == nil {
		return ""
	}
	return "The reference once more lies off 1 by " + strings.Join(parts, ", ") + "."
}

// table has the lines of all levels side by side. What is exact is taken from the last, where a client that merges shows it.
func (w *pageWork) table() (head []string, lines [][]string) {
	head = []string{"contender"}
	for _, level := range w.levels {
		head = append(head, goroutines(level))
	}
	head = append(head, "against the merging reference", "CPU", "round trips", "allocations")
	last := w.rows[len(w.rows)-1]
	for i, r := range last {
		line := []string{label(r.name, r.ref)}
		for _, rows := range w.rows {
			line = append(line, fmt.Sprintf("%.2f (%.2f–%.2f)", rows[i].ratio, rows[i].low, rows[i].high))
		}
		line = append(line,
			w.each(i, func(r row) string { return orDash("%.2f", r.merged) }),
			w.each(i, func(r row) string { return fmt.Sprintf("%.2f", r.cpuRatio) }),
			fmt.Sprintf("%.2f", r.med.reads), fmt.Sprintf("%.0f", r.med.allocs))
		lines = append(lines, line)
	}
	return head, lines
}

// each joins a figure of all levels, or says that there is none.
func (w *pageWork) each(i int, of func(row) string) string {
	var parts []string
	for _, rows := range w.rows {
		parts = append(parts, of(rows[i]))
	}
	if slices.IndexFunc(parts, func(s string) bool { return s != "-" }) < 0 {
		return "-"
	}
	return strings.Join(parts, " / ")
}

func goroutines(n int) string {
	if n == 1 {
		return "1 goroutine"
	}
	return fmt.Sprintf("%d goroutines", n)
}
