package show

import "strings"

const tabStop = 8

// Wrap splits text that this package formatted into lines of at most width columns. It returns at least one line. A colour that is active
// at a line break is closed there and reopened on the next line. The only escape sequences in text must be the colours of this package.
func Wrap(text string, width int) []string {
	var w wrapper
	w.width = max(width, 1)
	for i := 0; i < len(text); {
		if text[i] == '\x1b' {
			end := strings.IndexByte(text[i:], 'm')
			if end < 0 {
				break // do not cut within a colour sequence
			}
			w.color(text[i : i+end+1])
			i += end + 1
			continue
		}
		end := i + 1
		for end < len(text) && text[end]&0xc0 == 0x80 {
			end++
		}
		w.put(text[i:end])
		i = end
	}
	if w.line.Len() > 0 || len(w.lines) == 0 {
		w.end()
	}
	return w.lines
}

// words wraps safe text between words into lines of at most width columns. A longer word is not split, because users may copy it.
func words(text string, width int) string {
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		used := 0
		for j, word := range strings.Split(line, " ") {
			n := painted(word)
			switch {
			case j == 0:
			case used+1+n > width:
				b.WriteByte('\n')
				used = 0
			default:
				b.WriteByte(' ')
				used++
			}
			b.WriteString(word)
			used += n
		}
	}
	return b.String()
}

// painted returns how many columns a text with colour sequences takes.
func painted(s string) int {
	n := 0
	for {
		text, rest, more := strings.Cut(s, "\x1b[")
		n += columns(text)
		if !more {
			return n
		}
		_, s, _ = strings.Cut(rest, "m")
	}
}

type wrapper struct {
	width int
	lines []string
	line  strings.Builder
	used  int
	open  string // the active colour
}

const noColor = "\x1b[0m"

func (w *wrapper) color(sequence string) {
	w.line.WriteString(sequence)
	if w.open = sequence; sequence == noColor {
		w.open = ""
	}
}

func (w *wrapper) put(character string) {
	switch character {
	case "\n":
		w.end()
		return
	case "\t":
		for n := tabStop - w.used%tabStop; n > 0; n-- {
			w.put(" ")
		}
		return
	}
	n := columns(character)
	if w.used+n > w.width && w.used > 0 {
		w.end()
	}
	if n > w.width {
		character, n = "?", 1
	}
	w.line.WriteString(character)
	w.used += n
}

func (w *wrapper) end() {
	if w.open != "" {
		w.line.WriteString(noColor)
	}
	w.lines = append(w.lines, w.line.String())
	w.line.Reset()
	w.line.WriteString(w.open)
	w.used = 0
}
