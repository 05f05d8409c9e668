package compact

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Done counts the changes to a text.
type Done struct {
	Escapes     int // removed sequences and control characters
	Overwritten int // overwritten states of lines
	Folded      int // lines that repeat the previous one
}

func (d Done) String() string {
	return fmt.Sprintf("%d escape sequences removed, %d overwritten states of lines left out, %d repeated lines folded", d.Escapes, d.Overwritten, d.Folded)
}

// Text removes from a text what is meant for a terminal, and folds repeated lines. The result is valid UTF-8 and never longer. Applying
// Text to the result changes nothing.
func Text(text string) (string, Done) {
	var done Done
	text = strip(strings.ToValidUTF8(text, ""), &done)
	text = settle(text, &done)
	return fold(text, &done), done
}

const (
	escape = 0x1b
	bell   = 0x07
)

// strip removes escape sequences. A sequence that moves to the first column becomes a carriage return.
func strip(text string, done *Done) string {
	if strings.IndexFunc(text, isControl) < 0 {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	for text != "" {
		at := strings.IndexFunc(text, isControl)
		if at < 0 {
			b.WriteString(text)
			break
		}
		b.WriteString(text[:at])
		text = text[at:]
		n, home := sequence(text)
		if home {
			b.WriteByte('\r')
		}
		text = text[n:]
		done.Escapes++
	}
	return b.String()
}

// isControl reports whether a character begins an escape sequence, or is the bell.
func isControl(r rune) bool { return r == escape || r == bell || r >= 0x80 && r < 0xa0 }

// sequence returns the length of the escape sequence at the beginning of a text. home reports that the sequence moves to the first column.
// When a sequence is malformed or does not end in its line, n is the length of its first character only.
func sequence(text string) (n int, home bool) {
	r, intro := utf8.DecodeRuneInString(text)
	kind, body := rune(0), intro
	switch {
	case r >= 0x80:
		kind = r - 0x40 // ESC and this character together mean the same as the one-character form.
	case r == escape && len(text) > 1 && text[1] < utf8.RuneSelf:
		kind, body = rune(text[1]), 2
	}
	switch {
	case kind == '[':
		end := span(text, span(text, body, '0', '?'), ' ', '/')
		if end == len(text) || text[end] < '@' || text[end] > '~' {
			return intro, false
		}
		parameters := text[body:end]
		return end + 1, text[end] == 'G' && (parameters == "" || parameters == "1")
	case kind != 0 && strings.ContainsRune("]PX^_", kind):
		if end := stringEnd(text, body); end > 0 {
			return end, false
		}
		return intro, false
	case r >= 0x80 || kind < ' ' || kind > '~':
		return intro, false
	}
	end := span(text, 1, ' ', '/')
	if end == len(text) || text[end] < '0' || text[end] > '~' {
		return intro, false
	}
	return end + 1, false
}

// span skips the bytes with values between first and last, beginning at the index from. It returns the index of the first other byte.
func span(text string, from int, first, last byte) int {
	for from < len(text) && text[from] >= first && text[from] <= last {
		from++
	}
	return from
}

// stringEnd returns the end of the control string whose content begins at from. It returns 0 when the string does not end in this line.
func stringEnd(text string, from int) int {
	at := strings.IndexFunc(text[from:], func(r rune) bool { return r == '\n' || isControl(r) })
	if at < 0 {
		return 0
	}
	for _, end := range []string{"\x07", "\x1b\\", "\u009c"} {
		if strings.HasPrefix(text[from+at:], end) {
			return from + at + len(end)
		}
	}
	return 0
}

// settle removes all states of each line except the last one that was written.
func settle(text string, done *Done) string {
	if !strings.ContainsAny(text, "\r\b") {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	for line := range strings.Lines(text) {
		body, ended := strings.CutSuffix(line, "\n")
		end := ""
		if ended {
			end = "\n"
			if rest, dos := strings.CutSuffix(body, "\r"); dos {
				body, end = rest, "\r\n"
			}
		}
		b.WriteString(lastState(body, done))
		b.WriteString(end)
	}
	return b.String()
}

func lastState(line string, done *Done) string {
	if strings.Contains(line, "\r") {
		last, states := "", 0
		for state := range strings.SplitSeq(line, "\r") {
			if state != "" {
				last = state
				states++
			}
		}
		done.Overwritten += max(states-1, 0)
		line = strings.TrimRight(last, " ") // To overwrite a longer state, programs add spaces at the end; these are removed.
	}
	if !strings.Contains(line, "\b") {
		return line
	}
	var kept []rune
	for _, r := range line {
		if r != '\b' {
			kept = append(kept, r)
			continue
		}
		done.Escapes++
		kept = kept[:max(len(kept)-1, 0)]
	}
	return string(kept)
}

const folded = "… %d more lines like this"

// isFold reports whether a line looks like the line that fold writes for repeated lines. fold does not change such a line, so applying fold
// twice has the same effect as applying it once.
func isFold(line string) bool {
	var n int
	_, err := fmt.Sscanf(line, folded, &n)
	return err == nil && line == fmt.Sprintf(folded, n)
}

// fold writes a repeated line once, with the number of repetitions.
func fold(text string, done *Done) string {
	lines := strings.SplitAfter(text, "\n")
	var b strings.Builder
	b.Grow(len(text))
	for i := 0; i < len(lines); {
		line := strings.TrimSuffix(lines[i], "\n")
		next, size := i+1, 0
		for next < len(lines) && strings.TrimSuffix(lines[next], "\n") == line && lines[next] != "" {
			size += len(lines[next])
			next++
		}
		b.WriteString(lines[i])
		n := next - i - 1
		end := lines[next-1][len(line):]
		short := ""
		if n > 1 {
			short = fmt.Sprintf(folded, n) + end
		}
		if n > 1 && len(short) < size && !isFold(line) {
			b.WriteString(short)
			done.Folded += n
		} else {
			for _, l := range lines[i+1 : next] {
				b.WriteString(l)
			}
		}
		i = next
	}
	return b.String()
}
