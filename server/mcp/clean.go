package mcpserver

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxShown is the largest size of a text in a question for a person, in bytes.
const maxShown = 8 << 10

// clean prepares a text of a tool or a model for a person. It makes control characters, marks that change the direction of writing, and
// invisible characters visible. It cuts a long text.
func clean(text string) string {
	note := ""
	if len(text) > maxShown {
		text, note = strings.ToValidUTF8(text[:maxShown], ""), fmt.Sprintf(" … [%d more bytes]", len(text)-maxShown)
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp, unicode.Variation_Selector):
			fmt.Fprintf(&b, `\u{%04x}`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + note
}
