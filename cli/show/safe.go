// Package show formats the daemon's messages for people: tables, tickets, events, results.
//
// Its functions are pure. Any text that a tool, a model or a file may have written is untrusted and is escaped before it reaches a
// terminal. Control characters, ANSI sequences, bidirectional marks and invisible characters become \\xNN or \\uNNNN. Text that a person
// approves is never shortened without a notice.
package show

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Line escapes untrusted text for one line, including line breaks and tabs.
func Line(s string) string { return escape(s, false) }

// Text escapes untrusted text but keeps line breaks and tabs.
func Text(s string) string { return escape(s, true) }

func escape(s string, lines bool) string {
	if isPlain(s, lines) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		writeRune(&b, r, s[i:i+size], lines)
		i += size
	}
	return b.String()
}

func isPlain(s string, lines bool) bool {
	for _, r := range s {
		if r == utf8.RuneError || !visible(r) && (!lines || r != '\n' && r != '\t') {
			return false
		}
	}
	return true
}

func writeRune(b *strings.Builder, r rune, raw string, lines bool) {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		fmt.Fprintf(b, `\x%02x`, raw[0])
	case visible(r), lines && (r == '\n' || r == '\t'):
		b.WriteString(raw)
	case r == '\n':
		b.WriteString(`\n`)
	case r == '\r':
		b.WriteString(`\r`)
	case r == '\t':
		b.WriteString(`\t`)
	case r < 0x80:
		fmt.Fprintf(b, `\x%02x`, r)
	case r < 0x10000:
		fmt.Fprintf(b, `\u%04x`, r)
	default:
		fmt.Fprintf(b, `\U%08x`, r)
	}
}

// visible reports whether a terminal shows a visible sign for r, at the position of r in the text. Characters that Unicode marks as default
// ignorable are invisible, although package unicode takes some of them for letters. An example is the Hangul filler.
func visible(r rune) bool {
	switch {
	case r < 0x80:
		return r >= ' ' && r < 0x7f
	case r == 0x2800: // the braille pattern without dots looks blank
		return false
	case unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r), unicode.Is(unicode.Variation_Selector, r):
		return false
	}
	return unicode.IsPrint(r)
}

// JSON replaces unsafe characters in JSON text by JSON escapes, so that the value does not change. Valid JSON has such characters only in
// strings.
func JSON(text string) string {
	if isPlain(text, true) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case visible(r), r == '\n', r == '\t', r == utf8.RuneError:
			b.WriteString(text[i : i+size])
		case r == '\r': // a carriage return occurs only between values
			b.WriteByte(' ')
		case r >= 0x10000:
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

// An Escaper escapes a byte stream that arrives in arbitrary pieces. The zero value is ready to use.
type Escaper struct{ rest []byte }

// Escape returns the text that can be shown now. It holds back an incomplete character.
func (e *Escaper) Escape(chunk []byte) string {
	all := slices.Concat(e.rest, chunk)
	whole := len(all)
	for back := 1; back < utf8.UTFMax && back <= len(all); back++ {
		if start := len(all) - back; utf8.RuneStart(all[start]) {
			if !utf8.FullRune(all[start:]) {
				whole = start
			}
			break
		}
	}
	e.rest = all[whole:]
	return Text(string(all[:whole]))
}

// Flush returns the remaining text at the end of the stream.
func (e *Escaper) Flush() string {
	rest := string(e.rest)
	e.rest = nil
	return Text(rest)
}

// columns returns how many terminal columns safe text takes.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += runeColumns(r)
	}
	return n
}

func runeColumns(r rune) int {
	switch {
	case unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Me, r):
		return 0
	case r < 0x1100:
		return 1
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	default:
		return 1
	}
}

// Short shortens safe text to n columns, for lines that must not wrap. It marks a cut with "…".
func Short(s string, n int) string { return cut(s, n) }

// cut shortens safe text to n columns. It replaces the rest with "…".
func cut(s string, n int) string {
	if columns(s) <= n {
		return s
	}
	taken := 0
	for i, r := range s {
		if taken += runeColumns(r); taken > n-1 {
			return s[:i] + "…"
		}
	}
	return s
}

// The shortest repetitions that are replaced by their count.
const (
	longRun   = 200 // for any one character
	longBlank = 12  // for line breaks
)

// fold replaces a long repetition of a character with a mark that names the character and the count. Without it, megabytes of spaces could
// push the text after them out of sight.
func fold(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		end := i + size
		for strings.HasPrefix(s[end:], s[i:i+size]) {
			end += size
		}
		n := (end - i) / size
		switch {
		case r == '\n' && n >= longBlank:
			b.WriteString("\n⟨" + Number(int64(n)) + " line breaks⟩\n")
		case r != '\n' && n >= longRun:
			b.WriteString("⟨" + Number(int64(n)) + " × " + runName(r, s[i:i+size]) + "⟩")
		default:
			b.WriteString(s[i:end])
		}
		i = end
	}
	return b.String()
}

func runName(r rune, raw string) string {
	switch r {
	case ' ':
		return "space"
	case '\t':
		return "tab"
	}
	return "'" + Line(raw) + "'"
}
