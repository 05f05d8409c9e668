package mcp

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Size limits in bytes for a server's texts that a model reads.
const (
	maxDescription  = 4 << 10
	maxInstructions = 8 << 10
	maxTitle        = 100
)

// markup matches markup that the prompt templates of models use, and markup that hides text from people. clean removes the tags from
// descriptions; the text between two tags remains.
var markup = regexp.MustCompile(`(?is)<!--.*?-->|<\|[^<>|]{0,60}\|>|\[/?INST\]|<</?SYS>>|` +
	`</?\s*(?:system|assistant|user|human|developer|instructions?|important|critical|secret|admin|prompt|override|` +
	`thinking|antml:\w+|function_calls?|function_results?|tool_calls?|tool_results?|invoke|system[-_]reminder)\b[^<>]{0,200}>`)

// turns matches beginnings of lines such as "system:", which look like a new speaker in a conversation.
var turns = regexp.MustCompile(`(?im)^[ \t#*]*(?:system|assistant|human|developer)[ \t*]*:[ \t]*`)

// clean returns a text that is safe for a model to read. It removes invisible characters, and markup that a model could take for a part of
// its own conversation. The parameter most limits the length of the returned text, in bytes. Notes in the text report that something was
// removed or cut.
func clean(text string, most int) string {
	seen := visible(text)
	out := seen
	for {
		next := turns.ReplaceAllString(markup.ReplaceAllString(out, ""), "")
		if next == out {
			break
		}
		out = next // The loop repeats, because the remaining text may form new markup.
	}
	out = strings.TrimSpace(out)
	note := ""
	if out != strings.TrimSpace(seen) {
		note = " [markup was removed]"
	}
	if len(out)+len(note) > most {
		whole := len(out)
		out = strings.TrimSpace(cut(out, most-80))
		note = fmt.Sprintf(" … [cut: the first %d of %d bytes]", len(out), whole) + note
	}
	return out + note
}

// visible removes invisible characters: control characters except line ends and tabs, direction marks, zero-width characters, variation
// selectors, Unicode tag characters, private-use characters and invalid UTF-8. Fillers become spaces.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == utf8.RuneError, unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Variation_Selector):
			return -1
		case r == '\u2028' || r == '\u2029':
			return '\n'
		case r == '\u115f' || r == '\u1160' || r == '\u3164' || r == '\uffa0' || r == '\u2800': // These fillers are letters or symbols that look like a space.
			return ' '
		}
		return r
	}, strings.ReplaceAll(text, "\r\n", "\n"))
}

// cleanLine cleans a text that is shown on one line.
func cleanLine(text string, most int) string {
	return cut(strings.Join(strings.Fields(visible(text)), " "), most)
}

// cut returns at most the first most bytes of text. It never ends within a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// named are the keywords of JSON Schema whose members may have any name, such as properties. The value of such a member is a schema, and
// its name is not a keyword.
var named = map[string]bool{"properties": true, "patternProperties": true, "$defs": true, "definitions": true, "dependentSchemas": true}

// cleanSchema cleans the titles and descriptions in a schema, at any depth. It does not change values (const, enum, default, examples).
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
					for n, schema := range members { // Every member is a schema, whatever its name.
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

// schemaText returns a server's schema for the registry, with clean texts and exact numbers. exact is the JSON text of the schema if the
// guard kept it. Without that text, the result is made from decoded.
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
