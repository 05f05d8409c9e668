package redact

import (
	"encoding/json"
	"strings"
)

// Text returns a text without its secrets. A text without secrets is returned unchanged.
func (r *Redactor) Text(s string) string {
	if s == "" {
		return s
	}
	t := r.Stream()
	out := append(t.Next([]byte(s)), t.End()...)
	if string(out) == s {
		return s
	}
	return string(out)
}

// JSON returns JSON text without its secrets. The result is valid JSON. JSON redacts each string and number separately, after it has
// decoded the strings. When a secret spans several strings or numbers, the whole text becomes one string.
func (r *Redactor) JSON(text string) string {
	if !strings.Contains(text, `\`) && r.Text(text) == text {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		n := 1
		switch c := text[i]; {
		case c == '"':
			n = stringLength(text[i:])
			b.WriteString(r.jsonString(text[i : i+n]))
		case c == '-' || c >= '0' && c <= '9':
			n = span([]byte(text[i:]), numberBytes, len(text)-i)
			b.WriteString(r.jsonNumber(text[i : i+n]))
		default:
			b.WriteByte(c)
		}
		i += n
	}
	out := b.String()
	clean := r.Text(out) // This finds secrets that span several members: a value that is JSON itself, or a credential after its name.
	if clean != out && !json.Valid([]byte(clean)) {
		return quoted(clean)
	}
	return clean
}

var numberBytes = bytesOf("0-9", "+.eE", "-")

// stringLength returns the length in bytes of the JSON string at the beginning of s, at most the length of s.
func stringLength(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(s)
}

func (r *Redactor) jsonString(token string) string {
	var value string
	if json.Unmarshal([]byte(token), &value) != nil {
		return quoted(r.Text(token)) // an invalid token becomes a valid string
	}
	clean := r.Text(value)
	if clean == value {
		return token
	}
	return quoted(clean)
}

func (r *Redactor) jsonNumber(token string) string {
	if clean := r.Text(token); clean != token {
		return quoted(clean)
	}
	return token
}

func quoted(s string) string { return `"` + jsonForm(s, false) + `"` }
