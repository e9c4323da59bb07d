package importtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

const (
	maxFile     = 500 // lines; a longer file holds two things
	maxFunction = 80  // lines
)

// TestSizes: files and functions stay readable, and every exported name says
// what it is. Tests and their kits may be as long as their stories.
func TestSizes(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || testSupport(s.pkg) {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, filepath.Join(root, s.file), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if n := set.File(f.Pos()).LineCount(); n > maxFile {
			t.Errorf("%s has %d lines, %d are enough", s.file, n, maxFile)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := set.Position(fn.End()).Line - set.Position(fn.Pos()).Line; n > maxFunction {
				t.Errorf("%s: %s has %d lines, %d are enough", s.file, fn.Name.Name, n, maxFunction)
			}
			if fn.Doc == nil && fn.Name.IsExported() && !obvious[fn.Name.Name] && exportedReceiver(fn) {
				t.Errorf("%s: %s has no comment", s.file, fn.Name.Name)
			}
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, spec := range g.Specs {
				ts := spec.(*ast.TypeSpec)
				if ts.Name.IsExported() && ts.Doc == nil && g.Doc == nil {
					t.Errorf("%s: type %s has no comment", s.file, ts.Name.Name)
				}
			}
		}
	}
}

// obvious methods say all there is to say by their name.
var obvious = map[string]bool{"Error": true, "String": true}

// exportedReceiver reports whether a function can be called from outside.
func exportedReceiver(fn *ast.FuncDecl) bool {
	if fn.Recv == nil {
		return true
	}
	typ := fn.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}
