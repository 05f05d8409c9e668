package call

import (
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// A SyntaxError says where and why a JSON text was refused. It is written for the model that sent the text: a text is
// never repaired, so the message must be enough to send a better one.
type SyntaxError struct {
	Offset    int    // in bytes, from 0
	Reason    string // what was expected and what was found
	Truncated bool   // the text ended inside a value, as it does when an output limit cut it off
}

func (e *SyntaxError) Error() string {
	msg := fmt.Sprintf("not valid JSON at byte %d: %s", e.Offset, e.Reason)
	if e.Truncated {
		msg += "; the text looks cut off"
	}
	return msg
}

// expected refuses the byte at offset, where something else should be.
func (p *jsonParser) expected(offset int, what string) error {
	if offset >= len(p.text) {
		return p.cutOff("expected " + what)
	}
	return &SyntaxError{Offset: offset, Reason: "expected " + what + ", found " + describeByte(p.text[offset:])}
}

// cutOff refuses a text that ended inside a value.
func (p *jsonParser) cutOff(what string) error {
	return &SyntaxError{Offset: len(p.text), Reason: what + ", but the text ended", Truncated: true}
}

// describeByte shows the first character of s: as itself when it can be read, else by its number.
func describeByte(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	switch {
	case r == utf8.RuneError && size == 1:
		return fmt.Sprintf("byte 0x%02x, which is not UTF-8", s[0])
	case !unicode.IsPrint(r):
		return fmt.Sprintf("%U", r)
	case r == '\'':
		return `"'"`
	}
	return "'" + string(r) + "'"
}

// quoteName shows a member's name, cut so that a huge one does not make a huge message.
func quoteName(name string) string {
	const most = 64
	if len(name) <= most {
		return strconv.Quote(name)
	}
	end := most
	for !utf8.RuneStart(name[end]) {
		end--
	}
	return strconv.Quote(name[:end]) + "…"
}
