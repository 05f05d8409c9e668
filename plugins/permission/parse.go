package permission

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	yamltoken "github.com/goccy/go-yaml/token"

	"cel.dev/cel-go/cel"

	"github.com/toold-dev/toold/tool"
)

// A ParseError says where a rule file is wrong. Lines and columns count from 1.
type ParseError struct {
	File         string
	Line, Column int
	Reason       string
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Reason)
}

// Parse parses a YAML rule file. name is used only in errors. Unknown keys, and settings that would have no effect, are errors, because a
// rule that is read wrongly is worse than none. An empty file means that there are no rules. The error is a [*ParseError].
func Parse(name string, file []byte) (rules *Rules, err error) {
	defer func() {
		if r := recover(); r != nil { // the YAML library may panic on untrusted input
			rules, err = nil, &ParseError{name, 1, 1, fmt.Sprintf("is not YAML: %v", r)}
		}
	}()
	if refused := bound(file); refused != nil {
		refused.File = name
		return nil, refused
	}
	rules, err = parse(file)
	var at *ParseError
	if errors.As(err, &at) {
		at.File = name
	}
	if err == nil {
		rules.number()
		sum := sha256.Sum256(file)
		rules.file, rules.text = name, append([]byte{}, file...)
		rules.version = hex.EncodeToString(sum[:8])
	}
	return rules, err
}

func parse(file []byte) (*Rules, error) {
	parsed, err := parser.ParseBytes(file, 0)
	var syntax *yaml.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, wrongAt(syntax.Token, "is not YAML: %s", syntax.Message)
	case err != nil:
		return nil, wrongAt(nil, "is not YAML: %v", err)
	}
	var documents []ast.Node
	for _, doc := range parsed.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.NullType && doc.Body.Type() != ast.CommentType {
			documents = append(documents, doc.Body)
		}
	}
	r := reader{rules: Default()}
	switch len(documents) {
	case 0:
		return r.rules, nil
	case 1:
	default:
		return nil, wrong(documents[1], "a rule file is one document")
	}
	if err := r.read(documents[0]); err != nil {
		return nil, err
	}
	r.rules.approvers = r.rules.approvers.or(Default().approvers) // The file may name groups only.
	return r.rules, nil
}

// A reader converts the YAML nodes of a file to rules.
type reader struct {
	rules *Rules
	count int      // number of rules read so far
	env   *cel.Env // nil until an expression needs it
}

func (r *reader) read(n ast.Node) error {
	out := r.rules
	operator := r.members(out.operator)
	operator["version"] = func(n ast.Node) error {
		if s, err := scalar(n); err != nil || s != "1" {
			return wrong(n, "unknown version; want 1")
		}
		return nil
	}
	operator["approvers"] = func(n ast.Node) (err error) { out.approvers, err = readApprovers(n); return err }
	operator["expires_in"] = func(n ast.Node) (err error) { out.expiresIn, err = expiry(n); return err }
	operator["unattended"] = func(n ast.Node) error {
		a, err := word(n, []action{deny, "wait"})
		if a != deny {
			a = ask
		}
		out.unattended = a
		return err
	}
	operator["namespaces"] = func(n ast.Node) error {
		return eachNamed(n, func(key, value ast.Node, name string) (err error) {
			l := &layer{name: namespaceLayer + name, byTier: map[tool.Tier]action{}}
			set(&out.namespaces, name, l)
			return eachMember(value, r.members(l))
		})
	}
	operator["modes"] = func(n ast.Node) error {
		return eachNamed(n, func(key, value ast.Node, name string) error {
			if choosers[name] != nil {
				return wrong(key, "the mode %q is built in and cannot be redefined", name)
			}
			l := &layer{name: "mode " + name, byTier: map[tool.Tier]action{}, chosenBy: []string{"operator"}}
			set(&out.modes, name, l)
			members := r.members(l)
			members["chosen_by"] = func(n ast.Node) (err error) {
				l.chosenBy, err = words(n, []string{"caller", "delegate", "approver", "operator"})
				return err
			}
			return eachMember(value, members)
		})
	}
	return eachMember(n, operator)
}

func set[V any](m *map[string]V, key string, value V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = value
}

