package inbox

import (
	"strings"
	"unicode/utf8"
)

// A key is one pressed key, or pasted text. A key that types a character has no name.
type key struct {
	name string // up, down, pageup, pagedown, home, end, enter, escape, backspace, tab, paste, ctrl-c and so on; "" for a character
	text string // the character, or the pasted text
}

const (
	pasteBegins = "\x1b[200~"
	pasteEnds   = "\x1b[201~"
	pasteMost   = 64 << 10 // bytes
)

// decodeKeys decodes terminal input. rest is the start of an incomplete key. If all is true, no more input is expected: a lone Escape is
// then a key.
func decodeKeys(b []byte, all bool) (keys []key, rest []byte) {
	for len(b) > 0 {
		k, n := decodeKey(b, all)
		if n == 0 {
			return keys, b
		}
		if k != (key{}) {
			keys = append(keys, k)
		}
		b = b[n:]
	}
	return keys, nil
}

// decodeKey returns the first key and its length. The length is 0 when the key is incomplete. Input without a meaning gives an empty key.
func decodeKey(b []byte, all bool) (key, int) {
	switch c := b[0]; {
	case c == '\x1b':
		return decodeEscape(b, all)
	case c == '\r' || c == '\n':
		return key{name: "enter"}, 1
	case c == '\t':
		return key{name: "tab"}, 1
	case c == 0x7f || c == 0x08:
		return key{name: "backspace"}, 1
	case c < ' ':
		return key{name: "ctrl-" + string(rune(c|0x60))}, 1
	}
	if !utf8.FullRune(b) && !all {
		return key{}, 0
	}
	r, n := utf8.DecodeRune(b)
	if r == utf8.RuneError {
		return key{}, n
	}
	return key{text: string(r)}, n
}

// decodeEscape decodes an escape sequence: CSI … final byte, or SS3 and a letter.
func decodeEscape(b []byte, all bool) (key, int) {
	if len(b) == 1 || b[1] != '[' && b[1] != 'O' {
		if len(b) == 1 && !all {
			return key{}, 0
		}
		return key{name: "escape"}, 1
	}
	if paste, ok := strings.CutPrefix(string(b), pasteBegins); ok {
		return decodePaste(paste, all)
	}
	for i := 2; i < len(b); i++ {
		if b[i] >= 0x40 && b[i] <= 0x7e {
			return key{name: namedKey(string(b[2 : i+1]))}, i + 1
		}
		if b[i] < ' ' || i > 32 { // no terminal sends such a key
			return key{}, i
		}
	}
	if all {
		return key{}, len(b)
	}
	return key{}, 0
}

func decodePaste(text string, all bool) (key, int) {
	end := strings.Index(text, pasteEnds)
	switch {
	case end >= 0:
		return key{name: "paste", text: text[:end]}, len(pasteBegins) + end + len(pasteEnds)
	case all || len(text) > pasteMost:
		return key{}, len(pasteBegins) + len(text)
	}
	return key{}, 0
}

// namedKey returns the name for a sequence without its introducer, or "" when the inbox does not use that key.
func namedKey(sequence string) string {
	switch sequence {
	case "A":
		return "up"
	case "B":
		return "down"
	case "H", "1~", "7~":
		return "home"
	case "F", "4~", "8~":
		return "end"
	case "5~":
		return "pageup"
	case "6~":
		return "pagedown"
	case "M":
		return "enter"
	}
	return ""
}
