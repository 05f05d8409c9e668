package permission

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"

	"github.com/toold-dev/toold/call"
)

// A claim is a requirement of a rule for one path in the arguments. [Rules.Warnings] compares it with the schemas of tools.
type claim struct {
	at      argPath
	text    string            // as written in the rule
	outcome string            // result of the comparison when no allowed value meets the claim: never, always or invalid
	value   func(any) bool    // reports whether a value meets the claim
	kind    func(string) bool // reports whether a value of a JSON Schema type may meet the claim
}

const (
	never   = "never holds"
	always  = "always holds"
	invalid = "cannot be evaluated"
)

// claim returns what the condition requires of the value at a path.
func (c *condition) claim(at argPath) *claim {
	outcome := never
	if c.not {
		outcome = always
	}
	return &claim{at, at.String() + " " + string(c.operator) + " " + quoted(clip(c.text, 60)), outcome, c.meets, c.mayMeet}
}

func (c *condition) meets(v any) bool {
	if text, isText := v.(string); isText {
		return c.test(text, v) || c.test(withoutDetours(text), v)
	}
	return c.test(textOf(v), v)
}

func (c *condition) mayMeet(kind string) bool {
	switch {
	case kind == "boolean":
		return c.meets(true) || c.meets(false)
	case kind == "null":
		return c.meets(nil)
	case kind == "string" || c.regex != nil:
		return true
	case kind == "array" && c.glob != nil:
		return c.glob.mayBeWithin('[', ']')
	case kind == "object" && c.glob != nil:
		return c.glob.mayBeWithin('{', '}')
	case c.glob != nil:
		return c.glob.mayConsistOf("0123456789+-.eE")
	}
	v, err := call.ParseJSON(c.text, 0)
	return err == nil && isOf(v, kind) && c.meets(v)
}

// isOf reports whether a value has a JSON Schema type.
func isOf(v any, kind string) bool {
	switch v := v.(type) {
	case nil:
		return kind == "null"
	case bool:
		return kind == "boolean"
	case string:
		return kind == "string"
	case json.Number:
		n := number(string(v))
		return kind == "number" || kind == "integer" && (n == nil || n.IsInt())
	case []any:
		return kind == "array"
	}
	return kind == "object"
}

// methods lists the functions of expressions that need a text.
var methods = []string{"startsWith", "endsWith", "contains", "matches"}

// claimsOf returns the requirements of an expression for a path: a comparison with a literal, or a type. parent is the part of the
// expression that uses the path.
func claimsOf(p argPath, at, parent ast.NavigableExpr) []*claim {
	if len(p) == 0 || parent.Kind() != ast.CallKind || at.Kind() == ast.SelectKind && at.AsSelect().IsTestOnly() {
		return nil
	}
	c := parent.AsCall()
	name, args := strings.Trim(c.FunctionName(), "_@"), c.Args()
	switch {
	case c.IsMemberFunction() && c.Target().ID() == at.ID() && slices.Contains(methods, name):
		return []*claim{needs(p, p.String()+"."+name, "string")}
	case c.IsMemberFunction() || len(args) != 2:
		return nil
	case name == "in" && args[1].ID() == at.ID():
		return []*claim{needs(p, "… in "+p.String(), "array", "object")}
	case name == "in" && args[1].Kind() == ast.ListKind:
		var claims []*claim
		for _, element := range args[1].AsList().Elements() {
			claims = append(claims, compares(p, "==", element)...)
		}
		return claims
	case args[0].ID() == at.ID():
		return compares(p, name, args[1])
	}
	return compares(p, mirrored[name], args[0])
}

