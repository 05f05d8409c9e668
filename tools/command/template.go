package command

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/toold-dev/toold/tool"
)

// An element is an entry of run.args. It is one of these:
//   - text with placeholders; it becomes one element of the argument list, or none when an argument is missing, or one for each
//     entry of a list
//   - an option with its value
//   - a flag that a boolean argument sets
type element struct {
	text   template
	option string // option that comes before text, as a separate element
	flag   string
	when   string // name of the boolean argument that sets the flag
	path   string // path of the entry in the manifest, for messages
}

// A template is text with placeholders.
type template struct {
	parts []part
	path  string
}

// A part is literal text or a placeholder.
type part struct {
	literal string
	name    string // name of the argument of a placeholder; empty for literal text
	form    string // form of a placeholder: "", formPath or formJSON
	each    bool   // The placeholder is {name...}: it stands for each entry of a list.
}

const (
	formPath = "path" // a relative path that does not leave the directory where the program starts
	formJSON = "json" // any value, as JSON
)

var placeholder = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_-]*)(?::([a-z]+))?(\.\.\.)?$`)

// parseTemplate parses text with {name}, {name:path}, {name:json} and {name...}. {{ and }} mean literal braces.
func parseTemplate(text, path string) (template, error) {
	t := template{path: path}
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			t.parts = append(t.parts, part{literal: literal.String()})
			literal.Reset()
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case (c == '{' || c == '}') && i+1 < len(text) && text[i+1] == c:
			literal.WriteByte(c)
			i++
		case c == '}':
			return t, fmt.Errorf("a } has no matching {; write }} for a brace")
		case c == '{':
			inner, _, closed := strings.Cut(text[i+1:], "}")
			m := placeholder.FindStringSubmatch(inner)
			if !closed || m == nil || m[2] != "" && m[2] != formPath && m[2] != formJSON {
				return t, fmt.Errorf("{%s is not a placeholder; use {name}, {name:path}, {name:json} or {name...}, and {{ for a brace", inner)
			}
			flush()
			t.parts = append(t.parts, part{name: m[1], form: m[2], each: m[3] != ""})
			i += len(inner) + 1
		default:
			literal.WriteByte(c)
		}
	}
	flush()
	return t, nil
}

// element decodes an entry of run.args.
func (r *reader) element(n *yaml.Node, to *element, path string, depth int) {
	to.path = path
	if n.Kind != yaml.MappingNode {
		var text string
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Tag == "!!bool" {
			r.complain(positionOf(n), `%swant text such as "{path}", {option: --name, value: "{name}"} or {flag: --all, if: all}`, prefixed(path))
			return
		}
		text = n.Value // Node.Value contains a number as it is written in the file.
		to.text = r.template(text, path)
		return
	}
	var item struct {
		Option string `yaml:"option"`
		Value  string `yaml:"value"`
		Flag   string `yaml:"flag"`
		If     string `yaml:"if"`
	}
	r.fields(n, &item, path, depth)
	switch {
	case item.Option != "" && item.Value != "" && item.Flag == "" && item.If == "":
		to.option, to.text = item.Option, r.template(item.Value, path+".value")
	case item.Flag != "" && item.If != "" && item.Option == "" && item.Value == "":
		to.flag, to.when = item.Flag, item.If
	default:
		r.complain(positionOf(n), `%swant {option: --name, value: "{name}"} or {flag: --all, if: all}`, prefixed(path))
	}
}

func (r *reader) template(text, path string) template {
	t, err := parseTemplate(text, path)
	if err != nil {
		r.wrong(path, "%v", err)
	}
	if strings.ContainsRune(text, 0) {
		r.wrong(path, "contains a NUL, which programs cannot receive")
	}
	return t
}

func (t *template) placeholders() (list []part) {
	for _, p := range t.parts {
		if p.name != "" {
			list = append(list, p)
		}
	}
	return list
}

// prefix returns the literal text at the beginning.
func (t *template) prefix() string {
	if len(t.parts) > 0 && t.parts[0].name == "" {
		return t.parts[0].literal
	}
	return ""
}

// A filling holds the arguments of a call and the violations found in them.
type filling struct {
	values     map[string]any
	defaults   map[string]any
	violations []tool.Violation
}

func (f *filling) wrong(field, format string, args ...any) {
	f.violations = append(f.violations, tool.Violation{Field: field, Description: fmt.Sprintf(format, args...)})
}

func (f *filling) value(name string) (any, bool) {
	v, ok := f.values[name]
	if !ok {
		v, ok = f.defaults[name]
	}
	return v, ok
}

// texts fills a template. It returns one text, or none when an argument is missing, or one for each entry of a list.
func (f *filling) texts(t *template) (list []string) {
	rounds := 1
	for _, p := range t.parts {
		if !p.each {
			continue
		}
		v, ok := f.value(p.name)
		elements, isList := v.([]any)
		if ok && !isList {
			f.wrong(p.name, "want a list")
		}
		rounds = len(elements)
	}
	for round := range rounds {
		var b strings.Builder
		for i := range t.parts {
			p := &t.parts[i]
			if p.name == "" {
				b.WriteString(p.literal)
				continue
			}
			v, ok := f.value(p.name)
			if !ok {
				return nil
			}
			field := p.name
			if p.each {
				v, field = v.([]any)[round], fmt.Sprintf("%s[%d]", p.name, round)
			}
			b.WriteString(f.text(field, v, p))
		}
		list = append(list, b.String())
	}
	return list
}

// text returns one argument as text.
func (f *filling) text(field string, v any, p *part) string {
	var text string
	switch v := v.(type) {
	case string:
		text = v
		if p.form == formJSON {
			text = quoted(v)
		}
	case json.Number:
		text = v.String()
	case bool:
		text = fmt.Sprint(v)
	default:
		if p.form != formJSON {
			f.wrong(field, "want text, a number or a boolean")
			return ""
		}
		b, err := json.Marshal(v)
		if err != nil {
			f.wrong(field, "has no JSON form")
		}
		text = string(b)
	}
	if strings.ContainsRune(text, 0) {
		f.wrong(field, "contains a NUL, which programs cannot receive")
	}
	if p.form == formPath && !filepath.IsLocal(text) {
		f.wrong(field, "must be a relative path that stays in the workspace")
	}
	return text
}

const (
	maxElement  = 128<<10 - 1 // maximum size of one element in bytes; a limit of Linux
	maxElements = 1 << 20     // maximum size of all elements together, in bytes
)

// arguments returns the argument list with all placeholders filled. It rejects a value that begins with - where the program could take it
// for an option.
func (m *Manifest) arguments(f *filling) []string {
	var out []string
	operands := false // true after the element --, after which no element can be an option
	total := 0
	for i := range m.Run.Args {
		e := &m.Run.Args[i]
		if e.flag != "" {
			if v, _ := f.value(e.when); v == true {
				out = append(out, e.flag)
			}
			continue
		}
		for _, text := range f.texts(&e.text) {
			if e.option != "" {
				out = append(out, e.option)
			} else if !operands {
				m.refuseOption(f, e, text)
			}
			if len(text) > maxElement {
				f.wrong(fieldOf(&e.text), "is longer than %d bytes, the limit for one argument of a program", maxElement)
			}
			total += len(text) + 9
			out = append(out, text)
		}
		operands = operands || e.option == "" && len(e.text.placeholders()) == 0 && e.text.prefix() == "--"
	}
	if total > maxElements {
		f.wrong("", "are longer than %d bytes in total, the limit for a program", maxElements)
	}
	return out
}

func fieldOf(t *template) string {
	if list := t.placeholders(); len(list) > 0 {
		return list[0].name
	}
	return ""
}

// refuseOption rejects a value that the program could take for an option. It also rejects an empty value after an option, because the
// program would then use the next argument as the value.
func (m *Manifest) refuseOption(f *filling, e *element, text string) {
	prefix := e.text.prefix()
	switch {
	case len(e.text.placeholders()) == 0:
	case prefix == "" && strings.HasPrefix(text, "-"):
		f.wrong(fieldOf(&e.text), "begins with -, so %s would read it as an option", filepath.Base(m.Run.Program))
	case strings.HasPrefix(prefix, "-") && text == prefix && !strings.HasSuffix(prefix, "="):
		f.wrong(fieldOf(&e.text), "must not be empty: %s would use the next argument as the value of %s", filepath.Base(m.Run.Program), prefix)
	}
}
