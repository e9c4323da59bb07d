package worker

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

// past are the ways around the machine: what waits, tells the time, runs
// beside or draws by itself. The simulation would neither see nor repeat it.
var past = map[string][]string{
	"time":    {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"},
	"context": {"WithTimeout", "WithDeadline", "WithTimeoutCause", "WithDeadlineCause", "AfterFunc"},
	"sync":    {"Mutex", "RWMutex", "WaitGroup", "Cond"},
}

// TestEverythingGoesThroughTheMachine: only the listener of Serve is outside;
// in a simulation the requests come from elsewhere.
func TestEverythingGoesThroughTheMachine(t *testing.T) {
	set := token.NewFileSet()
	//lint:ignore SA1019 the package has no build tags, and go/packages would be a module more
	packages, err := parser.ParseDir(set, ".", func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }, 0)
	if err != nil || packages["worker"] == nil {
		t.Fatal(err)
	}
	for _, f := range packages["worker"].Files {
		for _, i := range f.Imports {
			if strings.Contains(i.Path.Value, "rand") {
				t.Errorf("%s: imports %s", set.Position(i.Pos()), i.Path.Value)
			}
		}
		tries := map[ast.Node]bool{} // the receives of selects with a default
		ast.Inspect(f, func(n ast.Node) bool {
			if d, ok := n.(*ast.FuncDecl); ok && d.Name.Name == "Serve" {
				return false
			}
			if s, ok := n.(*ast.SelectStmt); ok {
				for _, c := range s.Body.List {
					tries[c.(*ast.CommClause).Comm] = true
				}
			}
			if what := around(n); !tries[n] && what != "" {
				t.Errorf("%s: %s", set.Position(n.Pos()), what)
			}
			return true
		})
	}
}

// around names a way past the machine, "" if it is none.
func around(n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "a goroutine"
	case *ast.SelectStmt:
		for _, c := range n.Body.List {
			if c.(*ast.CommClause).Comm == nil {
				return "" // with a default it does not wait
			}
		}
		return "a select that waits"
	case *ast.ExprStmt:
		if u, ok := n.X.(*ast.UnaryExpr); ok && u.Op == token.ARROW {
			return "a receive that waits"
		}
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok && slices.Contains(past[x.Name], n.Sel.Name) {
			return x.Name + "." + n.Sel.Name
		}
	}
	return ""
}
