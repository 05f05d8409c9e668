package shell

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Limits for the analysis of one command. They count work, not time, so that the same text always gets the same answer. The largest
// accepted command takes about 20 ms.
//
// maxNesting limits the result of nesting, which counts characters that can open a nested construct, even where they do not. The stack of
// the parser grows with the nesting, and a stack overflow would end the daemon.
const (
	maxText    = 128 << 10 // bytes, including all texts inside the command that a shell runs
	maxNodes   = 50_000    // syntax nodes, plus words that are analysed again
	maxNesting = 1_500
	maxInner   = 4 // depth of texts inside texts, as in bash -c "bash -c ..."
)

var (
	errControl    = errors.New("it has control characters or is not UTF-8")
	errTooComplex = errors.New("it is too complex to analyse")
)

// A budget is the work that the analysis of one command may still do. Texts inside the command that a shell runs use the same budget.
type budget struct{ text, nodes int }

// spend subtracts the cost of analysing words. It returns false when the budget is too small.
func (b *budget) spend(words []word) bool {
	for _, w := range words {
		if b.nodes -= 1 + len(w.source)/64; b.nodes < 0 {
			return false
		}
	}
	return true
}

// parse parses a text as bash does. When bash could read a text differently than the parser, it returns an error.
func (b *budget) parse(text string) (file *syntax.File, err error) {
	defer func() {
		if r := recover(); r != nil { // The parser may panic, because it parses untrusted bytes.
			file, err = nil, fmt.Errorf("it cannot be parsed: %v", r)
		}
	}()
	switch {
	case strings.ContainsFunc(text, isControl) || !utf8.ValidString(text):
		return nil, errControl // bash and the parser read a carriage return differently.
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

// nesting counts the characters that may open a nested construct. It also counts quoted ones, because only the parser knows what is quoted.
func nesting(text string) (n int) {
	// Operators can open nested constructs only in arithmetic.
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
