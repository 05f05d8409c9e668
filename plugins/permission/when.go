package permission

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"

	"github.com/toold-dev/toold/hook"
)

// Limits of an expression. The cost of a comparison is about 1. The cost of a search in a text is one tenth of its length in bytes.
const (
	maxCost       = 200_000
	maxExpression = 4 << 10 // bytes of text
	maxDepth      = 32
)

// A variable is a property of a call that expressions can read, besides the arguments.
type variable struct {
	name string
	kind *cel.Type
	of   func(*hook.Input) any
}

var variables = []variable{
	{"call.id", cel.StringType, func(in *hook.Input) any { return in.CallID }},
	{"call.namespace", cel.StringType, func(in *hook.Input) any { return in.Namespace }},
	{"call.tool", cel.StringType, func(in *hook.Input) any { return in.Descriptor.ID }},
	{"call.tool_digest", cel.StringType, func(in *hook.Input) any { return in.ToolDigest }},
	{"call.source", cel.StringType, func(in *hook.Input) any { return in.Descriptor.Source }},
	{"call.category", cel.StringType, func(in *hook.Input) any { return in.Descriptor.Category }},
	{"call.attempt", cel.IntType, func(in *hook.Input) any { return in.Attempt }},
	{"caller.subject", cel.StringType, func(in *hook.Input) any { return in.Caller.Subject }},
	{"caller.roles", cel.ListType(cel.StringType), func(in *hook.Input) any { return in.Caller.Roles }},
	{"caller.method", cel.StringType, func(in *hook.Input) any { return in.Caller.Method }},
	{"caller.on_behalf_of", cel.StringType, func(in *hook.Input) any { return in.OnBehalfOf }},
	{"run.id", cel.StringType, func(in *hook.Input) any { return in.Run.ID }},
	{"run.thread", cel.StringType, func(in *hook.Input) any { return in.Run.Thread }},
	{"run.parent_run", cel.StringType, func(in *hook.Input) any { return in.Run.ParentRun }},
	{"run.parent_thread", cel.StringType, func(in *hook.Input) any { return in.Run.ParentThread }},
	{"run.parent_call", cel.StringType, func(in *hook.Input) any { return in.Run.ParentCall }},
	{"run.agent", cel.StringType, func(in *hook.Input) any { return in.Run.Agent.ID }},
	{"run.origin", cel.StringType, func(in *hook.Input) any { return in.Run.Origin }},
	{"run.unattended", cel.BoolType, func(in *hook.Input) any { return in.Run.Unattended }},
	{"run.labels", cel.MapType(cel.StringType, cel.StringType), func(in *hook.Input) any { return in.Run.Labels }},
	{"assessment.mutability", cel.StringType, func(in *hook.Input) any { return string(in.Assessment.Normal().Mutability) }},
	{"assessment.safety", cel.StringType, func(in *hook.Input) any { return string(in.Assessment.Normal().Safety) }},
	{"assessment.tier", cel.StringType, func(in *hook.Input) any { return string(in.Assessment.Normal().Tier) }},
	{"assessment.concurrency_safe", cel.BoolType, func(in *hook.Input) any { return in.Assessment.ConcurrencySafe }},
	{"assessment.open_world", cel.BoolType, func(in *hook.Input) any { return in.Assessment.OpenWorld }},
}

const argumentsName = "arguments"

// An expression is the compiled `when` of a rule.
type expression struct {
	text    string
	program cel.Program
	partial cel.Program // program for partial evaluation, which is used when a command is not fully known
	reads   []argPath   // paths in the arguments that the text names; an empty path means all arguments
	claims  []*claim    // requirements for these paths
	matches bool        // the expression contains a regular expression, whose cost is known only after evaluation
}

func newEnvironment() (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.Variable(argumentsName, cel.MapType(cel.StringType, cel.DynType)),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ParserRecursionLimit(maxDepth),
		cel.RegexProgramSizeLimit(maxProgram),
	}
	for _, v := range variables {
		options = append(options, cel.Variable(v.name, v.kind))
	}
	return cel.NewEnv(options...)
}

// An expressionError says where an expression is wrong. Lines and columns count from 1.
type expressionError struct {
	line, column int
	reason       string
}

func (e *expressionError) Error() string { return e.reason }

func compileExpression(env *cel.Env, text string) (*expression, error) {
	checked, issues := env.Compile(text)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		return nil, &expressionError{max(first.Location.Line(), 1), max(first.Location.Column()+1, 1), first.Message}
	}
	if kind := checked.OutputType(); !kind.IsExactType(cel.BoolType) && !kind.IsExactType(cel.DynType) {
		return nil, &expressionError{1, 1, fmt.Sprintf("has the type %s; want an expression that is true or false", kind)}
	}
	program, err := env.Program(checked, cel.CostLimit(maxCost), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, &expressionError{1, 1, err.Error()}
	}
	partial, err := env.Program(checked, cel.CostLimit(maxCost), cel.EvalOptions(cel.OptPartialEval))
	if err != nil {
		return nil, &expressionError{1, 1, err.Error()}
	}
	calls := ast.MatchDescendants(ast.NavigateAST(checked.NativeRep()), ast.FunctionMatcher("matches"))
	paths, claims := reads(checked.NativeRep())
	return &expression{text: text, program: program, partial: partial, reads: paths, claims: claims, matches: len(calls) > 0}, nil
}