// members returns the readers of the keys that every layer may have.
func (r *reader) members(l *layer) map[string]func(ast.Node) error {
	return map[string]func(ast.Node) error{
		"default": func(n ast.Node) error {
			members := map[string]func(ast.Node) error{}
			for _, tier := range tiers {
				members[string(tier)] = func(n ast.Node) (err error) { l.byTier[tier], err = word(n, weightiest); return err }
			}
			return eachMember(n, members)
		},
		"rules": func(n ast.Node) error {
			items, err := sequence(n)
			if err != nil {
				return err
			}
			if r.count += len(items); r.count > maxRules {
				return wrong(n, "has %d rules, the limit is %d", r.count, maxRules)
			}
			for i, item := range items {
				one, err := r.rule(item, i+1)
				if err != nil {
					return err
				}
				l.rules = append(l.rules, one)
			}
			return nil
		},
	}
}

func (r *reader) rule(n ast.Node, number int) (*rule, error) {
	at := first(n)
	out := &rule{name: "rule " + strconv.Itoa(number), line: at.Position.Line, column: at.Position.Column}
	forAsk := map[string]ast.Node{}
	asking := func(key string, read func(ast.Node) error) func(ast.Node) error {
		return func(n ast.Node) error { forAsk[key] = n; return read(n) }
	}
	err := eachMember(n, map[string]func(ast.Node) error{
		"name":    func(n ast.Node) (err error) { out.name, err = text(n); return err },
		"action":  func(n ast.Node) (err error) { out.action, err = word(n, weightiest); return err },
		"tools":   func(n ast.Node) (err error) { out.tools, err = list(n, readPattern); return err },
		"callers": func(n ast.Node) (err error) { out.callers, err = globs(n); return err },
		"sources": func(n ast.Node) (err error) { out.sources, err = texts(n); return err },
		"tiers":   func(n ast.Node) (err error) { out.tiers, err = words(n, tiers); return err },
		"when":    func(n ast.Node) (err error) { out.when, err = r.when(n); return err },
		"reason":  func(n ast.Node) (err error) { out.reason, err = text(n); return err },

		"four_eyes":      asking("four_eyes", func(n ast.Node) (err error) { out.fourEyes, err = boolean(n); return err }),
		"approvers":      asking("approvers", func(n ast.Node) (err error) { out.approvers, err = readApprovers(n); return err }),
		"expires_in":     asking("expires_in", func(n ast.Node) (err error) { out.expiresIn, err = expiry(n); return err }),
		"count":          asking("count", func(n ast.Node) (err error) { out.count, err = votes(n); return err }),
		"result_instead": asking("result_instead", func(n ast.Node) (err error) { out.instead, err = boolean(n); return err }),
		"remember":       asking("remember", func(n ast.Node) (err error) { out.remember, err = options(n); return err }),
	})
	switch {
	case err != nil:
		return nil, err
	case out.action == "":
		return nil, wrong(n, "the rule has no action; want allow, ask, ask always, deny or block")
	case len(out.tools)+len(out.tiers)+len(out.sources)+len(out.callers) == 0 && out.when == nil:
		return nil, wrong(n, `the rule names nothing; want tools, tiers, sources, callers or when (tools: ["*"] is every tool)`)
	}
	for _, key := range []string{"four_eyes", "approvers", "expires_in", "count", "result_instead", "remember"} {
		if at, is := forAsk[key]; is && (!out.action.asks() || key == "remember" && out.action == askAlways) {
			return nil, wrong(at, "%s has no effect on the action %s", key, out.action)
		}
	}
	return out, nil
}

// readPattern reads a pattern. An error points to the position inside the pattern.
func readPattern(n ast.Node) (*pattern, error) {
	s, err := text(n)
	if err != nil {
		return nil, err
	}
	p, err := parsePattern(s)
	var at *patternError
	if errors.As(err, &at) {
		refused := wrong(n, "%s", at.reason)
		refused.Line, refused.Column = within(n, s, 1, at.at+1)
		return nil, refused
	}
	return p, err
}

