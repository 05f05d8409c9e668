package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// walk adds the parts of a parsed text. It visits every node at any depth, because a command may also be inside a substitution inside a
// here-document.
func (a *analysis) walk(file *syntax.File, source string) {
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			a.stdin = hereText(n.Redirs, source)
		case *syntax.CallExpr:
			a.call(n, source)
			a.stdin = nil
		case *syntax.Redirect:
			a.redirect(n, source)
		case *syntax.Assign:
			a.assign(n, source)
		case *syntax.FuncDecl:
			a.function(n)
		case *syntax.DeclClause:
			a.declare(n, source)
		case *syntax.WordIter:
			a.variable(n.Name.Value, word{}, slice(source, n.Pos(), n.End()))
		default:
			a.note("", nodeEffect(n))
		}
		return true
	})
}

const unclear = "it uses syntax that cannot be analysed"

// nodeEffect returns the effect of a node, without its children. Arithmetic has an effect, because bash evaluates the values of its
// variables, including substitutions in these values.
func nodeEffect(n syntax.Node) effect {
	switch n := n.(type) {
	case *syntax.ArithmExp:
		return arithmetic(n.X)
	case *syntax.ArithmCmd:
		return arithmetic(n.X)
	case *syntax.LetClause:
		return arithmetic(n.Exprs...)
	case *syntax.CStyleLoop:
		return arithmetic(n.Init, n.Cond, n.Post)
	case *syntax.ArrayElem:
		return arithmetic(n.Index)
	case *syntax.ParamExp:
		return parameter(n)
	case *syntax.UnaryTest:
		return unaryTest(n)
	case *syntax.BinaryTest:
		return binaryTest(n)
	case *syntax.CmdSubst:
		if n.Backquotes || n.TempFile || n.ReplyVar {
			e := changes(unclear) // bash and the parser may read backslashes between backquotes differently.
			e.opaque = true
			return e
		}
	case *syntax.ExtGlob, *syntax.CoprocClause, *syntax.TestDecl, *syntax.FlagsArithm:
		return unreadable(unclear)
	}
	return reads()
}

// arithmetic returns the effect of evaluating expressions. Expressions that contain only numbers have no effect.
func arithmetic(exprs ...syntax.ArithmExpr) effect {
	numbers := true
	for _, e := range exprs {
		if e == nil {
			continue
		}
		for n := range syntax.Preorder(e) {
			if w, ok := n.(*syntax.Word); ok {
				numbers = numbers && isNumber(w.Lit())
			}
		}
	}
	if numbers {
		return reads()
	}
	return evaluates()
}

func parameter(p *syntax.ParamExp) effect {
	if p.Excl || p.Names != 0 || p.Width || p.Flags != nil || p.NestedParam != nil || len(p.Modifiers) > 0 {
		return evaluates()
	}
	e := reads()
	if p.Slice != nil {
		e = arithmetic(p.Slice.Offset, p.Slice.Length)
	}
	if w, ok := p.Index.(*syntax.Word); p.Index != nil && (!ok || w.Lit() != "@" && w.Lit() != "*") {
		e = e.and(arithmetic(p.Index))
	}
	if p.Exp != nil {
		switch p.Exp.Op {
		case syntax.AssignUnset, syntax.AssignUnsetOrNull:
			return e.and(changes("it sets a variable"))
		case syntax.OtherParamOps:
			return evaluates()
		}
	}
	return e
}

func unaryTest(t *syntax.UnaryTest) effect {
	switch t.Op {
	case syntax.TsVarSet, syntax.TsRefVar:
		return evaluates()
	}
	return reads()
}

func binaryTest(t *syntax.BinaryTest) effect {
	switch t.Op {
	case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
		x, _ := t.X.(*syntax.Word)
		y, _ := t.Y.(*syntax.Word)
		if x == nil || y == nil || !isNumber(x.Lit()) || !isNumber(y.Lit()) {
			return evaluates()
		}
	}
	return reads()
}

func (a *analysis) call(c *syntax.CallExpr, source string) {
	if len(c.Args) == 0 {
		return // walk visits the assignments of this node separately.
	}
	words := make([]word, 0, len(c.Args))
	for _, w := range c.Args {
		words = append(words, readWords(w, source)...)
	}
	a.command(words)
}

// declare adds the effect of export, local and similar builtins. Their assignments are visited separately. Some of their options make bash
// treat values as names or expressions.
func (a *analysis) declare(d *syntax.DeclClause, source string) {
	if len(d.Args) == 0 { // Without arguments, the builtin prints variables.
		a.note("", effect{safety: reads().safety, outside: true})
	}
	for _, arg := range d.Args {
		if arg.Name != nil {
			continue
		}
		e := evaluates()
		if arg.Value == nil {
			a.note("", e)
			return
		}
		if w := readWord(arg.Value, source); w.literal && isFlag(w) && !strings.ContainsAny(w.value, "in") {
			e = changes("it changes the meaning of variables")
		}
		a.note(slice(source, d.Pos(), d.End()), e)
	}
}

func (a *analysis) assign(s *syntax.Assign, source string) {
	if s.Name == nil {
		return
	}
	a.note("", arithmetic(s.Index))
	if s.Naked {
		return
	}
	var value word // stays the zero word for an array, whose value is unknown
	if s.Value != nil {
		value = readWord(s.Value, source)
	} else if s.Array == nil {
		value.literal = true
	}
	if isLocale(s.Name.Value) && value.literal && !strings.ContainsAny(value.value, "/") {
		return
	}
	a.variable(s.Name.Value, value, slice(source, s.Pos(), s.End()))
}

