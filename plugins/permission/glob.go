package permission

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// A glob is a compiled text pattern. * matches any text, including slashes and line breaks. ? matches one character. [a-z] and [^a-z] match
// one character of a class. A backslash makes the next character literal.
type glob struct {
	chunks     []chunk // the parts between the stars
	head, tail bool    // the text must begin with the first chunk, or end with the last
	literal    int     // number of literal characters
}

// A chunk is the part of a pattern between stars: a literal, or else one cell for each character.
type chunk struct {
	literal string
	cells   []cell
}

// A cell matches one character. The character must be in one of the ranges, or, when not is true, outside of all ranges.
type cell struct {
	ranges [][2]rune // empty matches any character
	not    bool
}

var errGlob = errors.New("is not a glob of *, ? and [classes]")

func compileGlob(text string) (*glob, error) {
	g := &glob{head: true, tail: true}
	var cells []cell
	plain := true
	end := func() {
		if len(cells) == 0 {
			return
		}
		c := chunk{cells: cells}
		if plain {
			var b strings.Builder
			for _, cell := range cells {
				b.WriteRune(cell.ranges[0][0])
			}
			c = chunk{literal: b.String()}
		}
		g.chunks = append(g.chunks, c)
		cells, plain = nil, true
	}
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		rest = rest[size:]
		switch r {
		case '*':
			if len(g.chunks) == 0 && len(cells) == 0 {
				g.head = false
			}
			end()
			g.tail = rest != ""
			continue
		case '?':
			cells, plain = append(cells, cell{}), false
			continue
		case '[':
			class, after, err := compileClass(rest)
			if err != nil {
				return nil, err
			}
			cells, plain, rest = append(cells, class), false, after
			continue
		case '\\':
			if rest == "" {
				return nil, errGlob
			}
			r, size = utf8.DecodeRuneInString(rest)
			rest = rest[size:]
		}
		cells = append(cells, cell{ranges: [][2]rune{{r, r}}})
		g.literal++
	}
	end()
	return g, nil
}

// compileClass reads a class after its opening bracket.
func compileClass(text string) (c cell, rest string, err error) {
	rest, c.not = strings.CutPrefix(text, "^")
	next := func() (r rune, literal bool) {
		r, size := utf8.DecodeRuneInString(rest)
		rest = rest[size:]
		if r != '\\' {
			return r, false
		}
		r, size = utf8.DecodeRuneInString(rest)
		rest = rest[size:]
		return r, true
	}
	for rest != "" {
		low, literal := next()
		if low == ']' && !literal {
			if len(c.ranges) == 0 {
				break
			}
			return c, rest, nil
		}
		high := low
		if strings.HasPrefix(rest, "-") && !strings.HasPrefix(rest, "-]") {
			rest = rest[1:]
			if rest == "" {
				break
			}
			high, _ = next()
		}
		if high < low || low == utf8.RuneError {
			break
		}
		c.ranges = append(c.ranges, [2]rune{low, high})
	}
	return c, "", errGlob
}

func (g *glob) match(text string) bool {
	chunks := g.chunks
	if len(chunks) == 0 {
		return text == "" || !g.head
	}
	if g.head {
		n, ok := chunks[0].prefix(text)
		if !ok {
			return false
		}
		if text, chunks = text[n:], chunks[1:]; len(chunks) == 0 {
			return text == "" || !g.tail
		}
	}
	for len(chunks) > 1 || len(chunks) == 1 && !g.tail {
		n, ok := chunks[0].find(text)
		if !ok {
			return false
		}
		text, chunks = text[n:], chunks[1:]
	}
	return len(chunks) == 0 || chunks[0].suffix(text)
}

// prefix reports whether text begins with the chunk, and the length of the match in bytes.
func (c *chunk) prefix(text string) (int, bool) {
	if c.cells == nil {
		return len(c.literal), strings.HasPrefix(text, c.literal)
	}
	at := 0
	for i := range c.cells {
		if at == len(text) {
			return 0, false
		}
		r, size := utf8.DecodeRuneInString(text[at:])
		if !c.cells[i].holds(r) {
			return 0, false
		}
		at += size
	}
	return at, true
}

// find returns the end of the first match of the chunk in text.
func (c *chunk) find(text string) (int, bool) {
	if c.cells == nil {
		i := strings.Index(text, c.literal)
		return i + len(c.literal), i >= 0
	}
	for i := range text {
		if n, ok := c.prefix(text[i:]); ok {
			return i + n, true
		}
	}
	return 0, false
}

func (c *chunk) suffix(text string) bool {
	if c.cells == nil {
		return strings.HasSuffix(text, c.literal)
	}
	at := len(text)
	for range c.cells {
		if at == 0 {
			return false
		}
		_, size := utf8.DecodeLastRuneInString(text[:at])
		at -= size
	}
	n, ok := c.prefix(text[at:])
	return ok && at+n == len(text)
}

func (c *cell) holds(r rune) bool {
	if len(c.ranges) == 0 {
		return true
	}
	for _, span := range c.ranges {
		if span[0] <= r && r <= span[1] {
			return !c.not
		}
	}
	return c.not
}

// mayBeWithin reports whether the glob may match a text with this first and last character.
func (g *glob) mayBeWithin(first, last rune) bool {
	if len(g.chunks) == 0 {
		return !g.head
	}
	begin, end := g.chunks[0].all(), g.chunks[len(g.chunks)-1].all()
	return (!g.head || begin[0].holds(first)) && (!g.tail || end[len(end)-1].holds(last))
}

// mayConsistOf reports whether the glob may match a text that consists of these characters.
func (g *glob) mayConsistOf(characters string) bool {
	for i := range g.chunks {
		for _, c := range g.chunks[i].all() {
			if !strings.ContainsFunc(characters, c.holds) {
				return false
			}
		}
	}
	return len(g.chunks) > 0 || !g.head
}

// all returns one cell for each character of the chunk.
func (c *chunk) all() []cell {
	if c.cells != nil {
		return c.cells
	}
	var cells []cell
	for _, r := range c.literal {
		cells = append(cells, cell{ranges: [][2]rune{{r, r}}})
	}
	return cells
}