func (r *reader) when(n ast.Node) (*expression, error) {
	s, err := scalar(n)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(s) == "" || len(s) > maxExpression {
		return nil, wrong(n, "has %d bytes; want an expression of 1 to %d", len(s), maxExpression)
	}
	if r.env == nil {
		if r.env, err = newEnvironment(); err != nil {
			return nil, wrong(n, "%v", err)
		}
	}
	e, err := compileExpression(r.env, s)
	var at *expressionError
	if errors.As(err, &at) {
		refused := wrong(n, "%s", clip(at.reason, 300))
		refused.Line, refused.Column = within(n, s, at.line, at.column)
		return nil, refused
	}
	return e, err
}

// within converts a position in a text to a position in the file. Both count from 1. When the file contains the text escaped or folded,
// within returns the position of its start.
func within(n ast.Node, s string, line, column int) (fileLine, fileColumn int) {
	at := first(n).Position
	if block, ok := n.(*ast.LiteralNode); ok {
		if block.Start.Value != "|" {
			return at.Line, at.Column
		}
		body := block.Value.GetToken()
		margin := 0
		for _, l := range strings.Split(body.Origin, "\n") {
			if strings.TrimSpace(l) != "" {
				margin = len(l) - len(strings.TrimLeft(l, " "))
				break
			}
		}
		return at.Line + line, margin + column
	}
	token := n.GetToken()
	if line != 1 || strings.Contains(s, "\n") || !strings.Contains(token.Origin, s) {
		return at.Line, at.Column
	}
	if quote := token.Type; quote == yamltoken.SingleQuoteType || quote == yamltoken.DoubleQuoteType {
		column++
	}
	return at.Line, at.Column + column - 1
}

// votes reads how many people must agree.
func votes(n ast.Node) (int, error) {
	s, err := scalar(n)
	if err != nil {
		return 0, err
	}
	count, err := strconv.Atoi(s)
	if err != nil || count < 1 || count > maxCount {
		return 0, wrong(n, "%q is not a number of people from 1 to %d", clip(s, 40), maxCount)
	}
	return count, nil
}

// options reads which kinds of answers may be remembered. The result is never nil.
func options(n ast.Node) ([]string, error) {
	if _, isList := n.(*ast.SequenceNode); !isList {
		if s, err := scalar(n); err != nil || s != "none" {
			return nil, wrong(n, "want none, or a list of exact, path, command, origin")
		}
		return []string{}, nil
	}
	return words(n, []string{optionExact, optionPath, optionCommand, optionOrigin})
}

func globs(n ast.Node) ([]string, error) {
	return list(n, func(n ast.Node) (string, error) {
		s, err := text(n)
		if err != nil {
			return "", err
		}
		if !tool.ValidGlob(s) || s == "" {
			return "", wrong(n, "%q is not a glob of *, ? and [classes]", s)
		}
		return s, nil
	})
}

func texts(n ast.Node) ([]string, error) { return list(n, text) }

// readApprovers reads who may answer: a list of roles, or a mapping of roles and groups.
func readApprovers(n ast.Node) (a approvers, err error) {
	if _, isList := n.(*ast.SequenceNode); isList {
		a.roles, err = roles(n)
		return a, err
	}
	err = eachMember(n, map[string]func(ast.Node) error{
		"roles":  func(n ast.Node) (err error) { a.roles, err = roles(n); return err },
		"groups": func(n ast.Node) (err error) { a.groups, err = texts(n); return err },
	})
	if err == nil && len(a.roles)+len(a.groups) == 0 {
		err = wrong(n, "names nobody; want roles, groups or both")
	}
	return a, err
}

// roles reads the roles that may answer. Only approvers and operators can answer at all.
func roles(n ast.Node) ([]string, error) { return words(n, []string{"approver", "operator"}) }

func expiry(n ast.Node) (time.Duration, error) {
	s, err := scalar(n)
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Second || d > maxExpiry {
		return 0, wrong(n, "%q is not a time from 1s to 720h, such as 90m or 72h", clip(s, 40))
	}
	return d, nil
}

func wrong(n ast.Node, format string, args ...any) *ParseError {
	var at *yamltoken.Token
	if n != nil {
		at = first(n)
	}
	return wrongAt(at, format, args...)
}

func wrongAt(at *yamltoken.Token, format string, args ...any) *ParseError {
	e := &ParseError{Line: 1, Column: 1, Reason: fmt.Sprintf(format, args...)}
	if at != nil && at.Position != nil {
		e.Line, e.Column = max(at.Position.Line, 1), max(at.Position.Column, 1)
	}
	return e
}
