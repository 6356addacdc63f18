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
	headerArg = regexp.MustCompile(`(?m)^-- ((?:KEYS|ARGV)\[\d+\])(\.\.\.)?  +\S`)
	codeArg   = regexp.MustCompile(`(?:KEYS|ARGV)\[\d+\]`)
	bigNumber = regexp.MustCompile(`tostring\(`)
)

// Every script says in its header what it takes and what it answers: "-- KEYS[1]  the lock", and "-- ARGV[3]...  fields" for
// the third and all that follow. The header is held against the code.
func TestScriptHeaders(t *testing.T) {
	t.Parallel()
	scripts := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".lua" {
			return err
		}
		scripts++
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		t.Run(path, func(t *testing.T) {
			header, code := split(string(source))
			require.True(t, strings.HasPrefix(header, "-- "+filepath.Base(path)+" "), "the header begins with the script's name")
			require.Regexp(t, `(?m)^-- Returns `, header)
			documented := map[string]bool{}
			for _, m := range headerArg.FindAllStringSubmatch(header, -1) {
				documented[m[1]] = true
				if m[2] == "" {
					require.Contains(t, code, m[1], "documented and not used")
				}
			}
			for _, arg := range codeArg.FindAllString(code, -1) {
				require.True(t, documented[arg], "%s is used and not documented", arg)
			}
			require.NotRegexp(t, bigNumber, code, "tostring loses digits: use string.format")
		})
		return nil
	})
	require.NoError(t, err)
	require.NotZero(t, scripts)
}

// split separates the comment that a script begins with from the rest, without its comments.
func split(source string) (header, code string) {
	lines := strings.Split(source, "\n")
	n := 0
	for n < len(lines) && strings.HasPrefix(lines[n], "--") {
		n++
	}
	var rest []string
	for _, line := range lines[n:] {
		line, _, _ = strings.Cut(line, "--")
		rest = append(rest, line)
	}
	return strings.Join(lines[:n], "\n"), strings.Join(rest, "\n")
}
