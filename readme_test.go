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

var codeBlock = regexp.MustCompile("(?ms)^```(?:go|sql)\n(.*?)^```$")

// Every Go block of the README and of docs/ is code that compiles in an example: it stands there line by line. So does SQL, which
// an example runs.
func TestReadmeIsCode(t *testing.T) {
	t.Parallel()
	var examples strings.Builder
	var pages []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		switch name := filepath.Base(path); {
		case name == "README.md" || filepath.Dir(path) == "docs" && filepath.Ext(name) == ".md":
			pages = append(pages, path)
		case strings.HasPrefix(name, "example") && strings.HasSuffix(name, "_test.go"),
			strings.HasPrefix(path, "examples"+string(filepath.Separator)) && filepath.Ext(name) == ".go":
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			examples.WriteString(flat(string(source)))
		}
		return nil
	})
	require.NoError(t, err)
	code, blocks := examples.String(), 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, block := range codeBlock.FindAllStringSubmatch(string(text), -1) {
			blocks++
			require.True(t, strings.Contains(code, flat(block[1])), "this block of %s stands in no example:\n%s", page, block[1])
		}
	}
	require.NotZero(t, blocks)
}

// flat is code without indentation and empty lines.
func flat(code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// The first screen shows the two commands, as they are.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	lines := strings.SplitN(string(text), "\n", 41)
	first := strings.Join(lines[:min(40, len(lines))], "\n")
	require.Contains(t, first, "\ngo run ./examples/tour")
	require.Contains(t, first, "\ngo test ./...")
}
