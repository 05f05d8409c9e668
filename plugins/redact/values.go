package redact

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"
)

// A form is a text by which a value is recognized. A broken form may contain white space after its fourth character, because tools such as
// base64 break their output into lines.
type form struct {
	text, mark string
	broken     bool
}

// mostSpace is the maximum number of white space bytes between two characters of a broken form: a line end and an indentation.
const mostSpace = 4

func space(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// within returns the length of the form at the beginning of b, including white space, or 0. cut says that b ends inside of a possible
// match.
func (f *form) within(b []byte) (length int, cut bool) {
	at, spaces := 0, 0
	for i := range len(b) {
		switch {
		case b[i] == f.text[at]:
			if at++; at == len(f.text) {
				return i + 1, false
			}
			spaces = 0
		case !f.broken || at < 4 || spaces == mostSpace || !space(b[i]):
			return 0, false
		default:
			spaces++
		}
	}
	return 0, true
}

// values finds the forms of all values at a position in a text.
type values struct {
	forms []form // sorted by text
	first [256]bool
	pairs pairs
	from  map[[4]byte][2]uint32 // index range of the forms that begin with these four bytes
	most  int                   // length of the longest form, with white space
}

// pairs is a set of two-byte beginnings, one bit for each.
type pairs [1024]uint64

func (p *pairs) add(a, b byte) { p[uint(a)<<2|uint(b)>>6] |= 1 << (b & 63) }

func (p *pairs) has(a, b byte) bool { return p[uint(a)<<2|uint(b)>>6]&(1<<(b&63)) != 0 }

func (v *values) add(value Value) {
	m := mark(value.Name)
	add := func(text string, broken bool) {
		if len(text) >= MinValue {
			v.forms = append(v.forms, form{text, m, broken})
		}
	}
	for _, text := range encodingsOf(value.Text) {
		for from := range 4 { // Up to three of the first characters may be on the previous line.
			add(text[from:], true)
		}
	}
	for _, text := range formsOf(value.Text) {
		add(text, false)
	}
}

func (v *values) index() {
	slices.SortStableFunc(v.forms, func(a, b form) int { return strings.Compare(a.text, b.text) })
	v.forms = slices.CompactFunc(v.forms, func(a, b form) bool { return a.text == b.text && a.broken == b.broken })
	v.from = map[[4]byte][2]uint32{}
	for i, f := range v.forms {
		v.first[f.text[0]] = true
		v.pairs.add(f.text[0], f.text[1])
		key := [4]byte([]byte(f.text[:4]))
		at, there := v.from[key]
		if !there {
			at[0] = uint32(i)
		}
		v.from[key] = [2]uint32{at[0], uint32(i + 1)}
		if f.broken {
			v.most = max(v.most, len(f.text)*(1+mostSpace))
		}
		v.most = max(v.most, len(f.text))
	}
}

// match returns the length of the longest form at the beginning of b, and its mark.
func (v *values) match(b []byte) (length int, mark string) {
	if len(b) < MinValue || !v.pairs.has(b[0], b[1]) {
		return 0, ""
	}
	at := v.from[[4]byte(b[:4])]
	for i := at[0]; i < at[1]; i++ {
		if n, _ := v.forms[i].within(b); n > length {
			length, mark = n, v.forms[i].mark
		}
	}
	return length, mark
}

// begins reports whether a form exists that is longer than b and begins with b.
func (v *values) begins(b []byte) bool {
	if len(b) >= v.most || !v.first[b[0]] {
		return false
	}
	if len(b) < 4 {
		i, _ := slices.BinarySearchFunc(v.forms, string(b), func(f form, b string) int { return strings.Compare(f.text, b) })
		return i < len(v.forms) && strings.HasPrefix(v.forms[i].text, string(b))
	}
	at := v.from[[4]byte(b[:4])]
	for i := at[0]; i < at[1]; i++ {
		if _, cut := v.forms[i].within(b); cut {
			return true
		}
	}
	return false
}

// formsOf returns the texts by which a value is recognized, including the value.
func formsOf(s string) []string {
	escaped := jsonForm(s, false)
	texts := []string{
		s, escaped, jsonForm(s, true), strings.ReplaceAll(escaped, "/", `\/`), jsonForm(escaped, false), jsonForm(jsonForm(s, true), true),
		percent(s, "%%%02X"), percent(s, "%%%02x"), asciiForm(escaped),
		shellDouble.Replace(s), strings.ReplaceAll(s, "'", `'\''`), strings.ReplaceAll(s, "'", `'"'"'`), shellBackslashes(s),
		html.EscapeString(s), xmlEscapes.Replace(s),
	}
	for _, escaped := range []string{url.QueryEscape(s), url.PathEscape(s), percentBut(s, ""), percentBut(s, "/"), percentBut(s, "!'()*"), percentBut(s, ";,/?:@&=+$#!'()*")} {
		texts = append(texts, escaped, lowerPercent(escaped))
	}
	if strings.Contains(s, "\n") {
		texts = append(texts, strings.ReplaceAll(s, "\n", "\r\n"))
	}
	return texts
}

// encodingsOf returns the encodings of a value that programs print in lines of equal length.
func encodingsOf(s string) []string {
	texts := []string{hex.EncodeToString([]byte(s)), strings.ToUpper(hex.EncodeToString([]byte(s)))}
	for shift := range 3 {
		texts = append(texts, inside(s, shift, 6, base64.RawStdEncoding.EncodeToString), inside(s, shift, 6, base64.RawURLEncoding.EncodeToString))
	}
	for shift := range 5 {
		texts = append(texts, inside(s, shift, 5, base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString))
	}
	return texts
}

// jsonForm returns the contents of a JSON string for s. html selects HTML escaping.
func jsonForm(s string, html bool) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(html)
	if enc.Encode(s) != nil {
		return s
	}
	return strings.TrimSuffix(b.String(), "\"\n")[1:]
}

// percent returns s with each byte escaped.
func percent(s, format string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, format, s[i])
	}
	return b.String()
}

// lowerPercent converts the hexadecimal digits of escapes to lower case.
func lowerPercent(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], strings.ToLower(s[i+1:i+3]))
			i += 2
		}
	}
	return string(b)
}

// percentBut escapes all bytes except those that no URL escapes and those in keep. keep differs between programming languages.
func percentBut(s, keep string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_.~"+keep, c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// asciiForm returns the contents of a JSON string for s, with all non-ASCII characters escaped.
func asciiForm(s string) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(s)) {
		if u < 0x80 {
			b.WriteByte(byte(u))
		} else {
			fmt.Fprintf(&b, `\u%04x`, u)
		}
	}
	return b.String()
}

// shellDouble escapes a value as a shell does in double quotes, for example for export -p.
var shellDouble = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`")

var xmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;")

// shellBackslashes escapes a value as a shell does without quotes, for example for printf %q.
func shellBackslashes(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte(" \t'\"\\|&;()<>!{}*[]?^$`,", s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// inside returns the part of an encoding that depends only on s, and not on the bytes beside it. shift is the number of bytes that precede
// s in its group. bits is the number of bits that a character of the encoding represents.
func inside(s string, shift, bits int, encode func([]byte) string) string {
	text := encode([]byte(strings.Repeat("\x00", shift) + s))
	from := (shift*8 + bits - 1) / bits
	return text[from : (shift+len(s))*8/bits]
}
