package e2e

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// TestScreenshot makes the picture that the README shows: `make screenshot`.
func TestScreenshot(t *testing.T) {
	file := os.Getenv("REDISPATTERNS_SCREENSHOT")
	if file == "" {
		t.Skip("REDISPATTERNS_SCREENSHOT does not say where to")
	}
	p := open(t, serve(t), 1440, 900, "light")
	p.click(`#login button[value=A]`)
	p.eventually(`field("username") === "tanaka"`)
	p.click(`[data-server=A] button.quiet`)
	p.click(`[data-server=B] button`)
	p.eventually(`field("last_server") === "B"`)
	p.holderIsPausedTooLong()
	p.click(`#edge`)
	p.eventually(`$("#edge").disabled`)
	p.eventually(`!$("#edge").disabled`)
	p.click(`#arrive`)
	p.eventually(`text("#arrive") === "Let scores arrive" && document.getAnimations().length === 0`)
	png, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, png, 0o644))
}
