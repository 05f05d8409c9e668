package call

import (
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// A SyntaxError says where and why a JSON text was refused. Its reader is the model that sent the text. A text is never repaired, so the
// message must tell the model how to correct the text.
type SyntaxError struct {
	Offset    int    // offset in bytes, from 0
	Reason    string // the expected and the found token
	Truncated bool   // the text ended inside a value, for example because an output limit cut it
}

func (e *SyntaxError) Error() string {
	msg := fmt.Sprintf("not valid JSON at byte %d: %s", e.Offset, e.Reason)
	if e.Truncated {
		msg += "; the text looks cut off"
	}
	return msg
}

// expected returns the error for an unexpected byte at offset.
func (p *jsonParser) expected(offset int, what string) error {
	if offset >= len(p.text) {
		return p.cutOff("expected " + what)
	}
	return &SyntaxError{Offset: offset, Reason: "expected " + what + ", found " + describeByte(p.text[offset:])}
}

// cutOff returns the error for a text that ended inside a value.
func (p *jsonParser) cutOff(what string) error {
	return &SyntaxError{Offset: len(p.text), Reason: what + ", but the text ended", Truncated: true}
}

// describeByte describes the first character of s: the character itself when it is printable, else its number.
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

// quoteName quotes a member's name and truncates a long one.
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
