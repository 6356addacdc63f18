package e2e

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// setSelect chooses an option as a visitor would.
func setSelect(selector, option string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(() => { const s = document.querySelector(%q); s.value = %q;
		s.dispatchEvent(new Event("change", {bubbles: true})); })()`, selector, option))
}

const heights = `[...document.querySelectorAll(".panel")].map(p => Math.round(p.getBoundingClientRect().height))`

// At each width nothing sticks out, and what happens moves nothing that does not belong to it.
func TestLooks(t *testing.T) {
	url := serve(t)
	for _, width := range []int64{360, 820, 1440, 1600} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			p := open(t, url, width, 900, "light")
			p.eventually(`text("#session-key") === "no session" && $("#around").children.length === 5`)
			before := value[[]int](p, heights)
			p.click(`#login button[value=B]`)
			p.eventually(`field("username") === "tanaka"`)
			p.click(`#edge`)
			p.eventually(`$("#edge").disabled`)
			p.eventually(`!$("#edge").disabled`)
			p.eventually(`lanes("holding").length === 1`)
			p.picture(fmt.Sprintf("light-%d.png", width))
			require.Equal(t, before, value[[]int](p, heights), "the panels' heights")
			require.LessOrEqual(t, value[int](p, `document.documentElement.scrollWidth`), int(width))
			p.do(prefer("prefers-color-scheme", "dark"))
			p.eventually(`getComputedStyle(document.documentElement).backgroundColor === "rgb(20, 20, 18)"`)
			p.picture(fmt.Sprintf("dark-%d.png", width))
		})
	}
}

func TestEverythingHasAName(t *testing.T) {
	p := open(t, serve(t), 1280, 900, "light")
	require.Empty(t, value[[]string](p, `[...document.querySelectorAll("button, input, select, canvas, section.panel")].filter(e =>
		!(e.getAttribute("aria-label") || e.labels?.length || e.getAttribute("aria-labelledby") || e.textContent.trim())).map(e => e.outerHTML)`))
	require.Equal(t, 1, value[int](p, `document.querySelectorAll("h1").length`))
	require.Equal(t, "en", value[string](p, `document.documentElement.lang`))
}

// Whoever wants less motion sees no row glide.
func TestLessMotion(t *testing.T) {
	p := open(t, serve(t), 1280, 900, "light")
	p.do(prefer("prefers-reduced-motion", "reduce"))
	p.do(chromedp.Evaluate[chromedp.Void](`window.moved = 0; Element.prototype.animate = () => { window.moved++ };`))
	for range 3 {
		last := value[string](p, `text("#last")`)
		p.eventually(fmt.Sprintf(`text("#last") !== %q`, last))
	}
	require.Zero(t, value[int](p, `window.moved`))
}
