package call

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/toold-dev/toold/tool"
)

// MaxDepth is the maximum nesting depth of arrays and objects in a JSON text.
const MaxDepth = 64

// The limits of a number. Schema checks compute exactly, so a number such as 1e20000000 would take all memory.
const (
	maxNumberLength = 64
	maxExponent     = 400
)

// ParseJSON parses one JSON text strictly, in one pass. The value consists of map[string]any, []any, string, json.Number, bool and nil.
// Numbers keep their token. Strings without escapes share the memory of text.
//
// Strict means that all readers see the same value in a text. It requires valid UTF-8, no duplicate member, no lone surrogate, and nothing
// but white space around the value. The depth ([MaxDepth]), the length of number tokens (64 characters) and exponents (400) are limited.
// maxBytes <= 0 means no size limit. The error is a [*SyntaxError].
func ParseJSON(text string, maxBytes int) (any, error) {
	if maxBytes > 0 && len(text) > maxBytes {
		return nil, &SyntaxError{
			Offset: maxBytes,
			Reason: fmt.Sprintf("the text has %d bytes, the limit is %d", len(text), maxBytes),
		}
	}
	p := newParser(text, false)
	defer p.done()
	return p.parse()
}

func (p *jsonParser) parse() (any, error) {
	text := p.text
	p.skipSpace()
	switch {
	case p.pos == len(text):
		return nil, &SyntaxError{Offset: p.pos, Reason: "expected a value, but the text is empty"}
	case p.pos == 0 && strings.HasPrefix(text, "\ufeff"):
		return nil, &SyntaxError{Reason: "expected a value, found a byte order mark"}
	}
	value, err := p.value()
	if err != nil {
		return nil, err
	}
	p.skipSpace()
	if p.pos < len(text) {
		return nil, p.expected(p.pos, "the end of the text")
	}
	return value, nil
}

// A jsonParser parses a text from the position pos. It collects the members and items of open objects and arrays on two stacks. Each map
// and slice is therefore allocated only once, in its final size.
type jsonParser struct {
	text    string
	pos     int
	depth   int
	members []jsonMember
	items   []any

	writes  bool   // Also write the canonical form.
	form    []byte // canonical form of the parsed part
	sorting []byte // buffer for sorting members
}

type jsonMember struct {
	name     string
	value    any
	offset   int // offset of the name
	from, to int // range of the member in the canonical form
}

