package permission

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
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

// Parse reads a rule file, YAML; name is told in errors only. Unknown keys, and settings that would have no effect, are
// errors, because a rule that is misread is worse than none. An empty file is that of a gate without rules. The error is
// a [*ParseError].
func Parse(name string, file []byte) (rules *Rules, err error) {
	defer func() {
		if r := recover(); r != nil { // the YAML library reads foreign bytes
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
	rules := Default()
	var documents []ast.Node
	for _, doc := range parsed.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.NullType && doc.Body.Type() != ast.CommentType {
			documents = append(documents, doc.Body)
		}
	}
	switch len(documents) {
	case 0:
		return rules, nil
	case 1:
	default:
		return nil, wrong(documents[1], "a rule file is one document")
	}
	if err := rules.read(documents[0]); err != nil {
		return nil, err
	}
	slices.SortStableFunc(rules.rules, func(a, b rule) int {
		aSpelled, aConditions := a.specificity()
		bSpelled, bConditions := b.specificity()
		if aSpelled != bSpelled {
			return bSpelled - aSpelled
		}
		return bConditions - aConditions
	})
	return rules, nil
}

func (r *Rules) read(n ast.Node) error {
	return eachMember(n, map[string]func(ast.Node) error{
		"version": func(n ast.Node) error {
			if s, err := scalar(n); err != nil || s != "1" {
				return wrong(n, "unknown version; want 1")
			}
			return nil
		},
		"default":    r.readDefault,
		"approvers":  func(n ast.Node) (err error) { r.approvers, err = roles(n); return err },
		"expires_in": func(n ast.Node) (err error) { r.expiresIn, err = expiry(n); return err },
		"rules": func(n ast.Node) error {
			items, err := sequence(n)
			if err != nil {
				return err
			}
			if len(items) > maxRules {
				return wrong(n, "has %d rules, the limit is %d", len(items), maxRules)
			}
			for i, item := range items {
				one, err := readRule(item, i+1)
				if err != nil {
					return err
				}
				r.rules = append(r.rules, one)
			}
			return nil
		},
	})
}

func (r *Rules) readDefault(n ast.Node) error {
	members := map[string]func(ast.Node) error{}
	for _, tier := range tiers {
		members[string(tier)] = func(n ast.Node) (err error) { r.byTier[tier], err = word(n, weightiest); return err }
	}
	return eachMember(n, members)
}

func readRule(n ast.Node, number int) (rule, error) {
	r := rule{name: "rule " + strconv.Itoa(number)}
	forAsk := map[string]ast.Node{}
	later := func(key string) func(ast.Node) error {
		return func(n ast.Node) error { return wrong(n, "%s is not supported yet; leave it out", key) }
	}
	err := eachMember(n, map[string]func(ast.Node) error{
		"name":       func(n ast.Node) (err error) { r.name, err = text(n); return err },
		"action":     func(n ast.Node) (err error) { r.action, err = word(n, weightiest); return err },
		"tools":      func(n ast.Node) (err error) { r.tools, err = globs(n); return err },
		"callers":    func(n ast.Node) (err error) { r.callers, err = globs(n); return err },
		"sources":    func(n ast.Node) (err error) { r.sources, err = texts(n); return err },
		"tiers":      func(n ast.Node) (err error) { r.tiers, err = words(n, tiers); return err },
		"reason":     func(n ast.Node) (err error) { r.reason, err = text(n); return err },
		"four_eyes":  func(n ast.Node) (err error) { forAsk["four_eyes"] = n; r.fourEyes, err = boolean(n); return err },
		"approvers":  func(n ast.Node) (err error) { forAsk["approvers"] = n; r.approvers, err = roles(n); return err },
		"expires_in": func(n ast.Node) (err error) { forAsk["expires_in"] = n; r.expiresIn, err = expiry(n); return err },
		"remember":   later("remember"),
		"count":      func(n ast.Node) (err error) { forAsk["count"] = n; r.count, err = votes(n); return err },
	})
	switch {
	case err != nil:
		return r, err
	case r.action == "":
		return r, wrong(n, "the rule has no action; want allow, ask, deny or block")
	case len(r.tools)+len(r.tiers)+len(r.sources)+len(r.callers) == 0:
		return r, wrong(n, `the rule names nothing; want tools, tiers, sources or callers (tools: ["*"] is every tool)`)
	}
	for _, key := range []string{"four_eyes", "approvers", "expires_in", "count"} {
		if at, set := forAsk[key]; set && r.action != ask {
			return r, wrong(at, "%s has no effect on the action %s", key, r.action)
		}
	}
	return r, nil
}

func globs(n ast.Node) ([]string, error) {
	return list(n, func(n ast.Node) (string, error) {
		s, err := text(n)
		if err != nil {
			return "", err
		}
		if _, err := path.Match(s, ""); err != nil || s == "" {
			return "", wrong(n, "%q is not a glob of *, ? and [classes]", s)
		}
		return s, nil
	})
}

func texts(n ast.Node) ([]string, error) { return list(n, text) }

// roles reads who may answer. They are those that can answer at all.
func roles(n ast.Node) ([]string, error) { return words(n, []string{"approver", "operator"}) }

// votes reads how many people have to agree.
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
	var at *token.Token
	if n != nil {
		at = first(n)
	}
	return wrongAt(at, format, args...)
}

func wrongAt(at *token.Token, format string, args ...any) *ParseError {
	e := &ParseError{Line: 1, Column: 1, Reason: fmt.Sprintf(format, args...)}
	if at != nil && at.Position != nil {
		e.Line, e.Column = max(at.Position.Line, 1), max(at.Position.Column, 1)
	}
	return e
}
