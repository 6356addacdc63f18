package bench

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Report writes markdown.
type Report struct {
	W       io.Writer
	summary [][]string
	page    page
}

// Section begins a section.
func (p *Report) Section(name string) { fmt.Fprintf(p.W, "\n## %s\n", name) }

// Title begins a table's section.
func (p *Report) Title(title string) { fmt.Fprintf(p.W, "\n### %s\n\n", title) }

// Text writes a paragraph.
func (p *Report) Text(format string, args ...any) {
	fmt.Fprintf(p.W, format+"\n", args...)
}

// Table writes a markdown table; all columns but the first are numbers.
func (p *Report) Table(head []string, rows [][]string) {
	fmt.Fprintf(p.W, "| %s |\n|---|%s\n", strings.Join(head, " | "), strings.Repeat("---:|", len(head)-1))
	for _, r := range rows {
		fmt.Fprintf(p.W, "| %s |\n", strings.Join(r, " | "))
	}
}

var closedLoopHead = []string{
	"contender", "ops/s", "vs ref", "(quartiles)", "vs merging ref", "CPU vs ref", "p50 µs", "p99 µs", "round trips/op",
	"commands/op", "Lua calls/op", "server CPU µs/op", "bytes in/op", "bytes out/op", "client CPU µs/op", "allocs/op",
	"alloc B/op", "errors",
}

// ClosedLoop writes the table of a closed-loop scenario, its notes and the commands that each contender sent, and keeps
// what the summary and the page need.
func (p *Report) ClosedLoop(what string, workers int, rows []row) {
	title := titled(what, workers)
	p.Title(title)
	var lines [][]string
	for _, r := range rows {
		m := r.med
		lines = append(lines, []string{
			label(r.name, r.ref), fmt.Sprintf("%.0f", m.rate), fmt.Sprintf("%.2f", r.ratio),
			fmt.Sprintf("%.2f-%.2f", r.low, r.high), orDash("%.2f", r.merged), fmt.Sprintf("%.2f", r.cpuRatio),
			fmt.Sprintf("%.0f", r.p50), fmt.Sprintf("%.0f", r.p99),
			fmt.Sprintf("%.2f", m.reads), fmt.Sprintf("%.2f", r.counts.topLevel), fmt.Sprintf("%.2f", r.counts.lua),
			fmt.Sprintf("%.1f", m.serverCPU), fmt.Sprintf("%.0f", m.in), fmt.Sprintf("%.0f", m.out),
			fmt.Sprintf("%.1f", m.clientCPU), fmt.Sprintf("%.1f", m.allocs), fmt.Sprintf("%.0f", m.bytes),
			fmt.Sprintf("%.1f%%", 100*m.errorShare),
		})
	}
	p.Table(closedLoopHead, lines)
	p.Text("")
	for _, r := range rows {
		var parts []string
		if r.note != "" {
			parts = append(parts, r.note)
		}
		parts = append(parts, "sends "+commandMix(r.counts))
		if r.med.firstError != nil {
			parts = append(parts, fmt.Sprintf("first error: %v", r.med.firstError))
		}
		p.Text("- %s: %s", r.name, strings.Join(parts, "; "))
	}
	p.remember(title, rows)
	p.page.add(what, workers, rows)
}

// remember keeps a line for each of this library's contenders, with the best peer beside it.
func (p *Report) remember(title string, rows []row) {
	var best *row
	for i, r := range rows {
		if !r.ref && !ours(r.name) && (best == nil || r.ratio > best.ratio) {
			best = &rows[i]
		}
	}
	peer := []string{"-", "-", "-"}
	if best != nil {
		peer = []string{best.name, fmt.Sprintf("%.2f", best.ratio), fmt.Sprintf("%.1f", best.med.allocs)}
	}
	for _, r := range rows {
		if ours(r.name) {
			p.summary = append(p.summary, append([]string{
				title, r.name, fmt.Sprintf("%.2f", r.ratio), orDash("%.2f", r.merged), fmt.Sprintf("%.2f", r.cpuRatio),
				fmt.Sprintf("%.2f", r.med.reads), fmt.Sprintf("%.1f", r.med.allocs),
			}, peer...))
			title = ""
		}
	}
}

// Summary writes this library's lines of all closed-loop tables.
func (p *Report) Summary() {
	p.Section("summary")
	p.Text("")
	p.Table([]string{
		"work", "contender", "vs ref", "vs merging ref", "CPU vs ref", "round trips/op", "allocs/op",
		"best peer", "vs ref", "allocs/op",
	}, p.summary)
}

// commandMix lists the commands of a counting pass, per operation.
func commandMix(c counts) string {
	var total int64
	for _, n := range c.names {
		total += n
	}
	if total == 0 {
		return "nothing"
	}
	perCount := (c.topLevel + c.lua) / float64(total)
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(c.names)) {
		if x := float64(c.names[name]) * perCount; x >= 0.005 {
			parts = append(parts, fmt.Sprintf("%s %.2f", name, x))
		}
	}
	return strings.Join(parts, ", ")
}

func ours(name string) bool { return strings.HasPrefix(name, Ours) }

func label(name string, ref bool) string {
	switch {
	case ref:
		return "_" + name + "_"
	case ours(name):
		return "**" + name + "**"
	}
	return name
}

// orDash formats x, or writes a dash where there is none.
func orDash(format string, x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf(format, x)
}
