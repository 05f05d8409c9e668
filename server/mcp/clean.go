package mcpserver

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxShown is the maximum size of a text of a question for a person, in bytes.
const maxShown = 8 << 10

// clean returns a text of a tool or a model for a person. Control characters, marks that change the direction and invisible characters become
// visible, and a long text is cut.
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
