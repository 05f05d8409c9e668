package shell

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// A word is one word of a command, as far as the text shows its value.
type word struct {
	// value is the exact value of a literal word. For other words it is the literal beginning.
	value   string
	literal bool
	// The word may expand to several words, or its value may begin with any character, such as a dash.
	open bool
	many bool // The word may expand to several words, or to none.
	// When the word names a file, this file is below the working directory.
	inside bool
	path   string // the value, with $ for each unknown part and ~ for the home directory
	source string // the word as it is written in the text
}

// is reports whether a word is literal and equals one of values.
func (w word) is(values ...string) bool {
	if !w.literal {
		return false
	}
	for _, v := range values {
		if w.value == v {
			return true
		}
	}
	return false
}

// isOption reports whether a word is an option, or may become one at run time.
func (w word) isOption() bool { return w.open || strings.HasPrefix(w.value, "-") && w.value != "-" }

// text returns the word as rules see it: a literal word with its shortest quoting, any other word unchanged.
func (w word) text() string {
	if !w.literal {
		return w.source
	}
	return quote(w.value)
}

// quote returns a literal text, quoted for a shell where necessary.
func quote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r > 0x7f || strings.ContainsRune("_@%+=:,./-^", r)
	}
	if s != "" && !strings.ContainsFunc(strings.ReplaceAll(s, "{}", ""), func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func literals(values ...string) []word {
	words := make([]word, len(values))
	for i, v := range values {
		words[i] = word{value: v, path: v, literal: true, inside: isInside(v), source: quote(v)}
	}
	return words
}

// A wordReader determines the value of a word, as far as the text alone determines it.
type wordReader struct {
	value    strings.Builder
	path     strings.Builder // the whole value, with $ for each unknown part and ~ for the home directory
	ended    bool            // Some part has an unknown value, so value contains only the text before this part.
	split    bool            // The word may expand to several words.
	expands  bool            // The word may expand to several words, and one of them may begin with any character.
	globbed  bool
	expanded bool // The value contains an expansion other than a file pattern.
}

// readWord returns the value of a word. source is the text that contains the word.
func readWord(w *syntax.Word, source string) word {
	r := &wordReader{}
	for i, part := range w.Parts {
		r.part(part, i == 0)
	}
	out := word{value: r.value.String(), path: r.path.String(), source: slice(source, w.Pos(), w.End())}
	out.literal = !r.ended && !r.globbed
	out.many = r.split || r.globbed
	out.open = !out.literal && (r.expands || out.value == "" || strings.HasPrefix(out.value, "-"))
	out.inside = !r.expanded && isInside(out.path)
	return out
}

func slice(source string, from, to syntax.Pos) string {
	a, b := int(from.Offset()), int(to.Offset())
	if a > b || b > len(source) {
		return ""
	}
	return source[a:b]
}

func (r *wordReader) part(part syntax.WordPart, first bool) {
	switch p := part.(type) {
	case *syntax.Lit:
		r.bare(p.Value, first)
	case *syntax.SglQuoted:
		text, plain := p.Value, true
		if p.Dollar {
			text, plain = unescapeANSI(p.Value)
		}
		if !plain {
			r.unknown(false)
			return
		}
		r.add(text)
	case *syntax.DblQuoted:
		if p.Dollar {
			r.unknown(false)
			return
		}
		for _, inner := range p.Parts {
			switch inner := inner.(type) {
			case *syntax.Lit:
				r.add(unescapeQuoted(inner.Value))
			case *syntax.ParamExp:
				r.param(inner, isList(inner))
			default:
				r.unknown(false)
			}
		}
	case *syntax.ParamExp:
		r.param(p, true)
	case *syntax.ArithmExp:
		r.path.WriteByte('0')
		r.ended, r.expanded = true, true
	default:
		r.unknown(true)
	}
}

func (r *wordReader) param(p *syntax.ParamExp, split bool) {
	if p.Param != nil && p.Param.Value == "HOME" && p.Exp == nil && r.path.Len() == 0 {
		r.path.WriteByte('~')
		r.ended, r.expanded, r.split, r.expands = true, true, r.split || split, r.expands || split
		return
	}
	r.unknown(split)
}

// isList reports whether a quoted expansion can become more than one word.
func isList(p *syntax.ParamExp) bool {
	return p.Index != nil || p.Excl || p.Param == nil || p.Param.Value == "@" || p.Names != 0
}

// add appends known text. After an unknown part, it appends the text only to path.
func (r *wordReader) add(s string) {
	r.path.WriteString(s)
	if !r.ended && !r.globbed {
		r.value.WriteString(s)
	}
}

// unknown records that a part of the word is unknown. split reports that the part may expand to several words.
func (r *wordReader) unknown(split bool) {
	r.path.WriteByte('$')
	r.ended, r.expanded, r.split, r.expands = true, true, r.split || split, r.expands || split
}

// bare reads unquoted text, in which backslashes, globs, braces and the tilde have a meaning.
func (r *wordReader) bare(s string, first bool) {
	if first && strings.HasPrefix(s, "~") {
		r.add("~")
		r.ended, r.expanded = true, true
		s = s[1:]
	} else if strings.Contains(s, "=~") || strings.Contains(s, ":~") {
		r.ended, r.expanded = true, true
	}
	if !strings.ContainsAny(s, `\*?[{`) {
		r.add(s)
		return
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			if i++; i < len(s) && s[i] != '\n' {
				r.add(s[i : i+1])
			}
		case c == '*' || c == '?' || c == '[' && s != "[": // The word [ alone is a command, not a glob.
			r.globbed = true
			r.path.WriteByte(c)
		case c == '{' && (i+1 == len(s) || s[i+1] != '}'): // {} has no meaning for bash; find and xargs replace it.
			r.ended, r.expanded, r.split = true, true, true
			r.path.WriteByte(c)
		default:
			r.add(s[i : i+1])
		}
	}
}

