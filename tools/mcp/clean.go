package mcp

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The bounds of what a model reads of a server, in bytes.
const (
	maxDescription  = 4 << 10
	maxInstructions = 8 << 10
	maxTitle        = 100
)

// markup is what templates of models mean something by, or what hides text from a person: it is taken out of
// descriptions. What stands between the marks stays, to be read as the words that they are.
var markup = regexp.MustCompile(`(?is)<!--.*?-->|<\|[^<>|]{0,60}\|>|\[/?INST\]|<</?SYS>>|` +
	`</?\s*(?:system|assistant|user|human|developer|instructions?|important|critical|secret|admin|prompt|override|` +
	`thinking|antml:\w+|function_calls?|function_results?|tool_calls?|tool_results?|invoke|system[-_]reminder)\b[^<>]{0,200}>`)

// turns are lines that begin like the words of somebody in a conversation.
var turns = regexp.MustCompile(`(?im)^[ \t#*]*(?:system|assistant|human|developer)[ \t*]*:[ \t]*`)

// clean returns a text as a model may read it: without characters that nobody sees, without markup that a model could take
// for its own conversation, and no longer than most bytes. Notes say that something was taken out or cut.
func clean(text string, most int) string {
	seen := visible(text)
	out := seen
	for {
		next := turns.ReplaceAllString(markup.ReplaceAllString(out, ""), "")
		if next == out {
			break
		}
		out = next // what is left may be markup again
	}
	out = strings.TrimSpace(out)
	note := ""
	if out != strings.TrimSpace(seen) {
		note = " [markup was taken out]"
	}
	if len(out)+len(note) > most {
		whole := len(out)
		out = strings.TrimSpace(cut(out, most-80))
		note = fmt.Sprintf(" … [cut: the first %d of %d bytes]", len(out), whole) + note
	}
	return out + note
}

// visible drops characters that are not seen: control characters but line ends and tabs, marks of direction, those without
// width, tags, private ones and what is no UTF-8.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == utf8.RuneError, unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Variation_Selector):
			return -1
		case r == '\u2028' || r == '\u2029':
			return '\n'
		case r == '\u115f' || r == '\u1160' || r == '\u3164' || r == '\uffa0' || r == '\u2800': // fillers: they look like nothing
			return ' '
		}
		return r
	}, strings.ReplaceAll(text, "\r\n", "\n"))
}

// cleanLine is clean for what is shown in one line.
func cleanLine(text string, most int) string {
	return cut(strings.Join(strings.Fields(visible(text)), " "), most)
}

// cut returns the beginning of a text, of whole characters.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// named are the keywords below which the names are the author's.
var named = map[string]bool{"properties": true, "patternProperties": true, "$defs": true, "definitions": true, "dependentSchemas": true}

// cleanSchema cleans the titles and descriptions in a schema, at any depth. Values (const, enum, default, examples) stay.
func cleanSchema(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = cleanSchema(v[i])
		}
	case map[string]any:
		for name, member := range v {
			text, isText := member.(string)
			switch {
			case isText && (name == "description" || name == "title" || name == "$comment"):
				v[name] = clean(text, maxDescription)
			case name == "const" || name == "enum" || name == "default" || name == "examples":
			case named[name]:
				if members, ok := member.(map[string]any); ok {
					for n, schema := range members { // whatever it is called, it is a schema
						members[n] = cleanSchema(schema)
					}
				}
			default:
				v[name] = cleanSchema(member)
			}
		}
	}
	return v
}

// schemaText is a server's schema as it is registered: the text of what it sent, cleaned.
func schemaText(exact any, decoded any) (json.RawMessage, error) {
	text, ok := exact.(string)
	if !ok {
		b, err := json.Marshal(decoded)
		if err != nil {
			return nil, err
		}
		text = string(b)
	}
	if text == "null" {
		return nil, nil
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(cleanSchema(v))
}
