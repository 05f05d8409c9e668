package registry

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The characters of \s in ECMA-262, as members of a class. Go's \s has only the ASCII ones.
const (
	spaces    = `\t\n\v\f\r\x{feff}\p{Z}`
	notSpaces = `\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}` +
		`\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}`
)

// goPattern translates a regular expression of ECMA-262 to Go. It translates \s, \S and \cX, which have another meaning in Go. It keeps
// syntax that Go does not have, so that the compilation refuses the expression.
func goPattern(text string) string {
	if !strings.Contains(text, `\`) || strings.Contains(text, `\Q`) {
		return text
	}
	var b strings.Builder
	class := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			i += writeEscape(&b, text[i:], class)
			continue
		case c == '[' && !class:
			class = true
			for i+1 < len(text) && strings.IndexByte("^]", text[i+1]) >= 0 && text[i] != ']' { // In Go, a bracket in the first position of a class is an ordinary character.
				b.WriteByte(text[i])
				i++
			}
		case c == '[' && strings.HasPrefix(text[i:], "[:") && strings.Contains(text[i:], ":]"):
			end := strings.Index(text[i:], ":]") + 1
			b.WriteString(text[i : i+end])
			i += end
		case c == ']':
			class = false
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// writeEscape writes an escape. text is the text after the backslash. It returns how many bytes the escape has beyond the first.
func writeEscape(b *strings.Builder, text string, class bool) int {
	switch {
	case text[0] == 's' && class:
		b.WriteString(spaces)
	case text[0] == 's':
		b.WriteString("[" + spaces + "]")
	case text[0] == 'S' && class:
		b.WriteString(notSpaces)
	case text[0] == 'S':
		b.WriteString("[^" + spaces + "]")
	case text[0] == 'c' && len(text) > 1 && isLetter(text[1]):
		fmt.Fprintf(b, `\x{%x}`, text[1]&31)
		return 1
	default:
		b.WriteByte('\\')
		b.WriteByte(text[0])
	}
	return 0
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// isECMARegexp reports whether a text is a regular expression of ECMA-262. It checks the syntax in one pass.
func isECMARegexp(text string) bool {
	if !utf8.ValidString(text) {
		return false
	}
	e := ecma{rest: text, names: map[string]bool{}}
	if !e.alternatives() || e.rest != "" {
		return false
	}
	for _, name := range e.named {
		if !e.names[name] {
			return false
		}
	}
	return e.highest <= e.groups
}

// An ecma parses a regular expression. Its methods return false for invalid syntax.
type ecma struct {
	rest    string
	groups  int
	highest int // highest number of a group in a back reference
	names   map[string]bool
	named   []string // names of groups in back references
}

func (e *ecma) take(prefix string) bool {
	rest, found := strings.CutPrefix(e.rest, prefix)
	e.rest = rest
	return found
}

// next consumes and returns a character.
func (e *ecma) next() rune {
	r, n := utf8.DecodeRuneInString(e.rest)
	e.rest = e.rest[n:]
	return r
}

// alternatives reads up to the parenthesis that closes the group, or to the end of the text.
func (e *ecma) alternatives() bool {
	for e.rest != "" && e.rest[0] != ')' {
		if e.take("|") || e.take("^") || e.take("$") || e.take(`\b`) || e.take(`\B`) {
			continue
		}
		if !e.term() || !e.quantifier() {
			return false
		}
	}
	return true
}

func (e *ecma) term() bool {
	switch {
	case e.take("("):
		return e.group()
	case e.take("["):
		return e.class()
	case e.take(`\`):
		_, ok := e.escape(false)
		return ok
	}
	return !strings.ContainsRune("*+?", e.next())
}

func (e *ecma) group() bool {
	switch {
	case e.take("?:"), e.take("?="), e.take("?!"), e.take("?<="), e.take("?<!"):
	case e.take("?<"):
		name, ok := e.name()
		if !ok || e.names[name] {
			return false
		}
		e.names[name] = true
		e.groups++
	case e.take("?"):
		return false
	default:
		e.groups++
	}
	return e.alternatives() && e.take(")")
}

// name reads the name of a group up to the closing angle bracket.
func (e *ecma) name() (string, bool) {
	name, rest, found := strings.Cut(e.rest, ">")
	e.rest = rest
	for i, r := range name {
		letter := r == '$' || r == '_' || r >= utf8.RuneSelf || isLetter(byte(r))
		if !letter && (i == 0 || r < '0' || r > '9') {
			return "", false
		}
	}
	return name, found && name != ""
}

// quantifier reads an optional quantifier. A brace that begins no quantifier is an ordinary character.
func (e *ecma) quantifier() bool {
	if !e.take("*") && !e.take("+") && !e.take("?") {
		inside, rest, found := strings.Cut(strings.TrimPrefix(e.rest, "{"), "}")
		least, most, comma := strings.Cut(inside, ",")
		if !strings.HasPrefix(e.rest, "{") || !found || !digits(least) || comma && most != "" && !digits(most) {
			return true
		}
		low, _ := strconv.ParseUint(least, 10, 64) // For a number out of range, ParseUint returns the largest number.
		high, _ := strconv.ParseUint(most, 10, 64)
		if most != "" && high < low {
			return false
		}
		e.rest = rest
	}
	e.take("?")
	return true
}

func digits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// class reads up to the bracket that closes the class.
func (e *ecma) class() bool {
	e.take("^")
	for !e.take("]") {
		from, ok := e.member()
		if !ok {
			return false
		}
		if !strings.HasPrefix(e.rest, "-") || strings.HasPrefix(e.rest, "-]") {
			continue
		}
		e.take("-")
		to, ok := e.member()
		if !ok || from < 0 || to < 0 || to < from {
			return false
		}
	}
	return true
}

// member reads a member of a class. It returns -1 for a member that stands for several characters.
func (e *ecma) member() (rune, bool) {
	if e.rest == "" {
		return 0, false
	}
	if e.take(`\`) {
		return e.escape(true)
	}
	return e.next(), true
}

// escape reads the escape after a backslash. It returns -1 for an escape that stands for several characters.
func (e *ecma) escape(class bool) (rune, bool) {
	if e.rest == "" {
		return 0, false
	}
	switch c := e.next(); {
	case strings.ContainsRune("dDwWsS", c):
		return -1, true
	case strings.ContainsRune("fnrtv0", c):
		return map[rune]rune{'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v', '0': 0}[c], true
	case c == 'b' && class:
		return '\b', true
	case c == 'c':
		ok := e.rest != "" && isLetter(e.rest[0])
		return e.next() & 31, ok
	case c == 'x':
		return e.hex(2)
	case c == 'u' && e.take("{"):
		code, rest, found := strings.Cut(e.rest, "}")
		e.rest = rest
		n, err := strconv.ParseUint(code, 16, 32)
		return rune(n), found && err == nil && n <= utf8.MaxRune
	case c == 'u':
		return e.hex(4)
	case c == 'p' || c == 'P':
		property, rest, found := strings.Cut(e.rest, "}")
		e.rest = rest
		return -1, found && len(property) > 1 && property[0] == '{'
	case c == 'k' && !class && e.take("<"):
		name, ok := e.name()
		e.named = append(e.named, name)
		return -1, ok
	case c >= '1' && c <= '9' && !class:
		n := len(e.rest) - len(strings.TrimLeft(e.rest, "0123456789"))
		number, err := strconv.Atoi(string(c) + e.rest[:n])
		e.rest, e.highest = e.rest[n:], max(e.highest, number)
		return -1, err == nil
	default:
		return c, c < utf8.RuneSelf && c != '_' && !isLetter(byte(c)) && (c < '0' || c > '9')
	}
}

func (e *ecma) hex(n int) (rune, bool) {
	if len(e.rest) < n {
		return 0, false
	}
	code, err := strconv.ParseUint(e.rest[:n], 16, 32)
	e.rest = e.rest[n:]
	return rune(code), err == nil
}