// unescapeANSI decodes the text between $' and '. It returns false for escapes whose meaning depends on the locale, and for escapes of
// control characters, which the parser rejects.
func unescapeANSI(s string) (text string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			return "", false
		}
		c := s[i]
		switch {
		case strings.IndexByte("\\'\"?", c) >= 0:
		case c == 'n':
			c = '\n'
		case c == 't':
			c = '\t'
		default:
			n, digits := ansiNumber(s[i:])
			if n < ' ' || n >= 0x7f {
				return "", false
			}
			c, i = byte(n), i+digits-1
		}
		b.WriteByte(c)
	}
	return b.String(), true
}

// ansiNumber parses the number in an escape such as x41, 101, u0041 or U00000041. size is the number of bytes that it has read.
func ansiNumber(s string) (n uint64, size int) {
	most, base, first := 3, 8, 0
	switch s[0] {
	case 'x':
		most, base, first = 2, 16, 1
	case 'u':
		most, base, first = 4, 16, 1
	case 'U':
		most, base, first = 8, 16, 1
	}
	size = first
	for size < len(s) && size-first < most {
		digit, err := strconv.ParseUint(s[size:size+1], base, 8)
		if err != nil {
			break
		}
		n = n*uint64(base) + digit
		size++
	}
	return n, size
}

// maxBraces is the maximum number of words to which one word with braces may expand.
const maxBraces = 64

// readWords returns the values of a word. It returns several values for a word with braces that bash expands to several words.
func readWords(w *syntax.Word, source string) []word {
	one := readWord(w, source)
	if one.literal || !plainBraces(w) {
		return []word{one}
	}
	split := *w
	if !syntax.SplitBraces(&split) {
		return []word{one}
	}
	var words []word
	for each, err := range expand.BracesSeq(nil, &split) {
		if err != nil || len(words) == maxBraces {
			return []word{one}
		}
		got := readWord(each, "")
		if !got.literal || got.value == "" { // bash drops an empty word, unless it was quoted.
			return []word{one}
		}
		words = append(words, literals(got.value)...)
	}
	return words
}

// plainBraces reports whether bash and this package expand the braces of a word in the same way: they are balanced lists without escapes.
func plainBraces(w *syntax.Word) bool {
	open, commas := 0, false
	for _, part := range w.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok {
			continue
		}
		if strings.Contains(lit.Value, "..") || strings.Contains(lit.Value, `\`) || strings.Contains(lit.Value, "{}") {
			return false
		}
		for _, c := range lit.Value {
			switch {
			case c == '{':
				open++
				commas = false
			case c == ',' && open > 0:
				commas = true
			case c == '}':
				if open--; open < 0 || !commas {
					return false
				}
			}
		}
	}
	return open == 0 && commas
}

// unescapeQuoted removes the backslashes that have a special meaning inside double quotes.
func unescapeQuoted(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0 {
			if i++; s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
