package permission

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"path"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/toold-dev/toold/call"
)

// An operator says how a condition compares.
type operator string

// operators lists all operators. When one operator is a prefix of another, the longer operator comes first.
var operators = []operator{"!=~", "=~", "!=", "!~", "=", "~"}

// A condition compares one path in the arguments with a text.
type condition struct {
	path     argPath // empty means the primary argument
	operator operator
	not      bool
	text     string
	number   *big.Rat // text as a number, for the operators = and !=; nil when text is not a number
	glob     *glob
	regex    *regex
}

func newCondition(p argPath, op operator, text string) (c condition, err error) {
	c = condition{path: p, operator: op, not: op[0] == '!', text: text}
	switch strings.TrimPrefix(string(op), "!") {
	case "=":
		c.number = number(text)
	case "~":
		c.glob, err = compileGlob(text)
	case "=~":
		c.regex, err = compileRegex(text)
	}
	if err != nil {
		return c, fmt.Errorf("%q %w", clip(text, 60), err)
	}
	return c, nil
}

// A regex is a compiled regular expression with its size, which limits how long matching may take.
type regex struct {
	*regexp.Regexp
	size int // number of instructions
}

// Limits for regular expressions. Matching takes up to 50 ns for each byte of text and each instruction of the expression. It cannot be
// interrupted.
const (
	maxProgram = 500
	maxWork    = 32 << 20
)

// compileRegex compiles a regular expression in which a dot also matches a line break. Otherwise an argument could hide text from a rule
// behind a line break.
func compileRegex(text string) (*regex, error) {
	parsed, err := syntax.Parse(text, syntax.Perl|syntax.DotNL)
	if err != nil {
		return nil, fmt.Errorf("is not a regular expression: %w", err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, fmt.Errorf("is not a regular expression: %w", err)
	}
	if len(program.Inst) > maxProgram {
		return nil, errors.New("is too large a regular expression")
	}
	compiled, err := regexp.Compile("(?s)" + text)
	return &regex{compiled, len(program.Inst)}, err
}

// number returns the JSON number in text, or nil when text is not one.
func number(text string) *big.Rat {
	v, err := call.ParseJSON(text, 0)
	token, isNumber := v.(json.Number)
	if err != nil || !isNumber {
		return nil
	}
	r, ok := new(big.Rat).SetString(string(token)) // the JSON parser limits digits and exponent
	if !ok {
		return nil
	}
	return r
}

// holds reports whether the condition is true for a value of the arguments. A text is also compared as a path without "." and ".."
// elements. For a granting rule, all forms of one family (see [forms]) must match; for a restricting rule, one form is enough.
func (c *condition) holds(v any, s *subject, grants bool) bool {
	text, isText := v.(string)
	if !isText {
		return c.matches(textOf(v), v, grants)
	}
	if c.isLong(text) {
		return !grants
	}
	f, test := s.formsOf(c.path, text), func(text string) bool { return c.test(text, v) }
	if grants != c.not {
		return f.all(test) != c.not
	}
	return f.some(test) != c.not
}

// matches reports whether the condition is true for one form of a value. A text that is too long to be checked matches a restricting rule and
// does not match a granting one.
func (c *condition) matches(text string, v any, grants bool) bool {
	if c.isLong(text) {
		return !grants
	}
	return c.test(text, v) != c.not
}

func (c *condition) isLong(text string) bool {
	return c.regex != nil && len(text)*c.regex.size > maxWork
}

// holdsIn reports whether the condition is true for a call. For a compound command, it checks the current simple command.
func (c *condition) holdsIn(s *subject, grants bool) bool {
	value := s.in.Arguments.Value()
	isPrimary := len(c.path) == 0 || len(c.path) == 1 && c.path[0].name == s.primary
	if !isPrimary {
		return c.path.holds(value, grants, func(v any) bool { return c.holds(v, s, grants) })
	}
	v, there := value[s.primary]
	whole, isText := v.(string)
	switch {
	case !there || s.primary == "":
		return false
	case !s.isCommand || !isText:
		return c.holds(v, s, grants)
	case s.unclear:
		return !grants
	case grants:
		return s.understood && c.matches(s.part.Text, v, grants)
	case c.not && s.hasPart:
		return c.matches(s.part.Text, v, grants)
	}
	return s.alsoWhole && c.matches(whole, v, grants) || s.hasPart && c.matchesPart(s, v)
}

// matchesPart reports whether a restricting condition is true for any spelling of a simple command.
func (c *condition) matchesPart(s *subject, v any) bool {
	return c.matches(s.part.Text, v, false) || slices.ContainsFunc(s.part.Also, func(text string) bool { return c.matches(text, v, false) })
}

func (c *condition) test(text string, v any) bool {
	switch {
	case c.glob != nil:
		return c.glob.match(text)
	case c.regex != nil:
		return c.regex.MatchString(text)
	case text == c.text:
		return true
	}
	token, isNumber := v.(json.Number)
	if !isNumber || c.number == nil {
		return false
	}
	n := number(string(token))
	return n != nil && n.Cmp(c.number) == 0
}

// textOf returns the text of a value that is not a string: the digits of a number as sent, and the canonical JSON of other values.
func textOf(v any) string {
	switch v := v.(type) {
	case json.Number:
		return string(v)
	case bool:
		if v {
			return "true"
		}
		return "false"
	}
	return string(call.AppendCanonical(nil, v))
}

// withoutDetours removes empty, "." and ".." elements from a path. It does not look at files. Other texts stay unchanged.
func withoutDetours(text string) string {
	if !strings.Contains(text, "/") || schemed(text) {
		return text
	}
	return path.Clean(text)
}

// schemed reports whether text begins with the scheme of a URL.
func schemed(text string) bool {
	scheme, _, found := strings.Cut(text, "://")
	return found && scheme != "" && !strings.ContainsFunc(scheme, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '+' || r == '-' || r == '.')
	})
}

// readQuoted reads the JSON string at the beginning of text and returns it with the rest.
func readQuoted(text string) (s, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		return "", text, errors.New("want a text in double quotes")
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			if err := json.Unmarshal([]byte(text[:i+1]), &s); err != nil {
				return "", text, errors.New("want a text with the escapes of JSON")
			}
			return s, text[i+1:], nil
		}
	}
	return "", text, errors.New("the quotes are not closed")
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // encoding a string cannot fail
	return string(b)
}

// operatorAt returns the operator at the beginning of text, or "" when there is none.
func operatorAt(text string) operator {
	i := slices.IndexFunc(operators, func(op operator) bool { return strings.HasPrefix(text, string(op)) })
	if i < 0 {
		return ""
	}
	return operators[i]
}
