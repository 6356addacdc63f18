// Package e2e drives examples/live in a real browser.
package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

var (
	binary  string          // examples/live
	browser context.Context // whose tabs the tests are
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "e2e")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "live")
	build := exec.Command("go", "build", "-o", binary, "./examples/live")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%v: %s", err, out))
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, // containers and CI run as root
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("disable-background-timer-throttling", true),
		chromedp.WSURLReadTimeout(time.Minute))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	var end context.CancelFunc
	browser, end = chromedp.NewContext(allocator)
	defer end()
	if err := chromedp.Do(browser); err != nil {
		panic(err)
	}
	return m.Run()
}

// serve runs examples/live until the test ends, and returns its address.
func serve(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), "ADDR=127.0.0.1:0", "REDIS_ADDR=")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		require.NoError(t, cmd.Wait())
	})
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	_, url, ok := strings.Cut(lines.Text(), " listens on ")
	require.True(t, ok, lines.Text())
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return url
}

// page is the page in a tab of its own.
type page struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	errors []string
}

// patience is how long a busy machine may take for what the page should show.
const patience = 90 * time.Second

func open(t *testing.T, url string, width, height int64, scheme string) *page {
	t.Helper()
	ctx, closeTab := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	require.NoError(t, chromedp.Do(ctx)) // opens the tab, which ends with the context of its first step
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	p := &page{t: t, ctx: ctx}
	t.Cleanup(func() {
		cancel()
		closeTab()
		p.mu.Lock()
		defer p.mu.Unlock()
		require.Empty(t, p.errors, "errors on the browser's console")
	})
	require.NoError(t, chromedp.Listen(ctx, func(event any) {
		var text string
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			text = e.ExceptionDetails.Text
			if e.ExceptionDetails.Exception != nil {
				text += " " + e.ExceptionDetails.Exception.Description
			}
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeAssert {
				text = fmt.Sprint("console.", e.Type)
				for _, arg := range e.Args {
					text += " " + string(arg.Value)
				}
			}
		case *log.EventEntryAdded:
			// A server that says 401, or that is stopped, is part of the story, and the browser notes it.
			if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
				text = e.Entry.Text
			}
		}
		if text != "" {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.errors = append(p.errors, text)
		}
	}))
	p.do(
		chromedp.EmulateViewport(width, height),
		prefer("prefers-color-scheme", scheme),
		chromedp.Navigate(url),
	)
	p.eventually(`link.dataset.state === "on" && top10() === 10 && document.querySelectorAll("#lanes p[data-state]").length === 4`)
	return p
}

// prefer sets what the visitor prefers, instead of what was set before.
func prefer(feature, value string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: feature, Value: value}},
		})
		return err
	})
}

func (p *page) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Do(p.ctx, steps...))
}

// helpers are for the expressions of the tests.
const helpers = `
const $ = s => document.querySelector(s);
const link = $("#link");
const text = s => $(s)?.textContent ?? "";
const top10 = () => document.querySelectorAll("#top li").length;
const lanes = state => [...document.querySelectorAll(".lane")].filter(l => l.querySelector("p").dataset.state === state).map(l => l.dataset.worker);
const field = name => [...document.querySelectorAll("#session-fields tr")].find(r => r.cells[0].textContent === name)?.cells[1].textContent;
const row = (board, n) => [...($(board).children[n - 1]?.children ?? [])].map(e => e.textContent);
`

// value evaluates an expression on the page.
func value[T any](p *page, expression string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T]("(() => {"+helpers+"return ("+expression+")})()"))
	require.NoError(p.t, err, expression)
	return v
}

// eventually waits until an expression is true.
func (p *page) eventually(expression string) {
	p.t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	late := time.After(patience)
	for !value[bool](p, expression) {
		select {
		case <-again.C:
		case <-late:
			p.picture("late.png")
			require.Fail(p.t, "it did not come true", "%s", expression)
		}
	}
}

func (p *page) click(selector string) {
	p.t.Helper()
	p.do(chromedp.Click(chromedp.CSS(selector)))
}

// fill replaces what stands in a field.
func (p *page) fill(selector, text string) {
	p.t.Helper()
	p.do(
		chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.querySelector(%q).value = ''", selector)),
		chromedp.SendKeys(chromedp.CSS(selector), text),
	)
}

// picture keeps the whole page as a picture, among the test's artifacts (go test -artifacts).
func (p *page) picture(name string) {
	p.t.Helper()
	png, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	require.NoError(p.t, err)
	require.NoError(p.t, os.WriteFile(filepath.Join(p.t.ArtifactDir(), name), png, 0o644))
}
