package main

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEquivalentsExist: what is explained is still in the code, so that no
// explanation outlives its guard; and the finder finds guards everywhere.
func TestEquivalentsExist(t *testing.T) {
	t.Chdir("../..")
	w, err := find(targets)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := explanations(w); err != nil {
		t.Error(err)
	}
	n := map[string]int{}
	for _, m := range w.mutants {
		n[m.group]++
	}
	for _, target := range targets {
		if n[target.name] < 30 {
			t.Errorf("%s: only %d mutants", target.name, n[target.name])
		}
		for file, functions := range target.only {
			for _, fn := range functions {
				if !slices.ContainsFunc(w.mutants, func(m *mutant) bool {
					return m.file == filepath.Join(target.dir, file) && strings.HasSuffix(strings.Split(m.id, ": ")[0], fn)
				}) {
					t.Errorf("%s: nothing in %s of %s", target.name, fn, file)
				}
			}
		}
	}
}

const sample = `package sample

import "time"

func f(a, b int, t time.Time, ok bool) int {
	if a < b && !ok || t.Before(time.Time{}) {
		return max(a, b+1)
	}
	switch a {
	case 7:
		println(a)
	}
	return 0
}
`

func weaveSample(t *testing.T) (*finder, []string) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "sample.go", sample, 0)
	if err != nil {
		t.Fatal(err)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	conf := types.Config{Importer: importer.ForCompiler(fset, "source", nil)}
	if _, err := conf.Check("sample", fset, []*ast.File{file}, info); err != nil {
		t.Fatal(err)
	}
	var ids []string
	f := &finder{fset: fset, info: info, src: sample, base: fset.File(file.Pos()).Pos(0), roots: map[ast.Expr]bool{}}
	f.add = func(_ token.Pos, fn, what string) int {
		ids = append(ids, fn+": "+what)
		return len(ids)
	}
	f.function(file.Decls[1].(*ast.FuncDecl))
	return f, ids
}

// TestGuardsAreFound: every kind of guard, by name.
func TestGuardsAreFound(t *testing.T) {
	_, got := weaveSample(t)
	whole := "f: a < b && !ok || t.Before(time.Time{}) -> "
	want := []string{
		whole + "true", whole + "false",
		whole + "without a < b && !ok", whole + "without t.Before(time.Time{})",
		"f: a < b && !ok -> without a < b", "f: a < b && !ok -> without !ok",
		"f: a < b -> <=", "f: t.Before(time.Time{}) -> !After",
		"f: max(a, b+1) -> without a", "f: max(a, b+1) -> without b+1", "f: b+1 -> without 1",
		"f: case 7 of a -> dropped", "f: println(a) -> skipped",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestWovenCode: what is woven is the same code as long as no mutant is active,
// and each mutant's own once it is.
func TestWovenCode(t *testing.T) {
	f, ids := weaveSample(t)
	text := f.text(0, len(sample), nil)
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "woven.go", text, 0)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	with := "\nfunc mutOn(int) bool\nfunc mutValue[T any](n int, without, with T) T\n"
	file2, err := parser.ParseFile(fset, "switches.go", "package sample\n"+with, 0)
	if err != nil {
		t.Fatal(err)
	}
	conf := types.Config{Importer: importer.ForCompiler(fset, "source", nil), IgnoreFuncBodies: false}
	if _, err := conf.Check("sample", fset, []*ast.File{file, file2}, nil); err != nil && !strings.Contains(err.Error(), "missing function body") {
		t.Fatalf("%v in\n%s", err, text)
	}
	for n := range ids {
		if !strings.Contains(text, "("+itoa(n+1)+")") && !strings.Contains(text, "("+itoa(n+1)+",") {
			t.Errorf("mutant %d, %s, is not in\n%s", n+1, ids[n], text)
		}
	}
}

func itoa(n int) string {
	return strings.TrimLeft(string([]byte{byte('0' + n/10), byte('0' + n%10)}), "0")
}

// TestChangedLines: what a diff touches, and nothing beside it.
func TestChangedLines(t *testing.T) {
	got := touched("+++ b/a.go\n@@ -1 +2 @@ x\n-a\n+b\n@@ -7,0 +9,2 @@\n+c\n+d\n@@ -20,3 +21,0 @@\n+++ b/b.go\n@@ -0,0 +1 @@\n")
	want := map[place]bool{{"a.go", 2}: true, {"a.go", 9}: true, {"a.go", 10}: true, {"b.go", 1}: true}
	for p := range got {
		if !want[p] {
			t.Errorf("%v was not touched", p)
		}
		delete(want, p)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

// TestNobodyNoticed: a silent mutant is an error unless it is explained; what
// there was no time for is named.
func TestNobodyNoticed(t *testing.T) {
	m := &mutant{id: "a.go f: a -> true"}
	j := &journal{results: map[string]result{m.id: {ID: m.id, Reached: true, Silent: 3}}}
	if err := summary(j, []*mutant{m}, nil, nil); err == nil {
		t.Error("nobody noticed, and nobody complains")
	}
	if err := summary(j, []*mutant{m}, map[string]string{m.id: "because"}, nil); err != nil {
		t.Error(err)
	}
	j.results[m.id] = result{ID: m.id, Reached: true, Column: "stories", By: "a-story"}
	if err := summary(j, []*mutant{m}, nil, nil); err != nil {
		t.Error(err)
	}
}

// TestPage: the part of the hand-written list stays.
func TestPage(t *testing.T) {
	m := &mutant{id: "a.go f: a || b -> true", group: "rules"}
	j := &journal{results: map[string]result{m.id: {ID: m.id, Reached: true, Column: "unit", By: "directory: TestX", Asked: []string{"stories"}}}}
	name := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(name, []byte("# By hand\n"+heading+"\nold\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := j.page(name, &weave{mutants: []*mutant{m}}, nil); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# By hand\n## Guards", "| `a \\|\\| b → true` | – | directory: TestX | | | 0.0 |"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "old") {
		t.Error("the old part is still there")
	}
}
