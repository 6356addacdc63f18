package faults_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const pageFile = "../../docs/guarantees.md"

var write = flag.Bool("write", false, "write docs/guarantees.md rather than compare it")

// TestPage holds docs/guarantees.md against the table: each of its rows stands beside the test of what it says.
func TestPage(t *testing.T) {
	t.Parallel()
	links := map[string]bool{}
	for _, f := range table {
		require.False(t, links[anchor(f.name)], "two faults of one name: %s", f.name)
		links[anchor(f.name)] = true
		require.Len(t, f.cells, len(patterns), f.name)
		for _, pattern := range patterns {
			cell := f.cells[pattern]
			require.NotNil(t, cell.check, "%s, %s", f.name, pattern)
			for _, text := range []string{cell.sees, cell.lost, cell.long} {
				require.True(t, strings.HasSuffix(text, "."), "%s, %s: %q is no sentence", f.name, pattern, text)
				require.NotContains(t, text, "|")
			}
		}
	}
	if *write {
		require.NoError(t, os.WriteFile(pageFile, []byte(page()), 0o644))
	}
	text, err := os.ReadFile(pageFile)
	require.NoError(t, err)
	require.Equal(t, page(), string(text), "docs/guarantees.md is not what the table says: go generate ./internal/faults")
}

const intro = `<!-- Made by go generate ./internal/faults from the table in internal/faults; do not edit. -->

# What holds when Redis fails

What a caller sees, what can be lost, and for how long: for each pattern, under each fault. Every row is a test that brings
the fault about on real servers and checks what the row says; the text stands beside the check in
[internal/faults](../internal/faults), and this page is made of it.

Three things hold in every row:

- **Broken is an error, and "no" is an answer.** A Redis that cannot answer is never "not found", "denied" or "not
  acquired", and ` + "`redis.Nil`" + ` never reaches you.
- **` + "`ErrUnknown`" + ` means just that**: the request was sent and no reply came. It was applied once, or not at all.
- **A failover can lose what Redis had answered**, since Redis replicates after it answers. No library on top can change
  that. Where a lost write must not matter, use what is said in the row: a fence, an operation's id, a second look.

Nothing here speaks of servers with an append-only file: what comes back from disk is up to its ` + "`appendfsync`" + `.
`

func page() string {
	var b strings.Builder
	b.WriteString(intro)
	b.WriteString("\n| fault | what can lose something |\n|---|---|\n")
	for _, f := range table {
		var losers []string
		for _, pattern := range patterns {
			if lost := f.cells[pattern].lost; !strings.HasPrefix(lost, "Nothing") {
				losers = append(losers, pattern)
			}
		}
		if len(losers) == 0 {
			losers = []string{"nothing"}
		}
		fmt.Fprintf(&b, "| [%s](#%s) | %s |\n", f.name, anchor(f.name), strings.Join(losers, ", "))
	}
	for _, f := range table {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", title(f.name), f.story)
		b.WriteString("| pattern | what the caller sees | what can be lost | for how long | test |\n|---|---|---|---|---|\n")
		for _, pattern := range patterns {
			cell := f.cells[pattern]
			fmt.Fprintf(&b, "| %s | %s | %s | %s | `%s/%s` |\n", pattern, cell.sees, cell.lost, cell.long, goName(f.name), pattern)
		}
		fmt.Fprintf(&b, "\nAll of them: `go test ./internal/faults -run '%s'`.\n", testName(f.name))
	}
	return b.String()
}

// title is a name as a heading, with a capital.
func title(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// anchor is where GitHub puts a heading.
func anchor(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
			return r
		}
		return -1
	}, strings.ToLower(name))
}

// goName is the fault's test as go test names it, above its patterns.
func goName(name string) string { return "TestGuarantees/" + strings.ReplaceAll(name, " ", "_") }

// testName is what runs a fault's rows, and no other's.
func testName(name string) string {
	quoted := strings.NewReplacer("(", `\(`, ")", `\)`, "'", ".").Replace(goName(name))
	return strings.Replace(quoted, "/", "/^", 1) + "$"
}
