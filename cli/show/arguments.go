package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

const longValue = 120 // bytes; longer values are shown with their length

// Arguments formats the JSON text of an object, member by member and complete, so that an approver reads exactly what runs. A long value is
// preceded by its length. Text that is not a JSON object is shown unchanged.
func (v View) Arguments(text string) string {
	members, ok := objectMembers(text)
	if !ok {
		return v.longText("", text)
	}
	if len(members) == 0 {
		return v.paint(dim, "(no arguments)") + "\n"
	}
	var b strings.Builder
	for _, m := range members {
		b.WriteString(v.member(m))
	}
	return b.String()
}

// ArgumentsSize returns the size of text in bytes, for people.
func ArgumentsSize(text string) string { return Number(int64(len(text))) + " bytes" }

type member struct {
	name string
	raw  json.RawMessage
}

// objectMembers returns the members in the order of the text. It keeps duplicate members, which effective arguments never have.
func objectMembers(text string) ([]member, bool) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	var members []member
	for d.More() {
		key, err := d.Token()
		name, isText := key.(string)
		var raw json.RawMessage
		if err != nil || !isText || d.Decode(&raw) != nil {
			return nil, false
		}
		members = append(members, member{name, raw})
	}
	if _, err := d.Token(); err != nil || d.More() {
		return nil, false
	}
	return members, true
}

// member formats one member. A string of several lines becomes a block. Other strings keep their JSON quotes, so that "1" differs from 1.
func (v View) member(m member) string {
	label := v.paint(accent, Line(m.name)) + v.paint(dim, ":") + " "
	var text string
	if json.Unmarshal(m.raw, &text) == nil && m.raw[0] == '"' && strings.Contains(text, "\n") {
		return label + v.block(text)
	}
	raw := string(m.raw)
	if m.raw[0] == '{' || m.raw[0] == '[' {
		var b bytes.Buffer
		if json.Indent(&b, m.raw, "", "  ") == nil && len(raw) > 60 {
			return label + v.announce(raw) + "\n" + indent(fold(JSON(b.String())))
		}
	}
	if len(raw) <= longValue {
		return label + fold(Line(JSON(raw))) + "\n"
	}
	return label + v.announce(raw) + "\n" + indent(fold(Line(JSON(raw))))
}

// longText formats all of a text with a label.
func (v View) longText(label, text string) string {
	if len(text) <= longValue && !strings.Contains(text, "\n") {
		return label + fold(Line(text)) + "\n"
	}
	return label + v.block(text)
}

func (v View) announce(s string) string { return v.paint(dim, "("+ArgumentsSize(s)+")") }

// block puts a bar before each line of s, so that no line can imitate toold's own output.
func (v View) block(s string) string {
	size := ArgumentsSize(s)
	if lines := strings.Count(strings.TrimSuffix(s, "\n"), "\n") + 1; lines > 1 {
		size += fmt.Sprintf(", %s lines", Number(int64(lines)))
	}
	if !strings.HasSuffix(s, "\n") && strings.Contains(s, "\n") {
		size += ", no line break at the end"
	}
	if !utf8.ValidString(s) {
		size += ", not UTF-8"
	}
	bar := v.paint(dim, "│") + " "
	body := strings.TrimSuffix(fold(Text(s)), "\n")
	return v.paint(dim, "("+size+")") + "\n" + "  " + bar + strings.ReplaceAll(body, "\n", "\n  "+bar) + "\n"
}

// Diff colours the lines of a unified diff.
func (v View) Diff(text string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(strings.TrimSuffix(Text(text), "\n"), "\n") {
		code := ""
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"):
			code = bold
		case strings.HasPrefix(line, "@@"):
			code = accent
		case strings.HasPrefix(line, "+"):
			code = good
		case strings.HasPrefix(line, "-"):
			code = bad
		}
		b.WriteString(v.paint(code, fold(line)) + "\n")
	}
	return b.String()
}
