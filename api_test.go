package redispatterns_test

import (
	"flag"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write internal/api anew")

// The exported names, types and signatures of each package are those in internal/api, so that no change of them goes unseen.
func TestAPI(t *testing.T) {
	t.Parallel()
	for name, folder := range packages {
		golden, got := filepath.Join("internal", "api", name+".txt"), exported(t, folder)
		if *update {
			require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		require.Equal(t, string(want), got, "the API of %s has changed; if it was meant to: go test -run TestAPI -update .", name)
	}
}

// exported is all that a package exports, as Go, without comments.
func exported(t *testing.T, folder string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	require.NoError(t, err)
	fset := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		if !strings.HasSuffix(path, "_test.go") {
			f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			files = append(files, f)
		}
	}
	p, err := doc.NewFromFiles(fset, files, folder)
	require.NoError(t, err)

	var b strings.Builder
	decl := func(node ast.Decl) {
		ast.Inspect(node, uncomment)
		var text strings.Builder
		require.NoError(t, printer.Fprint(&text, fset, node))
		for line := range strings.Lines(text.String()) { // how gofmt aligns it depends on the comments
			words := strings.Join(strings.Fields(line), " ")
			switch {
			case words == "":
			case strings.HasPrefix(line, "\t"):
				b.WriteString("\t" + words + "\n")
			default:
				b.WriteString(words + "\n")
			}
		}
	}
	values := func(all ...[]*doc.Value) {
		for _, group := range all {
			for _, v := range group {
				decl(v.Decl)
			}
		}
	}
	funcs := func(all ...[]*doc.Func) {
		for _, group := range all {
			for _, f := range group {
				decl(f.Decl)
			}
		}
	}
	b.WriteString("package " + p.Name + "\n")
	values(p.Consts, p.Vars)
	funcs(p.Funcs)
	for _, kind := range p.Types {
		decl(kind.Decl)
		values(kind.Consts, kind.Vars)
		funcs(kind.Funcs, kind.Methods)
	}
	return b.String()
}

// uncomment takes the comments and the bodies off a declaration.
func uncomment(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncDecl:
		n.Doc, n.Body = nil, nil
	case *ast.GenDecl:
		n.Doc = nil
	case *ast.TypeSpec:
		n.Doc, n.Comment = nil, nil
	case *ast.ValueSpec:
		n.Doc, n.Comment = nil, nil
	case *ast.Field:
		n.Doc, n.Comment = nil, nil
	}
	return true
}

// Nothing is exported that no example calls: each function and method is called in one.
func TestEveryFunctionIsInAnExample(t *testing.T) {
	t.Parallel()
	called := map[string]bool{}
	note := func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			called[selector.Sel.Name] = true
		}
		return true
	}
	fset := token.NewFileSet()
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		example := strings.HasPrefix(path, "examples"+string(filepath.Separator))
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") == example {
			return err
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); example || ok && strings.HasPrefix(fn.Name.Name, "Example") {
				ast.Inspect(d, note)
			}
		}
		return nil
	}))
	byOthers := []string{"Error", "Is", "Unwrap", "String", "GoString", "LogValue"} // errors, fmt and slog call them
	for _, folder := range packages {
		for _, m := range exportedFunc.FindAllStringSubmatch(exported(t, folder), -1) {
			if !slices.Contains(byOthers, m[1]) && !called[m[1]] {
				t.Errorf("no example calls %s of package %s", m[1], folder)
			}
		}
	}
}

var exportedFunc = regexp.MustCompile(`(?m)^func (?:\([^)]*\) )?([A-Z]\w*)`)

var packages = map[string]string{"redispatterns": ".", "session": "session", "ratelimit": "ratelimit", "ranking": "ranking", "lock": "lock"}