// variable adds a part for a variable that programs may interpret. It adds none for IFS, and none when the name has only lower-case
// letters, digits and underscores, because only the command itself uses such variables.
func (a *analysis) variable(name string, value word, text string) {
	own := func(r rune) bool { return r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' }
	if name == "IFS" || !strings.ContainsFunc(name, func(r rune) bool { return !own(r) }) {
		return
	}
	e := changes("it sets " + name + ", which programs may read")
	e.opaque = !value.literal && namesCommand(name) || value.literal && strings.ContainsAny(value.value, "$`;|&(){}<>\n")
	a.note(text, e)
	if value.literal && strings.Contains(value.value, " ") {
		a.note(text, e, value.value) // Some programs run the value as a command, so it is another spelling.
	}
}

// namesCommand reports whether programs run the value of a variable with this name as a command.
func namesCommand(name string) bool {
	for _, end := range []string{"PAGER", "EDITOR", "VISUAL", "COMMAND", "ASKPASS", "ENV", "SHELL", "OPEN", "CLOSE", "PS4"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return strings.HasPrefix(name, "GIT_")
}

func isLocale(name string) bool {
	return name == "LANG" || name == "LANGUAGE" || name == "TZ" || strings.HasPrefix(name, "LC_")
}

// function adds the definition of a function. walk visits its body. After the definition, the name means the function and no longer a
// program.
func (a *analysis) function(f *syntax.FuncDecl) {
	if f.Name == nil {
		a.note("", unreadable(unclear))
		return
	}
	e := changes("it defines a function")
	for n := range syntax.Preorder(f.Body) {
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 && c.Args[0].Lit() == f.Name.Value {
			e = destroys("a function that calls itself may never end")
		}
	}
	a.note(f.Name.Value+"()", e)
}

// hereText returns the text of the here-document or here-string that a command reads. It returns nil when the text is not known.
func hereText(redirs []*syntax.Redirect, source string) (text *string) {
	for _, r := range redirs {
		if r.N != nil && isNumber(r.N.Value) && r.N.Value != "0" {
			continue
		}
		target, body := readWord(r.Word, source), ""
		switch r.Op {
		case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.DplOut, syntax.RdrAll, syntax.AppAll:
			if r.N != nil {
				return nil
			}
			continue
		case syntax.WordHdoc:
			body = target.value
		case syntax.Hdoc:
			if r.Hdoc == nil { // The here-document is missing, because the command text ends before it.
				return nil
			}
			if body = r.Hdoc.Lit(); body == "" || target.source == target.value && strings.ContainsAny(body, "$`\\") {
				return nil
			}
		default:
			return nil
		}
		if !target.literal || text != nil {
			return nil
		}
		text = &body
	}
	return text
}

// redirect adds a part for a redirect that writes to a file or opens a connection.
func (a *analysis) redirect(r *syntax.Redirect, source string) {
	if r.N != nil && !isNumber(r.N.Value) {
		a.note("", changes("a redirect sets a variable"))
	}
	target := readWord(r.Word, source)
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		if !target.literal {
			a.note("", unreadable(unclear))
		}
		return
	case syntax.WordHdoc:
		return
	case syntax.DplIn, syntax.DplOut:
		if target.literal && (target.value == "-" || isNumber(strings.TrimSuffix(target.value, "-"))) {
			return
		}
		if r.Op == syntax.DplIn {
			a.note("", unreadable(unclear))
			return
		}
	case syntax.RdrIn:
		if !target.literal || isSocket(target.value) {
			a.note("< "+target.text(), reachesOut("a redirect may open a connection"))
			return
		}
		a.note("", effect{safety: reads().safety, outside: !target.isBelow(a.dir)})
		return
	}
	if !target.literal || !isSink(target.value) {
		a.note("> "+target.text(), a.write(target))
	}
}

// write returns the effect of a write to a file.
func (a *analysis) write(target word) effect {
	switch {
	case target.literal && isSink(target.value):
		return reads()
	case isSocket(target.path):
		return reachesOut("a redirect opens a connection")
	case isSystem(target.path, a.dir, a.bases):
		return destroys("it writes to " + target.path)
	}
	return changes("it writes to " + target.path)
}

// maxBases is the maximum number of absolute paths to which a text may change the directory.
const maxBases = 16

// findDirectories records the absolute paths to which a text changes the directory. Relative paths after a change start from one of these,
// or from the first directory when the change does not happen.
func (a *analysis) findDirectories(file *syntax.File, source string) {
	for n := range syntax.Preorder(file) {
		c, ok := n.(*syntax.CallExpr)
		if !ok || len(c.Args) < 2 {
			continue
		}
		if name := c.Args[0].Lit(); name != "cd" && name != "pushd" {
			continue
		}
		for _, arg := range c.Args[1:] {
			w := readWord(arg, source)
			if !strings.HasPrefix(w.path, "/") || slices.Contains(a.bases, w.path) {
				continue
			}
			if len(a.bases) == maxBases {
				a.note("", unreadable(errTooComplex.Error()))
				return
			}
			a.bases = append(a.bases, w.path)
		}
	}
}
