package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// A mutant is one guard taken away.
type mutant struct {
	n     int    // number in the woven build, from 1; 0 for a mutant of a script
	id    string // file, function, guard and what became of it: stable while lines move
	file  string // from the root of the repository
	line  int
	group string // name of its target
	text  string // of a script: all of it, changed
}

// A site is a piece of a file that woven code replaces: what it builds behaves
// as before unless one of its mutants is active.
type site struct {
	lo, hi int // offsets
	build  func() string
}

// A finder lists the guards of one file and weaves their mutants into it.
type finder struct {
	fset  *token.FileSet
	info  *types.Info
	src   string
	base  token.Pos
	sites []*site
	add   func(pos token.Pos, fn, what string) int // registers a mutant
	fn    string
	roots map[ast.Expr]bool // conditions that were handled
}

func (f *finder) at(p token.Pos) int { return int(p - f.base) }

func (f *finder) words(n ast.Node) string {
	return strings.Join(strings.Fields(f.src[f.at(n.Pos()):f.at(n.End())]), " ")
}

// text is the woven source between two offsets; skip is left as it is.
func (f *finder) text(lo, hi int, skip *site) string {
	var b strings.Builder
	at := lo
	for _, s := range f.sites {
		if s == skip || s.lo < at || s.hi > hi {
			continue
		}
		b.WriteString(f.src[at:s.lo])
		b.WriteString(s.build())
		at = s.hi
	}
	b.WriteString(f.src[at:hi])
	return b.String()
}

func (f *finder) of(n ast.Node, skip *site) string {
	return f.text(f.at(n.Pos()), f.at(n.End()), skip)
}

func (f *finder) site(n ast.Node, build func(s *site) string) {
	s := &site{lo: f.at(n.Pos()), hi: f.at(n.End())}
	s.build = func() string { return build(s) }
	f.sites = append(f.sites, s)
}

// function finds the guards of one function.
func (f *finder) function(d *ast.FuncDecl) {
	f.fn = d.Name.Name
	if d.Recv != nil {
		f.fn = strings.TrimPrefix(types.ExprString(d.Recv.List[0].Type), "*") + "." + f.fn
	}
	ast.Inspect(d.Body, func(n ast.Node) bool {
		f.node(n)
		return true
	})
	slices.SortStableFunc(f.sites, func(a, b *site) int { return cmp.Or(a.lo-b.lo, b.hi-a.hi) })
}

func (f *finder) node(n ast.Node) {
	switch n := n.(type) {
	case *ast.IfStmt:
		f.condition(n.Cond, true)
	case *ast.ForStmt:
		if n.Cond != nil {
			f.condition(n.Cond, false)
		}
	case *ast.SwitchStmt:
		f.choice(n)
	case *ast.ReturnStmt:
		f.values(n.Results)
	case *ast.AssignStmt:
		f.values(n.Rhs)
	case *ast.KeyValueExpr:
		f.values([]ast.Expr{n.Value})
	case *ast.CallExpr:
		f.values(n.Args)
		f.call(n)
	case *ast.BinaryExpr:
		f.sum(n)
	case *ast.BlockStmt:
		f.statements(n.List)
	case *ast.CaseClause:
		f.statements(n.Body)
	case *ast.CommClause:
		f.statements(n.Body)
	}
}

// values finds conditions among computed values; a plain variable is none.
func (f *finder) values(list []ast.Expr) {
	for _, e := range list {
		switch x := ast.Unparen(e).(type) {
		case *ast.BinaryExpr, *ast.UnaryExpr, *ast.CallExpr:
			if f.boolean(x) {
				f.condition(e, true)
			}
		}
	}
}

func (f *finder) boolean(e ast.Expr) bool {
	tv := f.info.Types[e]
	if tv.Type == nil || tv.Value != nil {
		return false
	}
	b, ok := tv.Type.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsBoolean != 0
}

