package shell

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// What one look at a command may take. It is counted, not timed, so that the same text always has the same answer; the most
// that is allowed takes some 20 ms. What can nest is counted whether it does or not: the parser's stack grows with it, and
// a goroutine whose stack is full ends the daemon.
const (
	maxText    = 128 << 10 // bytes, with all inner texts
	maxNodes   = 50_000    // of syntax, and words that are looked at again
	maxNesting = 1_500
	maxInner   = 4 // texts inside texts, as in bash -c "bash -c ..."
)

var (
	errControl    = errors.New("it has control characters or is not UTF-8")
	errTooComplex = errors.New("it is too complex to be read")
)

// A budget is what is left for one look, with all inner texts.
type budget struct{ text, nodes int }

// spend takes words that are looked at off the budget.
func (b *budget) spend(words []word) bool {
	for _, w := range words {
		if b.nodes -= 1 + len(w.source)/64; b.nodes < 0 {
			return false
		}
	}
	return true
}

// parse reads a text as bash does. What bash and the parser might read in two ways is refused, rather than guessed.
func (b *budget) parse(text string) (file *syntax.File, err error) {
	defer func() {
		if r := recover(); r != nil { // the parser reads foreign bytes
			file, err = nil, fmt.Errorf("it cannot be parsed: %v", r)
		}
	}()
	switch {
	case strings.ContainsFunc(text, isControl) || !utf8.ValidString(text):
		return nil, errControl // bash and the parser do not agree on the carriage return
	case len(text) > b.text || nesting(text) > maxNesting:
		return nil, errTooComplex
	}
	b.text -= len(text)
	file, err = syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		return nil, fmt.Errorf("it cannot be parsed: %w", err)
	}
	for range syntax.Preorder(file) {
		if b.nodes--; b.nodes < 0 {
			return nil, errTooComplex
		}
	}
	return file, nil
}

func isControl(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }

// nesting counts what may nest in a text, whether it does or not: the parser alone knows what is quoted.
func nesting(text string) (n int) {
	// Operators nest in arithmetic, and nowhere else.
	arithmetic := strings.Contains(text, "((") || strings.Contains(text, "[") || strings.Contains(text, "${") || strings.Contains(text, "let")
	for i := range len(text) {
		switch c := text[i]; c {
		case '(', '{', '[', '`':
			n++
		case '!', '~', '+', '-', '*', '/', '%', '?', ':', '=', '<', '>', '&', '|', '^', ',':
			if arithmetic {
				n++
			}
		}
	}
	for word := range strings.FieldsSeq(text) {
		switch word {
		case "if", "elif", "while", "until", "for", "case", "select", "time", "coproc", "function":
			n++
		}
	}
	return n
}