// mirrored maps each operator to the one that means the same when the two sides are swapped.
var mirrored = map[string]string{"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

// compares returns the claim for a comparison of a path with a literal. It returns none when the other side is not a literal.
func compares(p argPath, operator string, with ast.Expr) []*claim {
	v, ok := literalOf(with)
	if !ok {
		return nil
	}
	text := p.String() + " " + operator + " " + string(call.AppendCanonical(nil, v))
	switch operator {
	case "==", "!=":
		c := &claim{p, text, never, func(other any) bool { return equal(v, other) }, func(kind string) bool { return isOf(v, kind) }}
		if operator == "!=" {
			c.outcome = always
		}
		return []*claim{c}
	case "<", "<=", ">", ">=":
		if _, isNumber := v.(json.Number); isNumber {
			return []*claim{needs(p, text, "number", "integer")}
		}
		if _, isText := v.(string); isText {
			return []*claim{needs(p, text, "string")}
		}
	}
	return nil
}

// needs returns the claim that the value at a path has one of these types. With another type the expression cannot be evaluated.
func needs(p argPath, text string, kinds ...string) *claim {
	return &claim{p, text, invalid, func(v any) bool {
		return slices.ContainsFunc(kinds, func(kind string) bool { return isOf(v, kind) })
	}, func(kind string) bool { return slices.Contains(kinds, kind) }}
}

// literalOf returns the value of a literal in the form that arguments use.
func literalOf(e ast.Expr) (any, bool) {
	if e.Kind() != ast.LiteralKind {
		return nil, false
	}
	switch v := e.AsLiteral().(type) {
	case types.Null:
		return nil, true
	case types.Bool:
		return bool(v), true
	case types.String:
		return string(v), true
	case types.Int:
		return json.Number(strconv.FormatInt(int64(v), 10)), true
	case types.Uint:
		return json.Number(strconv.FormatUint(uint64(v), 10)), true
	case types.Double:
		return json.Number(strconv.FormatFloat(float64(v), 'g', -1, 64)), true
	}
	return nil, false
}

// equal compares a literal with a value of a schema in the same way as expressions do.
func equal(v, other any) bool {
	a, isNumber := v.(json.Number)
	b, both := other.(json.Number)
	if !isNumber || !both {
		return reflect.DeepEqual(v, other)
	}
	x, y := number(string(a)), number(string(b))
	return x == nil || y == nil || x.Cmp(y) == 0
}

// warn warns when no tool's schema allows a value that meets the claim.
func (c *claim) warn(tools []known, warn func(string, ...any)) {
	var is []string
	for _, d := range tools {
		w := schemaWalk{root: d.schema, steps: maxSchemaSteps}
		if w.may(w.root, c.at, c) {
			return
		}
		is = append(is, w.is...)
	}
	slices.Sort(is)
	if is = slices.Compact(is); len(is) > 0 {
		warn("%s %s: %s is %s (%s)", c.text, c.outcome, c.at, strings.Join(is[:min(len(is), 3)], " or "), idsOf(tools))
	}
}

// meets reports whether some value that the schema allows meets the claim. It looks only at enum, const and type.
func (c *claim) meets(s map[string]any) bool {
	list, isList := s["enum"].([]any)
	if one, ok := s["const"]; ok {
		list, isList = []any{one}, true
	}
	if isList {
		return c.isPath() || slices.ContainsFunc(list, c.value)
	}
	kinds := kindsOf(s)
	return len(kinds) == 0 || slices.ContainsFunc(kinds, c.kind)
}

// isPath reports whether the value at the path is a file path. A path is compared in several forms, so its schema does not show which texts may match.
func (c *claim) isPath() bool {
	last := ""
	for _, step := range c.at {
		last = cmp.Or(step.name, last)
	}
	return ends(last, pathNames...)
}

// described describes the values that a schema allows.
func described(s map[string]any) string {
	if one, ok := s["const"]; ok {
		return clip(string(call.AppendCanonical(nil, one)), 60)
	}
	if list, ok := s["enum"].([]any); ok {
		var texts []string
		for _, v := range list[:min(len(list), 5)] {
			texts = append(texts, clip(string(call.AppendCanonical(nil, v)), 30))
		}
		if len(list) > 5 {
			texts = append(texts, "…")
		}
		return "one of " + strings.Join(texts, ", ")
	}
	var texts []string
	for _, kind := range kindsOf(s) {
		texts = append(texts, kindNames[kind])
	}
	return strings.Join(texts, " or ")
}

var kindNames = map[string]string{
	"string": "a text", "number": "a number", "integer": "an integer", "boolean": "true or false", "null": "null",
	"array": "a list, whose elements are [*]", "object": "an object",
}

// kindsOf returns the types that a schema names.
func kindsOf(s map[string]any) (kinds []string) {
	switch t := s["type"].(type) {
	case string:
		return []string{t}
	case []any:
		for _, one := range t {
			if kind, ok := one.(string); ok {
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds
}