// condition makes a condition always true (unless that would loop for ever) and
// always false, and takes each operand out of it.
func (f *finder) condition(e ast.Expr, always bool) {
	if !f.boolean(e) || f.roots[e] {
		return
	}
	f.roots[e] = true
	var yes int
	if always {
		yes = f.add(e.Pos(), f.fn, f.words(e)+" -> true")
	}
	f.bool(e, yes, f.add(e.Pos(), f.fn, f.words(e)+" -> false"))
}

func (f *finder) bool(e ast.Expr, yes, no int) {
	x := ast.Unparen(e)
	edge, other := f.boundary(x)
	f.site(e, func(s *site) string {
		body := f.of(e, s)
		if edge != 0 {
			body = fmt.Sprintf("mutOn(%d) && %s || !mutOn(%d) && %s", edge, other(), edge, body)
		}
		out := "(" + body + ")"
		if no != 0 {
			out = fmt.Sprintf("!mutOn(%d) && %s", no, out)
		}
		if yes != 0 {
			out = fmt.Sprintf("mutOn(%d) || %s", yes, out)
		}
		return "(" + out + ")"
	})
	if u, ok := x.(*ast.UnaryExpr); ok && u.Op == token.NOT {
		if _, nested := ast.Unparen(u.X).(*ast.BinaryExpr); nested {
			f.bool(u.X, 0, 0)
		}
	}
	if b, ok := x.(*ast.BinaryExpr); ok && (b.Op == token.LAND || b.Op == token.LOR) {
		for _, o := range operands(b, b.Op) {
			if b.Op == token.LAND {
				f.bool(o, f.add(o.Pos(), f.fn, f.words(e)+" -> without "+f.words(o)), 0)
			} else {
				f.bool(o, 0, f.add(o.Pos(), f.fn, f.words(e)+" -> without "+f.words(o)))
			}
		}
	}
}

// operands flattens a chain of one operator.
func operands(e ast.Expr, op token.Token) []ast.Expr {
	if b, ok := e.(*ast.BinaryExpr); ok && b.Op == op {
		return append(operands(b.X, op), operands(b.Y, op)...)
	}
	return []ast.Expr{e}
}

var boundaries = map[token.Token]token.Token{token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR}

// boundary moves a comparison by one: "before" becomes "not after".
func (f *finder) boundary(e ast.Expr) (n int, other func() string) {
	switch x := e.(type) {
	case *ast.BinaryExpr:
		if op, ok := boundaries[x.Op]; ok {
			return f.add(x.Pos(), f.fn, fmt.Sprintf("%s -> %s", f.words(x), op)), func() string {
				return fmt.Sprintf("(%s) %s (%s)", f.of(x.X, nil), op, f.of(x.Y, nil))
			}
		}
	case *ast.CallExpr:
		sel, ok := x.Fun.(*ast.SelectorExpr)
		if !ok || !f.isTime(sel.X) || len(x.Args) != 1 {
			return 0, nil
		}
		if op := map[string]string{"Before": "After", "After": "Before"}[sel.Sel.Name]; op != "" {
			return f.add(x.Pos(), f.fn, f.words(x)+" -> !"+op), func() string {
				return fmt.Sprintf("!%s.%s(%s)", f.of(sel.X, nil), op, f.of(x.Args[0], nil))
			}
		}
	}
	return 0, nil
}

func (f *finder) isTime(e ast.Expr) bool {
	t := f.info.Types[e].Type
	return t != nil && t.String() == "time.Time"
}

