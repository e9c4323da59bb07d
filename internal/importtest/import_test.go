package importtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// A source is one Go file with what it imports.
type source struct {
	file    string // relative to the root of the repository
	pkg     string // its directory, "." for the root
	test    bool
	imports []string
}

// TestDirection: every package imports only what its rule allows. A package
// without a rule fails, so that a new one must say where it stands.
func TestDirection(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range sources(t) {
		seen[s.pkg] = true
		rule, ok := rules[s.pkg]
		if !ok {
			t.Errorf("%s: package %s has no rule in rules_test.go", s.file, s.pkg)
			continue
		}
		for _, imp := range s.imports {
			local, ours := strings.CutPrefix(imp, "pinboard/")
			if imp == "pinboard" {
				local, ours = ".", true
			}
			switch {
			case !ours, slices.Contains(rule.may, local), local == s.pkg:
			case s.test && mayInTests(local):
			default:
				t.Errorf("%s imports %s; %s may import %v: %s", s.file, imp, s.pkg, rule.may, rule.why)
			}
		}
	}
	for pkg := range rules {
		if !seen[pkg] {
			t.Errorf("rules_test.go has a rule for %s, which does not exist", pkg)
		}
	}
}

// TestModules: each outside module is used by the packages it was taken for.
func TestModules(t *testing.T) {
	for _, s := range sources(t) {
		for _, imp := range s.imports {
			if !strings.Contains(strings.SplitN(imp, "/", 2)[0], ".") {
				continue // standard library or ours
			}
			i := slices.IndexFunc(modules, func(m module) bool { return imp == m.path || strings.HasPrefix(imp, m.path+"/") })
			switch {
			case i < 0:
				t.Errorf("%s imports %s, which is no module of modules_test.go", s.file, imp)
			case modules[i].tests && !s.test && !testSupport(s.pkg):
				t.Errorf("%s imports %s outside a test: %s", s.file, imp, modules[i].why)
			case len(modules[i].only) > 0 && !s.test && !slices.Contains(modules[i].only, s.pkg):
				t.Errorf("%s imports %s; only %v may: %s", s.file, imp, modules[i].only, modules[i].why)
			}
		}
	}
}

// TestEnvironment: settings have one home. Everything else is told what it
// needs, so that a test can tell it something else.
func TestEnvironment(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || testSupport(s.pkg) || slices.Contains(mayReadEnvironment, s.file) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, s.file))
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range []string{"os.Getenv", "os.LookupEnv", "os.Environ"} {
			if strings.Contains(string(text), call) {
				t.Errorf("%s calls %s; only %v read the environment", s.file, call, mayReadEnvironment)
			}
		}
	}
}

// TestPureVocabulary: rules take now and return decisions; a package that
// decides must not reach for the clock, the network or chance by itself.
func TestPureVocabulary(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || !slices.Contains(pure, s.pkg) {
			continue
		}
		for _, imp := range s.imports {
			if slices.Contains([]string{"net", "net/http", "os", "log", "log/slog", "math/rand", "crypto/rand", "database/sql"}, imp) {
				if !defaultsOfSeams[s.file+" "+imp] {
					t.Errorf("%s imports %s: package %s is pure", s.file, imp, s.pkg)
				}
			}
		}
	}
}

func sources(t *testing.T) []source {
	t.Helper()
	var list []source
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(filepath.ToSlash(p), root+"/")
		if d.IsDir() {
			if name := d.Name(); p != root && (strings.HasPrefix(name, ".") || outside[rel] || name == "testdata" || name == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		s := source{file: rel, pkg: path.Dir(rel), test: strings.HasSuffix(rel, "_test.go")}
		for _, i := range f.Imports {
			imp, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			s.imports = append(s.imports, imp)
		}
		list = append(list, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 20 {
		t.Fatalf("only %d files found", len(list))
	}
	return list
}