func (p *jsonParser) skipSpace() {
	for p.pos < len(p.text) {
		switch p.text[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

// at reports whether c comes next.
func (p *jsonParser) at(c byte) bool {
	return p.pos < len(p.text) && p.text[p.pos] == c
}

func (p *jsonParser) value() (any, error) {
	if p.pos == len(p.text) {
		return nil, p.cutOff("expected a value")
	}
	switch p.text[p.pos] {
	case '"':
		return boxed(p.string())
	case '{':
		return p.object()
	case '[':
		return p.array()
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return boxed(p.number())
	case 't':
		return true, p.literal("true")
	case 'f':
		return false, p.literal("false")
	case 'n':
		return nil, p.literal("null")
	}
	return nil, p.expected(p.pos, "a value")
}

// boxed returns v as an interface, or nil after an error. A failed parse therefore allocates nothing for the value.
func boxed[T string | json.Number](v T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

func (p *jsonParser) literal(word string) error {
	for i := range len(word) {
		if p.pos+i == len(p.text) || p.text[p.pos+i] != word[i] {
			return p.expected(p.pos+i, word)
		}
	}
	p.pos += len(word)
	p.write(word)
	return nil
}

// enter skips the opening bracket of an array or object.
func (p *jsonParser) enter() error {
	if p.depth == MaxDepth {
		return &SyntaxError{Offset: p.pos, Reason: fmt.Sprintf("arrays and objects are nested deeper than %d", MaxDepth)}
	}
	p.depth++
	p.writeByte(p.text[p.pos])
	p.pos++
	p.skipSpace()
	return nil
}

// leave skips the closing bracket of an array or object.
func (p *jsonParser) leave() {
	p.depth--
	p.writeByte(p.text[p.pos])
	p.pos++
}

// next skips a comma.
func (p *jsonParser) next() {
	p.writeByte(',')
	p.pos++
	p.skipSpace()
}

func (p *jsonParser) array() (any, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	if p.at(']') {
		p.leave()
		return []any{}, nil
	}
	base := len(p.items)
	for {
		value, err := p.value()
		if err != nil {
			return nil, err
		}
		p.items = append(p.items, value)
		p.skipSpace()
		if p.at(']') {
			p.leave()
			array := slices.Clone(p.items[base:])
			p.items = p.items[:base]
			return array, nil
		}
		if !p.at(',') {
			return nil, p.expected(p.pos, "',' or ']' after an array element")
		}
		p.next()
	}
}

func (p *jsonParser) object() (any, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	if p.at('}') {
		p.leave()
		return map[string]any{}, nil
	}
	base := len(p.members)
	for {
		member, err := p.member()
		if err != nil {
			return nil, err
		}
		p.members = append(p.members, member)
		p.skipSpace()
		if p.at('}') {
			p.sortForm(p.members[base:])
			p.leave()
			object, err := makeObject(p.members[base:])
			p.members = p.members[:base]
			return object, err
		}
		if !p.at(',') {
			return nil, p.expected(p.pos, "',' or '}' after an object member")
		}
		p.next()
	}
}

func (p *jsonParser) member() (jsonMember, error) {
	offset, from := p.pos, len(p.form)
	if !p.at('"') {
		return jsonMember{}, p.expected(offset, "a member name in double quotes")
	}
	name, err := p.string()
	if err != nil {
		return jsonMember{}, err
	}
	p.skipSpace()
	if !p.at(':') {
		return jsonMember{}, p.expected(p.pos, "':' after a member name")
	}
	p.writeByte(':')
	p.pos++
	p.skipSpace()
	value, err := p.value()
	return jsonMember{name, value, offset, from, len(p.form)}, err
}

func makeObject(members []jsonMember) (any, error) {
	object := make(map[string]any, len(members))
	for i := range members {
		m := &members[i]
		object[m.name] = m.value
		if len(object) == i { // The length of the map did not grow, so the name is a duplicate.
			return nil, &SyntaxError{Offset: m.offset, Reason: "the object has the member " + quoteName(m.name) + " twice"}
		}
	}
	return object, nil
}

func (p *jsonParser) string() (string, error) {
	i := p.pos + 1
	from := i // decoded has the string up to here
	var decoded strings.Builder
	for i < len(p.text) {
		c := p.text[i]
		switch {
		case c == '"':
			p.pos = i + 1
			if decoded.Len() == 0 { // There was no escape: an escape adds at least one byte to decoded.
				p.write(p.text[from-1 : i+1])
				return p.text[from:i], nil
			}
			decoded.WriteString(p.text[from:i])
			if p.writes {
				p.form = tool.AppendQuoted(p.form, decoded.String())
			}
			return decoded.String(), nil
		case c == '\\':
			r, next, err := p.escape(i)
			if err != nil {
				return "", err
			}
			decoded.WriteString(p.text[from:i])
			decoded.WriteRune(r)
			i, from = next, next
		case c < ' ':
			return "", &SyntaxError{Offset: i, Reason: fmt.Sprintf("a string holds the control character %U, which must be escaped", c)}
		case c < utf8.RuneSelf:
			i++
		default:
			_, size := utf8.DecodeRuneInString(p.text[i:])
			if size == 1 {
				return "", p.badRune(i)
			}
			i += size
		}
	}
	return "", p.cutOff("expected '\"' at the end of a string")
}

func (p *jsonParser) badRune(offset int) error {
	if !utf8.FullRuneInString(p.text[offset:]) {
		return p.cutOff("expected the rest of a UTF-8 character")
	}
	return &SyntaxError{Offset: offset, Reason: fmt.Sprintf("a string holds the byte 0x%02x, which is not UTF-8", p.text[offset])}
}

// escape decodes the escape whose backslash is at offset, and returns the offset after it.
func (p *jsonParser) escape(offset int) (r rune, next int, err error) {
	i := offset + 1
	if i == len(p.text) {
		return 0, 0, p.cutOff("expected an escape")
	}
	switch c := p.text[i]; c {
	case '"', '\\', '/':
		return rune(c), i + 1, nil
	case 'b':
		return '\b', i + 1, nil
	case 'f':
		return '\f', i + 1, nil
	case 'n':
		return '\n', i + 1, nil
	case 'r':
		return '\r', i + 1, nil
	case 't':
		return '\t', i + 1, nil
	case 'u':
		return p.unicodeEscape(offset)
	}
	return 0, 0, p.expected(i, `one of "\/bfnrtu after a backslash`)
}

// unicodeEscape decodes \u and its four digits. For the first half of a surrogate pair it decodes the second half, too.
func (p *jsonParser) unicodeEscape(offset int) (r rune, next int, err error) {
	r, err = p.hex(offset + 2)
	next = offset + 6
	if err != nil || !utf16.IsSurrogate(r) {
		return r, next, err
	}
	const lone, secondHalves = "a string holds half of a surrogate pair", 0xdc00
	if r >= secondHalves {
		return 0, 0, &SyntaxError{Offset: offset, Reason: lone}
	}
	for i, c := range []byte(`\u`) {
		if next+i == len(p.text) {
			return 0, 0, p.cutOff("expected the second half of a surrogate pair")
		}
		if p.text[next+i] != c {
			return 0, 0, &SyntaxError{Offset: offset, Reason: lone}
		}
	}
	second, err := p.hex(next + 2)
	if err != nil {
		return 0, 0, err
	}
	if r = utf16.DecodeRune(r, second); r == utf8.RuneError {
		return 0, 0, &SyntaxError{Offset: offset, Reason: lone}
	}
	return r, next + 6, nil
}

// hex reads the four hexadecimal digits at offset.
func (p *jsonParser) hex(offset int) (rune, error) {
	var r rune
	for i := offset; i < offset+4; i++ {
		if i >= len(p.text) {
			return 0, p.cutOff(`expected four hexadecimal digits after \u`)
		}
		c := p.text[i]
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, p.expected(i, `four hexadecimal digits after \u`)
		}
	}
	return r, nil
}
