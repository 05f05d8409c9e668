package permission

import (
	"fmt"
	"strconv"
	"strings"
)

// An argPath is a path into the arguments: names, indexes, and [*] for each element of a list.
type argPath []step

type step struct {
	name  string // name of a member; "" for an index
	index int
	all   bool
}

// maxSteps is the maximum length of a path, because arguments are nested at most 64 levels deep.
const maxSteps = 64

func (p argPath) String() string {
	var b strings.Builder
	for i, s := range p {
		switch {
		case s.all:
			b.WriteString("[*]")
		case s.name == "":
			fmt.Fprintf(&b, "[%d]", s.index)
		case plainName(s.name):
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.name)
		default:
			fmt.Fprintf(&b, "[%s]", quoted(s.name))
		}
	}
	return b.String()
}

// readPath reads a path at the beginning of text, such as name.name[2][*]["any name"]. rest is the text after the path. After an error,
// rest begins where the error is.
func readPath(text string) (p argPath, rest string, err error) {
	name, rest := cutName(text)
	if name == "" && !strings.HasPrefix(rest, `["`) {
		return nil, rest, fmt.Errorf("want the name of an argument")
	}
	if name != "" {
		p = argPath{{name: name}}
	}
	for {
		if len(p) > maxSteps {
			return nil, rest, fmt.Errorf("has more than %d steps", maxSteps)
		}
		var s step
		switch {
		case strings.HasPrefix(rest, "."):
			name, after := cutName(rest[1:])
			if name == "" {
				return nil, rest[1:], fmt.Errorf("want a name after the dot")
			}
			s, rest = step{name: name}, after
		case strings.HasPrefix(rest, "["):
			if s, rest, err = readIndex(rest); err != nil {
				return nil, rest, err
			}
		default:
			return p, rest, nil
		}
		p = append(p, s)
	}
}

func readIndex(text string) (s step, rest string, err error) {
	if strings.HasPrefix(text, `["`) {
		name, rest, err := readQuoted(text[1:])
		if err != nil {
			return s, rest, err
		}
		if rest, ok := strings.CutPrefix(rest, "]"); ok && name != "" {
			return step{name: name}, rest, nil
		}
		return s, rest, fmt.Errorf(`want ["name"]`)
	}
	inside, rest, closed := strings.Cut(text[1:], "]")
	if !closed {
		return s, text, fmt.Errorf("the bracket is not closed")
	}
	if inside == "*" {
		return step{all: true}, rest, nil
	}
	n, err := strconv.ParseUint(inside, 10, 31)
	if err != nil || inside[0] == '+' || len(inside) > 1 && inside[0] == '0' {
		return s, text[1:], fmt.Errorf("want [0], [*] or [\"name\"]")
	}
	return step{index: int(n)}, rest, nil
}

// cutName cuts a name of letters, digits, _, $ and - from the beginning of text.
func cutName(text string) (name, rest string) {
	n := 0
	for n < len(text) && (nameByte(text[n]) || n > 0 && (text[n] == '-' || '0' <= text[n] && text[n] <= '9')) {
		n++
	}
	return text[:n], text[n:]
}

func nameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '$' || c >= 0x80
}

func plainName(s string) bool {
	name, rest := cutName(s)
	return name != "" && rest == ""
}

// holds reports whether test is true for the value at the path in v. It is false when the value is missing. For a list, a granting rule
// needs every element to pass, and a restricting rule only one.
func (p argPath) holds(v any, grants bool, test func(v any) bool) bool {
	if len(p) == 0 {
		return test(v)
	}
	s := p[0]
	if s.name != "" {
		object, _ := v.(map[string]any)
		member, ok := object[s.name]
		return ok && p[1:].holds(member, grants, test)
	}
	list, _ := v.([]any)
	if !s.all {
		return s.index < len(list) && p[1:].holds(list[s.index], grants, test)
	}
	for _, element := range list {
		if p[1:].holds(element, grants, test) != grants {
			return !grants
		}
	}
	return grants && len(list) > 0
}
