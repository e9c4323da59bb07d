package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A weave is every mutant of all targets in one build: the active one is named
// by the environment when a test runs.
type weave struct {
	mutants []*mutant
	seen    map[string]int
	files   map[string]string // changed and added files, from the root
}

// switches goes into every woven package. A mutant that is asked for is written
// to the trace once, so that we know which tests can notice it.
const switches = `package %s

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
)

var (
	mutActive, _ = strconv.Atoi(os.Getenv("PINBOARD_MUTANT"))
	mutTrace     *os.File
	mutTold      [1 << 16]atomic.Bool
)

func init() {
	if name := os.Getenv("PINBOARD_MUTANT_TRACE"); name != "" {
		mutTrace, _ = os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	}
}

func mutOn(n int) bool { return n == mutActive || mutTrace != nil && mutTell(n) }

func mutTell(n int) bool {
	if !mutTold[n].Load() && !mutTold[n].Swap(true) {
		fmt.Fprintln(mutTrace, n)
	}
	return false
}

func mutValue[T any](n int, without, with T) T {
	if mutOn(n) {
		return without
	}
	return with
}
`

// scriptSwitch replaces the text of commit.lua.
const scriptSwitch = `package redisstore

import "os"

func init() {
	if text := os.Getenv("PINBOARD_MUTANT_SCRIPT"); text != "" {
		commitSource = text
	}
}
`

// find weaves the targets.
func find(targets []target) (*weave, error) {
	w := &weave{seen: map[string]int{}, files: map[string]string{}}
	exports, err := exported(targets)
	if err != nil {
		return nil, err
	}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	done := map[string]bool{}
	for _, t := range targets {
		for _, name := range t.scripts {
			if err := w.script(&t, filepath.Join(t.dir, name)); err != nil {
				return nil, err
			}
		}
		if !done[t.dir] {
			done[t.dir] = true
			if err := w.dir(t.dir, targets, lookup); err != nil {
				return nil, fmt.Errorf("%s: %w", t.dir, err)
			}
		}
	}
	return w, nil
}

// exported finds what the compiler knows of the packages that targets import.
func exported(targets []target) (map[string]string, error) {
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}"}
	for _, t := range targets {
		args = append(args, "./"+t.dir)
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports := map[string]string{}
	for _, line := range strings.Fields(string(out)) {
		path, file, _ := strings.Cut(line, "=")
		exports[path] = file
	}
	return exports, nil
}

// dir weaves one package.
func (w *weave) dir(dir string, targets []target, lookup importer.Lookup) error {
	fset := token.NewFileSet()
	var files []*ast.File
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_other.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", lookup)}
	pkg, err := conf.Check(dir, fset, files, info)
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := w.file(fset, info, file, targets); err != nil {
			return err
		}
	}
	w.files[filepath.Join(dir, "zz_mutants.go")] = fmt.Sprintf(switches, pkg.Name())
	if dir == "internal/redisstore" {
		w.files[filepath.Join(dir, "zz_mutants_script.go")] = scriptSwitch
	}
	return nil
}

func (w *weave) file(fset *token.FileSet, info *types.Info, file *ast.File, targets []target) error {
	name := fset.Position(file.Package).Filename
	src, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	f := &finder{fset: fset, info: info, src: string(src), base: fset.File(file.Pos()).Pos(0), roots: map[ast.Expr]bool{}}
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		t := covering(targets, name, fn.Name.Name)
		if t == nil {
			continue
		}
		f.add = func(pos token.Pos, fn, what string) int { return w.add(t, name, fset.Position(pos).Line, fn, what) }
		f.function(fn)
	}
	if len(f.sites) > 0 {
		w.files[name] = f.text(0, len(src), nil)
	}
	return nil
}

// add registers a mutant; equal ones of one function are told apart by their order.
func (w *weave) add(t *target, file string, line int, fn, what string) int {
	id := file + " " + fn + ": " + what
	w.seen[id]++
	if n := w.seen[id]; n > 1 {
		id = fmt.Sprintf("%s (%d)", id, n)
	}
	m := &mutant{n: len(w.mutants) + 1, id: id, file: file, line: line, group: t.name}
	w.mutants = append(w.mutants, m)
	return m.n
}

// overlay writes the woven files and the list of them for the go command.
func (w *weave) overlay(dir string) (string, error) {
	replace := map[string]string{}
	for name, text := range w.files {
		path, err := filepath.Abs(name)
		if err != nil {
			return "", err
		}
		to := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[path] = to
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, b, 0o600)
}

var (
	luaReply = regexp.MustCompile(`(?m)^\s*if (.*) then\s+(return|if|hi, lo|minted)`)
	luaCall  = regexp.MustCompile(`(?m)^\s*((?:raise|last)\(.*\)|logged = true|commits = commits \+ 1|lo = lo \+ 1|w = w \+ 3)$`)
	luaSplit = regexp.MustCompile(` (or|and) `)
	luaLess  = regexp.MustCompile(` (<=|>=|<|>) `)
)

// script finds the guards of a Lua script by its lines: it has a narrow style.
func (w *weave) script(t *target, name string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	src := string(b)
	change := func(lo, hi int, with, what string) {
		n := w.add(t, name, 1+strings.Count(src[:lo], "\n"), "script", what)
		m := w.mutants[n-1]
		m.text = src[:lo] + with + src[hi:]
	}
	for _, at := range luaReply.FindAllStringSubmatchIndex(src, -1) {
		cond := src[at[2]:at[3]]
		change(at[2], at[3], "false", cond+" -> false")
		parts := luaSplit.FindAllStringIndex(cond, -1)
		if len(parts) == 1 && !strings.Contains(cond, "(h ==") && !strings.Contains(cond, "or '')") {
			op := strings.TrimSpace(cond[parts[0][0]:parts[0][1]])
			change(at[2], at[3], cond[:parts[0][0]], cond+" -> without "+op+cond[parts[0][1]-1:])
			change(at[2], at[3], cond[parts[0][1]:], cond+" -> without "+cond[:parts[0][0]])
		}
		for _, c := range luaLess.FindAllStringSubmatchIndex(cond, -1) {
			op := map[string]string{"<": "<=", "<=": "<", ">": ">=", ">=": ">"}[cond[c[2]:c[3]]]
			change(at[2]+c[2], at[2]+c[3], op, cond+" -> "+op)
		}
	}
	for _, at := range luaCall.FindAllStringSubmatchIndex(src, -1) {
		change(at[2], at[3], "", src[at[2]:at[3]]+" -> skipped")
	}
	return nil
}

// covering is the target that a function of a file belongs to.
func covering(targets []target, file, fn string) *target {
	for i := range targets {
		t := &targets[i]
		if filepath.Dir(file) != t.dir || slices.Contains(t.without, fn) || slices.Contains(t.without, filepath.Base(file)) {
			continue
		}
		if only, listed := t.only[filepath.Base(file)]; t.only == nil || listed && (only == nil || slices.Contains(only, fn)) {
			return t
		}
	}
	return nil
}
