package redact

import (
	"bytes"
	"unicode/utf8"
)

// maxLine is the maximum number of bytes of a line that are matched at once.
const maxLine = 16 << 10

// lines redacts the matches of patterns, line by line.
type lines struct {
	patterns []pattern
	b        []byte // the unfinished line
	changed  bool
}

func (l *lines) next(chunk []byte, final bool) (out []byte) {
	l.b = append(l.b, chunk...)
	b := l.b
	for len(b) > 0 {
		n := bytes.IndexByte(b, '\n') + 1
		switch {
		case n > 0 && n <= maxLine:
		case len(b) > maxLine:
			n = wholeCharacters(b, maxLine)
		case final:
			n = len(b)
		default:
			l.b = append(l.b[:0], b...)
			return out
		}
		out = append(out, l.line(b[:n])...)
		b = b[n:]
	}
	l.b = l.b[:0]
	return out
}

func (l *lines) line(line []byte) []byte {
	body := bytes.TrimSuffix(line, []byte("\n"))
	end := line[len(body):]
	for _, p := range l.patterns {
		if p.expr.Match(body) {
			body = p.expr.ReplaceAllLiteral(body, p.mark)
			l.changed = true
		}
	}
	return append(bytes.Clone(body), end...)
}

// wholeCharacters returns the largest length up to n at which b can be cut between characters.
func wholeCharacters(b []byte, n int) int {
	for i := n; i > n-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			return i
		}
	}
	return n
}
