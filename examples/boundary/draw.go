package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// What the picture measures, in pixels.
const (
	width    = 800
	left     = 70  // of the plots
	right    = 620 // the text stands beside them
	top      = 64
	height   = 130 // of a plot
	distance = 178 // from one to the next
	scale    = 20  // requests
)

// The colours are those of light and of dark pages; the background is the picture's own, so it can be read on either.
const style = `
  .page { fill: #ffffff } text { font: 13px system-ui, sans-serif; fill: #1f2328 } .dim { fill: #59636e }
  .head { font-size: 16px; font-weight: 600 } .name { font-family: ui-monospace, monospace; font-weight: 600 }
  .axis { stroke: #59636e; fill: none } .grid { stroke: #d1d9e0 } .edge { stroke: #59636e; stroke-dasharray: 2 3 }
  .limit { stroke: #bc4c00; stroke-dasharray: 6 4; stroke-width: 1.5 } text.limits { fill: #bc4c00 }
  .sum { stroke: #0969da; stroke-width: 2; fill: #0969da; fill-opacity: .12 }
  .allowed { fill: #0969da } .denied { stroke: #8c959f; fill: none }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } text { fill: #f0f6fc } .dim { fill: #9198a1 } .axis { stroke: #9198a1 } .grid { stroke: #30363d }
    .edge { stroke: #9198a1 } .limit { stroke: #f0883e } text.limits { fill: #f0883e }
    .sum { stroke: #58a6ff; fill: #58a6ff } .allowed { fill: #58a6ff } .denied { stroke: #7d8590 }
  }
`

// x is where a time lies, y how high a number of requests of the plot whose bottom is at base.
func x(at time.Duration) float64 {
	return left + float64(at-from+every)/float64(to-from+every)*(right-left)
}

func y(base float64, n int) float64 { return base - float64(n)/scale*height }

// draw writes the picture as SVG.
func draw(out io.Writer, lanes []*lane) error {
	var b strings.Builder
	bottom := top + distance*(len(lanes)-1) + height
	total := bottom + 74
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`,
		width, total, width, total, caption(lanes))
	fmt.Fprintf(&b, "\n<style>%s</style>\n<rect class=\"page\" width=\"100%%\" height=\"100%%\" rx=\"6\"/>\n", style)
	fmt.Fprintf(&b, `<text class="head" x="16" y="28">A burst around the end of a window: %d requests a second allowed, %d a second sent</text>`+"\n",
		limit, per/every)
	for i, l := range lanes {
		plot(&b, l, float64(top+distance*i+height))
	}
	ticks(&b, float64(bottom))
	fmt.Fprintf(&b, `<circle class="allowed" cx="%d" cy="%d" r="3.5"/><text x="%d" y="%d">allowed</text>`, left+4, total-14, left+14, total-10)
	fmt.Fprintf(&b, `<circle class="denied" cx="%d" cy="%d" r="3"/><text x="%d" y="%d">denied</text>`, left+84, total-14, left+94, total-10)
	fmt.Fprintf(&b, `<path class="sum" d="M%d %dh22"/><text x="%d" y="%d">allowed within the last second</text>`, left+156, total-14, left+184, total-10)
	b.WriteString("\n</svg>\n")
	_, err := io.WriteString(out, b.String())
	return err
}

// plot draws one algorithm: its requests below, and above them how many were allowed within the last second.
func plot(b *strings.Builder, l *lane, base float64) {
	fmt.Fprintf(b, "<g>\n"+`<text class="name" x="%d" y="%.0f">ratelimit.%s</text>`+"\n", left, base-height-10, l.name)
	for n := 0; n <= scale; n += 5 {
		fmt.Fprintf(b, `<path class="grid" d="M%d %.1fH%d"/><text class="dim" x="%d" y="%.1f" text-anchor="end">%d</text>`+"\n",
			left, y(base, n), right, left-8, y(base, n)+4.5, n)
	}
	fmt.Fprintf(b, `<text class="dim" transform="translate(26 %.0f) rotate(-90)" text-anchor="middle">requests</text>`+"\n", base-height/2)
	fmt.Fprintf(b, `<path class="edge" d="M%.1f %.1fV%.1f"/>`+"\n", x(0), base, base-height-6)
	fmt.Fprintf(b, `<path class="edge" d="M%.1f %.1fV%.1f"/>`+"\n", x(per), base, base-height-6)

	line := fmt.Sprintf("M%d %.1f", left, base)
	last := 0
	for i, r := range l.requests {
		if n := l.inWindow(i); n != last || i == len(l.requests)-1 {
			line += fmt.Sprintf("H%.1fV%.1f", x(r.sent), y(base, n))
			last = n
		}
	}
	fmt.Fprintf(b, `<path class="sum" d="%sV%.1f"/>`+"\n", line, base)
	fmt.Fprintf(b, `<path class="limit" d="M%d %.1fH%d"/><text class="limits" x="%d" y="%.1f">the limit</text>`+"\n",
		left, y(base, limit), right, right+10, y(base, limit)+4.5)
	fmt.Fprintf(b, `<path class="axis" d="M%d %.1fV%.1fH%d"/>`+"\n", left, base-height, base, right)
	for _, r := range l.requests {
		class, radius := "denied", 3.0
		if r.allowed {
			class, radius = "allowed", 3.5
		}
		fmt.Fprintf(b, `<circle class="%s" cx="%.1f" cy="%.1f" r="%.1f"/>`+"\n", class, x(r.sent), base+12, radius)
	}
	above := 0.0
	if l.most() == limit {
		above = 20 // where it covers no other text
	}
	fmt.Fprintf(b, `<text x="%d" y="%.1f" style="font-weight: 600">%d in one second</text>`+"\n</g>\n", right+10, y(base, l.most())+4.5-above, l.most())
}

// ticks labels the time axis, below the last plot.
func ticks(b *strings.Builder, base float64) {
	for at := -400 * time.Millisecond; at <= to; at += 200 * time.Millisecond {
		text := fmt.Sprintf("%.1f", at.Seconds())
		if at == 0 || at == per {
			text = "edge"
		}
		fmt.Fprintf(b, `<text class="dim" x="%.1f" y="%.0f" text-anchor="middle">%s</text>`+"\n", x(at), base+34, text)
	}
	fmt.Fprintf(b, `<text class="dim" x="%d" y="%.0f">seconds</text>`+"\n", right+10, base+34)
}

// caption is the picture in words, for who cannot see it.
func caption(lanes []*lane) string {
	var parts []string
	for _, l := range lanes {
		parts = append(parts, fmt.Sprintf("%s let %d through within one second", l.name, l.most()))
	}
	return fmt.Sprintf("With a limit of %d a second and a burst around the end of a window, %s.", limit, strings.Join(parts, ", "))
}
