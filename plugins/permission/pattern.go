package permission

import (
	"errors"
	"fmt"
	"strings"

	"github.com/toold-dev/toold/tool"
)

// A pattern matches calls by the tool's ID and the arguments. All its conditions must hold.
type pattern struct {
	text       string
	id         idPattern
	conditions []condition
}

// An idPattern matches tool IDs by a full ID, a glob, or a regular expression.
type idPattern struct {
	text  string
	regex *regex
	glob  bool
}

func (p *idPattern) match(id string) bool {
	switch {
	case p.regex != nil:
		return p.regex.MatchString(id)
	case p.glob:
		return tool.Glob(p.text, id)
	}
	return p.text == id
}

// spelled returns a number for how exactly the pattern determines an ID; it is used to order rules.
func (p *idPattern) spelled() int {
	switch {
	case p.regex != nil:
		return 0
	case p.glob:
		return len(p.text) - strings.Count(p.text, "*") - strings.Count(p.text, "?")
	}
	return len(p.text) + 100
}

// A patternError says at which byte of a pattern the error is.
type patternError struct {
	at     int
	reason string
}

func (e *patternError) Error() string { return e.reason }

// parsePattern parses tool, tool(glob) or tool(place op "value", …). tool is an ID, a glob or a /regular expression/.
func parsePattern(text string) (*pattern, error) {
	p := &pattern{text: text}
	wrong := func(rest, reason string, args ...any) error {
		return &patternError{len(text) - len(rest), fmt.Sprintf(reason, args...)}
	}
	rest := text
	if strings.HasPrefix(text, "/") {
		end := strings.LastIndexByte(text, '/')
		if i := closing(text); i > 0 {
			end = i
		}
		if end == 0 {
			return nil, wrong(rest, "the regular expression has no closing /")
		}
		regex, err := compileRegex(text[1:end])
		if err != nil || end == 1 {
			return nil, wrong(text[1:], "%q %v", clip(text[1:end], 60), cmpErr(err, errors.New("is empty")))
		}
		p.id, rest = idPattern{text: text[:end+1], regex: regex}, text[end+1:]
	} else {
		id := text
		if i := strings.IndexByte(text, '('); i >= 0 {
			id = text[:i]
		}
		if !tool.ValidGlob(id) || id == "" {
			return nil, wrong(rest, "%q is not a glob of *, ? and [classes]", clip(id, 60))
		}
		p.id, rest = idPattern{text: id, glob: strings.ContainsAny(id, `*?[\`)}, text[len(id):]
	}
	if rest == "" {
		return p, nil
	}
	if !strings.HasPrefix(rest, "(") || !strings.HasSuffix(rest, ")") {
		return nil, wrong(rest, "want tool, tool(glob) or tool(path = \"value\")")
	}
	inside := strings.TrimSuffix(rest[1:], ")")
	if strings.TrimSpace(inside) == "" {
		return nil, wrong(rest, "the parentheses are empty; omit them")
	}
	var err error
	if isConditions(inside) {
		p.conditions, rest, err = readConditions(inside)
	} else {
		p.conditions, rest, err = readGlob(inside)
	}
	if err != nil {
		return nil, wrong(rest+")", "%v", err)
	}
	return p, nil
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// closing returns the end of the regular expression at the beginning of text. It ends at the first unescaped / that is followed by a
// parenthesis or the end of text.
func closing(text string) int {
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case text[i] == '/' && (i+1 == len(text) || text[i+1] == '('):
			return i
		}
	}
	return 0
}

// isConditions reports whether the text in parentheses contains conditions and not a glob. Conditions begin with a path, an operator and a
// quotation mark.
func isConditions(inside string) bool {
	_, rest, err := readPath(strings.TrimLeft(inside, " "))
	if err != nil {
		return false
	}
	rest = strings.TrimLeft(rest, " ")
	op := operatorAt(rest)
	return op != "" && strings.HasPrefix(strings.TrimLeft(rest[len(op):], " "), `"`)
}

// readGlob reads a glob for the primary argument. A glob that looks like conditions must be quoted.
func readGlob(inside string) ([]condition, string, error) {
	text := inside
	if strings.HasPrefix(text, `"`) {
		unquoted, rest, err := readQuoted(text)
		if err != nil || rest != "" {
			return nil, rest, cmpErr(err, errors.New("want no text after the quoted glob"))
		}
		text = unquoted
	}
	c, err := newCondition(nil, "~", text)
	return []condition{c}, inside, err
}

// maxConditions is the maximum number of conditions in one pattern.
const maxConditions = 32

func readConditions(inside string) (list []condition, rest string, err error) {
	rest = strings.TrimLeft(inside, " ")
	for {
		from := rest
		var p argPath
		if p, rest, err = readPath(rest); err != nil {
			return nil, rest, err
		}
		rest = strings.TrimLeft(rest, " ")
		op := operatorAt(rest)
		if op == "" {
			return nil, rest, errors.New("want one of =, !=, ~, !~, =~, !=~")
		}
		rest = strings.TrimLeft(rest[len(op):], " ")
		value := rest
		var text string
		if text, rest, err = readQuoted(rest); err != nil {
			return nil, rest, err
		}
		c, err := newCondition(p, op, text)
		if err != nil {
			return nil, value, err
		}
		if list = append(list, c); len(list) > maxConditions {
			return nil, from, fmt.Errorf("has more than %d conditions", maxConditions)
		}
		rest = strings.TrimLeft(rest, " ")
		if rest == "" {
			return list, "", nil
		}
		if rest[0] != ',' {
			return nil, rest, errors.New("want a comma and another condition, or the end")
		}
		rest = strings.TrimLeft(rest[1:], " ")
	}
}