// reads returns the paths of the arguments that an expression names, and its requirements for them.
func reads(checked *ast.AST) (found []argPath, claims []*claim) {
	root := ast.NavigateAST(checked)
	for _, n := range ast.MatchDescendants(root, ast.KindMatcher(ast.IdentKind)) {
		if n.AsIdent() != argumentsName {
			continue
		}
		var p argPath
		at := n
		for parent, ok := n.Parent(); ok; parent, ok = parent.Parent() {
			s, ok := stepOf(parent)
			if !ok {
				claims = append(claims, claimsOf(p, at, parent)...)
				break
			}
			p, at = append(p, s), parent
		}
		found = append(found, p)
	}
	return found, claims
}

// stepOf returns the step that a part of an expression adds to the path of its operand.
func stepOf(e ast.NavigableExpr) (step, bool) {
	switch e.Kind() {
	case ast.SelectKind:
		return step{name: e.AsSelect().FieldName()}, true
	case ast.CallKind:
		c := e.AsCall()
		if c.FunctionName() != "_[_]" || c.Args()[1].Kind() != ast.LiteralKind {
			return step{}, false
		}
		switch key := c.Args()[1].AsLiteral().(type) {
		case types.String:
			return step{name: string(key)}, key != ""
		case types.Int:
			return step{index: int(key)}, key >= 0
		}
	}
	return step{}, false
}

var errNotBool = errors.New("the expression is neither true nor false")

// holds reports whether the expression is true for a call. For a compound command, it evaluates the expression for the current simple
// command.
func (e *expression) holds(s *subject, grants bool) bool {
	switch {
	case !s.isCommand && s.paths == nil:
		return e.evaluate(*s, grants)
	case !s.isCommand:
		return e.holdsForPaths(*s, grants)
	case s.unclear && e.readsCommand(s.primary):
		return !grants && e.couldHold(s)
	case grants && !s.understood: // the command is not fully known
		return !e.readsCommand(s.primary) && e.evaluate(*s, grants)
	case !grants && s.alsoWhole && e.evaluate(*s, grants):
		return true
	}
	part := *s
	part.asPart = s.hasPart
	return s.hasPart && e.evaluate(part, grants)
}

// holdsForPaths evaluates the expression once for each form of the paths in the arguments. For a granting rule, the expression must be true
// for all forms relative to the workspace; when no argument names a workspace file, it must be true for the sent text. For a restricting
// rule, one form is enough.
func (e *expression) holdsForPaths(s subject, grants bool) bool {
	first := 0
	if grants && s.namesFile() {
		first = 1
	}
	for s.reading = first; s.reading <= 2; s.reading++ {
		if e.evaluate(s, grants) != grants {
			return !grants
		}
	}
	return grants
}

// namesFile reports whether an argument is a path in the workspace.
func (s *subject) namesFile() bool {
	for name, v := range s.in.Arguments.Value() {
		if text, isText := v.(string); isText && s.reads(name, text) != nil {
			return true
		}
	}
	return false
}

// reads returns two forms of an argument that is a path in the workspace: cleaned, and with all links followed. It returns nil for other
// arguments.
func (s *subject) reads(name, text string) []string {
	if f := s.formsOf(argPath{{name: name}}, text); len(f.sent) > 0 {
		return f.families[0][:]
	}
	return nil
}

func (e *expression) readsCommand(primary string) bool {
	return slices.ContainsFunc(e.reads, func(p argPath) bool { return len(p) == 0 || p[0].name == "" || p[0].name == primary })
}

// evaluate evaluates the expression. With a missing argument the result is false. When the evaluation fails for another reason, such as its
// cost, the result is true for a restricting rule and false for a granting one.
func (e *expression) evaluate(s subject, grants bool) bool {
	if e.matches && len(s.in.Arguments.Text())*maxProgram > maxWork {
		return !grants
	}
	return verdictOf(e.program, &activation{s}, grants)
}

// couldHold reports whether the expression is true for at least one possible value of the command, which is not fully known.
func (e *expression) couldHold(s *subject) bool {
	vars, err := cel.PartialVars(&activation{*s}, cel.AttributePattern(argumentsName).QualString(s.primary))
	return err != nil || verdictOf(e.partial, vars, false)
}

func verdictOf(program cel.Program, vars any, grants bool) bool {
	out, _, err := program.Eval(vars)
	if err == nil {
		if b, isBool := out.(types.Bool); isBool {
			return bool(b)
		}
		if types.IsUnknown(out) {
			return !grants
		}
		err = errNotBool
	}
	return !grants && !isMissing(err)
}

// isMissing reports whether err means that an argument is missing. It compares the text of the CEL library's error, because the error has
// no type. FuzzWhen checks that text.
func isMissing(err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "no such key") || strings.HasPrefix(text, "index out of bounds") || strings.HasPrefix(text, "no such attribute")
}

// An activation provides the values of an expression's variables.
type activation struct{ s subject }

// Parent implements [cel.Activation].
func (a *activation) Parent() cel.Activation { return nil }

// ResolveName implements [cel.Activation].
func (a *activation) ResolveName(name string) (any, bool) {
	if name == argumentsName {
		return a.arguments(), true
	}
	i := slices.IndexFunc(variables, func(v variable) bool { return v.name == name })
	if i < 0 {
		return nil, false
	}
	return variables[i].of(a.s.in), true
}

// arguments returns the arguments of the call, with the current simple command instead of the whole command, and with paths in the form
// that the field reading selects.
func (a *activation) arguments() map[string]any {
	value := a.s.in.Arguments.Value()
	if value == nil {
		value = map[string]any{}
	}
	if !a.s.asPart && a.s.reading == 0 {
		return value
	}
	value = maps.Clone(value)
	if a.s.asPart {
		value[a.s.primary] = a.s.part.Text
		return value
	}
	for name, v := range value {
		if text, isText := v.(string); isText {
			if readings := a.s.reads(name, text); readings != nil {
				value[name] = readings[a.s.reading-1]
			}
		}
	}
	return value
}
