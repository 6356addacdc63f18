package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"

	"github.com/redispatterns/redispatterns/internal/peerbench/bench"
)

// chart is a table, and a plot if it names a file.
type chart struct {
	title, file, x, y string
	xs                []int
	lines             []line
}

type line struct {
	name string
	ys   []float64
}

func (c chart) table(to *bench.Report) {
	head := []string{c.x}
	for _, l := range c.lines {
		head = append(head, l.name)
	}
	var rows [][]string
	for i, x := range c.xs {
		row := []string{grouped(x)}
		for _, l := range c.lines {
			row = append(row, figure(l.ys[i]))
		}
		rows = append(rows, row)
	}
	to.Table(head, rows)
}

// figure has three digits, which is more than a repetition would confirm.
func figure(v float64) string {
	digits := 2 - int(math.Floor(math.Log10(max(v, 0.001))))
	return strconv.FormatFloat(v, 'f', min(max(digits, 0), 3), 64)
}

func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

// The plot's measures. Its colours can be told apart by the colour-blind, and stand out from white and from near-black.
const (
	width, height            = 720, 380
	left, right, top, bottom = 60, 190, 44, 52
)

var (
	colours = []string{"#0072b2", "#d55e00", "#009e73", "#b5651d", "#cc79a7"}
	marks   = []string{"circle", "square", "diamond", "circle", "square"}
)

// svg draws the chart with a logarithmic x axis and a y axis from 0, or a logarithmic one where the costs differ by more than
// a factor of 20.
func (c chart) svg() []byte {
	low, high := math.Inf(1), 0.0
	for _, l := range c.lines {
		low, high = min(low, slices.Min(l.ys)), max(high, slices.Max(l.ys))
	}
	logY := low > 0 && high/low > 20
	yTicks := linearTicks(high)
	if logY {
		yTicks = decades(low, high)
	}
	first, last := math.Log10(float64(c.xs[0])), math.Log10(float64(c.xs[len(c.xs)-1]))
	if first == last {
		last++
	}
	px := func(x int) float64 {
		return left + (math.Log10(float64(x))-first)/(last-first)*(width-left-right)
	}
	py := func(y float64) float64 {
		part := y / yTicks[len(yTicks)-1]
		if logY {
			part = math.Log10(y/yTicks[0]) / math.Log10(yTicks[len(yTicks)-1]/yTicks[0])
		}
		return height - bottom - part*(height-top-bottom)
	}

	var b bytes.Buffer
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="13" role="img">`, width, height)
	p(`<title>%s</title>`, html.EscapeString(c.title))
	p(`<style>text{fill:#24292f}.grid{stroke:#d0d7de}.back{fill:#fff}@media(prefers-color-scheme:dark){text{fill:#e6edf3}.grid{stroke:#3d444d}.back{fill:#0d1117}}</style>`)
	p(`<rect class="back" width="%d" height="%d"/>`, width, height)
	p(`<text x="%d" y="24" font-size="16" font-weight="600">%s</text>`, left, html.EscapeString(c.title))
	for _, y := range yTicks {
		p(`<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, left, width-right, py(y), py(y))
		p(`<text x="%d" y="%.1f" text-anchor="end">%s</text>`, left-8, py(y)+4, strconv.FormatFloat(y, 'g', 4, 64))
	}
	for i, x := range c.xs {
		if i > 0 && px(x)-px(c.xs[i-1]) < 40 {
			continue
		}
		p(`<text x="%.1f" y="%d" text-anchor="middle">%s</text>`, px(x), height-bottom+20, short(x))
	}
	p(`<text x="%d" y="%d" text-anchor="middle">%s</text>`, left+(width-left-right)/2, height-12, html.EscapeString(c.x))
	p(`<text transform="translate(16 %d) rotate(-90)" text-anchor="middle">%s</text>`, top+(height-top-bottom)/2, html.EscapeString(c.y))
	labels := c.labels(py)
	for k, l := range c.lines {
		var path bytes.Buffer
		for i, y := range l.ys {
			fmt.Fprintf(&path, "%.1f,%.1f ", px(c.xs[i]), py(y))
		}
		p(`<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`, bytes.TrimSpace(path.Bytes()), colours[k])
		for i, y := range l.ys {
			p("%s", mark(marks[k], colours[k], px(c.xs[i]), py(y)))
		}
		p("%s", mark(marks[k], colours[k], width-right+16, labels[k]-4))
		p(`<text x="%d" y="%.1f">%s</text>`, width-right+28, labels[k], html.EscapeString(l.name))
	}
	p(`</svg>`)
	return b.Bytes()
}

// labels stand where their lines end, or below the one before.
func (c chart) labels(py func(float64) float64) []float64 {
	order := make([]int, len(c.lines))
	for i := range order {
		order[i] = i
	}
	end := func(k int) float64 { return py(c.lines[k].ys[len(c.xs)-1]) }
	slices.SortFunc(order, func(a, b int) int { return int(math.Copysign(1, end(a)-end(b))) })
	out := make([]float64, len(c.lines))
	at := 0.0
	for _, k := range order {
		at = max(at+18, end(k)+4)
		out[k] = at
	}
	return out
}

func mark(shape, colour string, x, y float64) string {
	switch shape {
	case "square":
		return fmt.Sprintf(`<rect x="%.1f" y="%.1f" width="8" height="8" fill="%s"/>`, x-4, y-4, colour)
	case "diamond":
		return fmt.Sprintf(`<path d="M%.1f %.1fl5.5 5.5l-5.5 5.5l-5.5-5.5z" fill="%s"/>`, x, y-5.5, colour)
	}
	return fmt.Sprintf(`<circle cx="%.1f" cy="%.1f" r="4.5" fill="%s"/>`, x, y, colour)
}

func short(n int) string {
	switch {
	case n >= 1_000_000:
		return strconv.FormatFloat(float64(n)/1e6, 'g', 3, 64) + "M"
	case n >= 10_000:
		return strconv.FormatFloat(float64(n)/1e3, 'g', 3, 64) + "k"
	}
	return grouped(n)
}

func linearTicks(high float64) []float64 {
	step := math.Pow(10, math.Floor(math.Log10(high)))
	for _, part := range []float64{0.2, 0.25, 0.5, 1} {
		if high <= 5*step*part*1.0001 {
			step *= part
			break
		}
	}
	var out []float64
	for y := 0.0; y < high+step; y += step {
		out = append(out, y)
	}
	return out
}

func decades(low, high float64) []float64 {
	var out []float64
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		out = append(out, math.Pow(10, e))
	}
	return out
}