// choice drops the cases of a switch one by one.
func (f *finder) choice(n *ast.SwitchStmt) {
	var name string
	if n.Tag != nil {
		name = fmt.Sprintf("mutTag%d", f.at(n.Pos()))
		if n.Init != nil {
			name = "(" + f.words(n.Tag) + ")"
		}
	}
	for _, c := range n.Body.List {
		for _, e := range c.(*ast.CaseClause).List {
			if n.Tag == nil {
				f.condition(e, true)
				continue
			}
			no := f.add(e.Pos(), f.fn, "case "+f.words(e)+" of "+f.words(n.Tag)+" -> dropped")
			f.site(e, func(s *site) string { return fmt.Sprintf("!mutOn(%d) && %s == (%s)", no, name, f.of(e, s)) })
		}
	}
	if n.Tag != nil {
		f.site(n.Tag, func(s *site) string {
			if n.Init != nil {
				return ""
			}
			return fmt.Sprintf("%s := %s; ", name, f.of(n.Tag, s))
		})
	}
}

// call drops arguments of max and min, and what is added to a time.
func (f *finder) call(n *ast.CallExpr) {
	if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "max" || id.Name == "min") && len(n.Args) > 1 && f.info.Types[n].Value == nil {
		var without []int
		for _, a := range n.Args {
			without = append(without, f.add(n.Pos(), f.fn, f.words(n)+" -> without "+f.words(a)))
		}
		f.site(n, func(s *site) string {
			out := f.of(n, s)
			for i, m := range without {
				var rest []string
				for j, a := range n.Args {
					if i != j {
						rest = append(rest, f.of(a, nil))
					}
				}
				out = fmt.Sprintf("mutValue(%d, %s(%s), %s)", m, id.Name, strings.Join(rest, ", "), out)
			}
			return out
		})
	}
	if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Add" && f.isTime(sel.X) {
		m := f.add(n.Pos(), f.fn, f.words(n)+" -> "+f.words(sel.X))
		f.site(n, func(s *site) string { return fmt.Sprintf("mutValue(%d, %s, %s)", m, f.of(sel.X, nil), f.of(n, s)) })
	}
}

// sum drops what is added, taken off or multiplied by a constant.
func (f *finder) sum(n *ast.BinaryExpr) {
	tv := f.info.Types[n]
	if tv.Type == nil || tv.Value != nil {
		return
	}
	if b, ok := tv.Type.Underlying().(*types.Basic); !ok || b.Info()&types.IsNumeric == 0 {
		return
	}
	rest, dropped := n.X, n.Y
	switch n.Op {
	case token.ADD, token.SUB:
	case token.MUL, token.QUO:
		if n.Op == token.MUL && f.info.Types[n.X].Value != nil {
			rest, dropped = n.Y, n.X
		}
		if f.info.Types[dropped].Value == nil || strings.Contains(f.words(dropped), "time.") {
			return
		}
	default:
		return
	}
	m := f.add(n.Pos(), f.fn, fmt.Sprintf("%s -> without %s", f.words(n), f.words(dropped)))
	f.site(n, func(s *site) string { return fmt.Sprintf("mutValue(%d, %s, (%s))", m, f.of(rest, nil), f.of(n, s)) })
}

// statements skips calls and additions that stand alone. Locks and the log of
// changes are no guards.
func (f *finder) statements(list []ast.Stmt) {
	for _, st := range list {
		switch st := st.(type) {
		case *ast.ExprStmt:
			c, ok := st.X.(*ast.CallExpr)
			if !ok || unguarded(c) {
				continue
			}
		case *ast.IncDecStmt:
		case *ast.AssignStmt:
			if st.Tok == token.ASSIGN || st.Tok == token.DEFINE {
				continue
			}
		default:
			continue
		}
		m := f.add(st.Pos(), f.fn, f.words(st)+" -> skipped")
		f.site(st, func(s *site) string { return fmt.Sprintf("if !mutOn(%d) { %s }", m, f.of(st, s)) })
	}
}

func unguarded(c *ast.CallExpr) bool {
	name := ""
	switch fun := c.Fun.(type) {
	case *ast.Ident:
		name = fun.Name
	case *ast.SelectorExpr:
		name = fun.Sel.Name
	}
	return slices.Contains([]string{"", "Lock", "Unlock", "Log", "Error", "Info", "Warn", "panic"}, name)
}
