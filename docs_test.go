package redispatterns_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	mdLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mdHeading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
)

// Every link from one page to another leads to a file that is there, and to a heading in it; and the README leads to every page.
func TestLinks(t *testing.T) {
	t.Parallel()
	linked := map[string]bool{}
	var pages []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	})
	require.NoError(t, err)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, link := range mdLink.FindAllStringSubmatch(string(text), -1) {
			target, anchor, _ := strings.Cut(link[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			to := filepath.Join(filepath.Dir(page), filepath.FromSlash(target))
			if target == "" {
				to = page
			}
			info, err := os.Stat(to)
			require.NoError(t, err, "%s links to %s", page, link[1])
			if page == "README.md" {
				linked[to] = true
			}
			if anchor != "" && !info.IsDir() {
				require.Contains(t, anchors(t, to), anchor, "%s links to %s", page, link[1])
			}
		}
	}
	for _, page := range pages {
		if filepath.Dir(page) == "docs" {
			require.True(t, linked[page], "README.md does not lead to %s", page)
		}
	}
}

// anchors are the headings of a page as GitHub links to them.
func anchors(t *testing.T, page string) (slugs []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, heading := range mdHeading.FindAllStringSubmatch(string(text), -1) {
		slug := strings.ToLower(notInSlug.ReplaceAllString(heading[1], ""))
		slugs = append(slugs, strings.ReplaceAll(slug, " ", "-"))
	}
	return slugs
}
