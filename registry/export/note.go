package export

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The bounds of what is told beside a schema.
const (
	maxNotes = 64
	maxQuote = 200 // bytes of a keyword that is repeated in words
)

// notes collects what was changed in one tool.
type notes struct {
	list []string
	seen map[string]bool
	more int
}

func (n *notes) add(at, format string, args ...any) {
	if at == "" {
		at = "arguments"
	}
	note := at + ": " + fmt.Sprintf(format, args...)
	switch {
	case n.seen[note]:
	case len(n.list) == maxNotes:
		n.more++
	default:
		if n.seen == nil {
			n.seen = map[string]bool{}
		}
		n.seen[note] = true
		n.list = append(n.list, note)
	}
}

func (n *notes) clone() notes { return notes{slices.Clone(n.list), maps.Clone(n.seen), n.more} }

func (n *notes) all() []string {
	if n.more > 0 {
		return append(n.list, fmt.Sprintf("and %d more", n.more))
	}
	return n.list
}

// words say in a description what a keyword would have said.
var words = map[string]string{
	"minLength": "length at least %s", "maxLength": "length at most %s", "pattern": "matches %s", "format": "format %s",
	"minimum": "at least %s", "maximum": "at most %s", "exclusiveMinimum": "more than %s", "exclusiveMaximum": "less than %s",
	"multipleOf": "a multiple of %s", "minItems": "at least %s items", "maxItems": "at most %s items",
	"minProperties": "at least %s members", "maxProperties": "at most %s members", "default": "default %s", "enum": "one of %s",
	"const": "exactly %s", "additionalProperties": "other members fit %s", "patternProperties": "members by name fit %s",
	"propertyNames": "names fit %s", "not": "must not fit %s", "examples": "such as %s", "contains": "contains %s", "dependentRequired": "members need each other: %s",
}

// say adds to a schema's description.
func say(o *object, text string) {
	if text == "" {
		return
	}
	d := o.text("description")
	switch {
	case d == "":
		o.set("description", upper(text)+".")
	case strings.HasSuffix(d, "."):
		o.set("description", d+" "+upper(text)+".")
	default:
		o.set("description", d+" ("+text+")")
	}
}

func upper(text string) string {
	if text[0] >= 'a' && text[0] <= 'z' {
		return string(text[0]-'a'+'A') + text[1:]
	}
	return text
}

// inWords is what a keyword says, for a description.
func inWords(name string, v any) string {
	text := compact(v)
	if len(text) > maxQuote {
		text = strings.ToValidUTF8(text[:maxQuote], "") + "…"
	}
	if s, ok := v.(string); ok && name != "default" && name != "const" && len(s) <= maxQuote {
		text = s
	}
	if name == "uniqueItems" {
		if v == true {
			return "no two items the same"
		}
		return ""
	}
	if form, ok := words[name]; ok {
		return fmt.Sprintf(form, text)
	}
	return name + " " + text
}

// silent are keywords that say nothing of a value; nobody misses them.
var silent = map[string]bool{
	"$schema": true, "$id": true, "$comment": true, "$anchor": true, "$dynamicAnchor": true, "$vocabulary": true, "$defs": true,
	"definitions": true, "id": true, "readOnly": true, "writeOnly": true, "deprecated": true, "nullable": true,
}

// told moves keywords into the description.
func (p *pass) told(o *object, at string, names ...string) { p.moved(o, o, at, names...) }

// moved moves keywords of o into the description of out.
func (p *pass) moved(o, out *object, at string, names ...string) {
	var said []string
	for _, name := range names {
		if !o.has(name) {
			continue
		}
		v := o.take(name)
		if silent[name] {
			continue
		}
		if text := inWords(name, v); text != "" {
			said = append(said, text)
		}
		p.notes.add(at, "%s is not taken and stands in the description", name)
	}
	say(out, strings.Join(said, "; "))
}
