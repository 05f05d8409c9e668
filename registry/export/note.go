package export

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The limits of notes and of descriptions.
const (
	maxNotes = 64
	maxQuote = 200 // bytes of a keyword's value in a description
)

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

// phrases has the texts for keywords that a provider does not support.
var phrases = map[string]string{
	"minLength": "length at least %s", "maxLength": "length at most %s", "pattern": "matches %s", "format": "format %s",
	"minimum": "at least %s", "maximum": "at most %s", "exclusiveMinimum": "more than %s", "exclusiveMaximum": "less than %s",
	"multipleOf": "a multiple of %s", "minItems": "at least %s items", "maxItems": "at most %s items",
	"minProperties": "at least %s members", "maxProperties": "at most %s members", "default": "default %s", "enum": "one of %s",
	"const": "exactly %s", "additionalProperties": "other members fit %s", "patternProperties": "members by name fit %s",
	"propertyNames": "names fit %s", "not": "must not fit %s", "examples": "such as %s", "contains": "contains %s", "dependentRequired": "members need each other: %s",
}

// addDescription adds a text to the description of a schema.
func addDescription(o *object, text string) {
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

// phrase returns the text of a keyword for a description.
func phrase(name string, v any) string {
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
	if form, ok := phrases[name]; ok {
		return fmt.Sprintf(form, text)
	}
	return name + " " + text
}

// ignored has the keywords that do not constrain a value.
var ignored = map[string]bool{
	"$schema": true, "$id": true, "$comment": true, "$anchor": true, "$dynamicAnchor": true, "$vocabulary": true, "$defs": true,
	"definitions": true, "id": true, "readOnly": true, "writeOnly": true, "deprecated": true, "nullable": true,
}

// describe replaces keywords with a text in the description.
func (p *conversion) describe(o *object, at string, names ...string) {
	p.describeIn(o, o, at, names...)
}

// describeIn removes keywords of o and adds their text to the description of out.
func (p *conversion) describeIn(o, out *object, at string, names ...string) {
	var texts []string
	for _, name := range names {
		if !o.has(name) {
			continue
		}
		v := o.take(name)
		if ignored[name] {
			continue
		}
		if text := phrase(name, v); text != "" {
			texts = append(texts, text)
		}
		p.notes.add(at, "%s is not supported; the description has it", name)
	}
	addDescription(out, strings.Join(texts, "; "))
}
