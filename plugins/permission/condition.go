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

// An operator is how a condition compares.
type operator string

// operators lists them, so that none comes behind one that begins it.
var operators = []operator{"!=~", "=~", "!=", "!~", "=", "~"}

// A condition is about one place in the arguments.
type condition struct {
	place    place // empty: the primary argument
	operator operator
	not      bool
	text     string
	number   *big.Rat // what text is, for = and !=
	glob     *glob
	regex    *regex
}

func newCondition(p place, op operator, text string) (c condition, err error) {
	c = condition{place: p, operator: op, not: op[0] == '!', text: text}
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

// A regex is a compiled regular expression that knows how long it may take.
type regex struct {
	*regexp.Regexp
	size int // in instructions
}

// Matching takes time with the length of the text and with the size of the expression: as much as 50 ns for each
// instruction and byte. No hook can stop it, which is why it is bounded.
const (
	maxProgram = 500
	maxWork    = 32 << 20
)

// compileRegex compiles a regular expression in which a dot is any character, line breaks too: a line break in an
// argument must not hide what comes behind it.
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

// number returns the number that text is in JSON; nil when it is none.
func number(text string) *big.Rat {
	v, err := call.ParseJSON(text, 0)
	token, isNumber := v.(json.Number)
	if err != nil || !isNumber {
		return nil
	}
	r, ok := new(big.Rat).SetString(string(token)) // the parser bounds digits and exponent
	if !ok {
		return nil
	}
	return r
}

// holds reports whether the condition holds for a value of the arguments. A value may be read in several ways, as it is and,
// when it looks like a path, without its detours: what gives must hold for all of a family, what takes away for one.
func (c *condition) holds(v any, s *subject, gives bool) bool {
	text, isText := v.(string)
	if !isText {
		return c.says(textOf(v), v, gives)
	}
	if c.isLong(text) {
		return !gives
	}
	f, test := s.formsOf(c.place, text), func(text string) bool { return c.test(text, v) }
	if gives != c.not {
		return f.all(test) != c.not
	}
	return f.some(test) != c.not
}

// says reports what the condition says of one reading of a value. What is too long to be looked at counts for what takes
// away and not for what gives.
func (c *condition) says(text string, v any, gives bool) bool {
	if c.isLong(text) {
		return !gives
	}
	return c.test(text, v) != c.not
}

func (c *condition) isLong(text string) bool {
	return c.regex != nil && len(text)*c.regex.size > maxWork
}

// holdsIn reports whether the condition holds for a call; of a compound command for the simple one at hand.
func (c *condition) holdsIn(s *subject, gives bool) bool {
	value := s.in.Arguments.Value()
	isPrimary := len(c.place) == 0 || len(c.place) == 1 && c.place[0].name == s.primary
	if !isPrimary {
		return c.place.holds(value, gives, func(v any) bool { return c.holds(v, s, gives) })
	}
	v, there := value[s.primary]
	whole, isText := v.(string)
	switch {
	case !there || s.primary == "":
		return false
	case !s.isCommand || !isText:
		return c.holds(v, s, gives)
	case s.unclear:
		return !gives
	case gives:
		return s.understood && c.says(s.part.Text, v, gives)
	case c.not && s.hasPart:
		return c.says(s.part.Text, v, gives)
	}
	return s.alsoWhole && c.says(whole, v, gives) || s.hasPart && c.saysOfPart(s, v)
}

// saysOfPart holds what takes away against each spelling of a simple command.
func (c *condition) saysOfPart(s *subject, v any) bool {
	return c.says(s.part.Text, v, false) || slices.ContainsFunc(s.part.Also, func(text string) bool { return c.says(text, v, false) })
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

// textOf is how a value that is no text is compared: a number by its token, everything else by its canonical form.
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

// withoutDetours returns a path without empty, "." and ".." elements where the text alone is enough; other texts do not change.
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

// readQuoted reads a JSON string at the beginning of text and returns the rest.
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
	b, _ := json.Marshal(s) // strings always have a form
	return string(b)
}

// operatorAt returns the operator at the beginning of text; "" when there is none.
func operatorAt(text string) operator {
	i := slices.IndexFunc(operators, func(op operator) bool { return strings.HasPrefix(text, string(op)) })
	if i < 0 {
		return ""
	}
	return operators[i]
}
