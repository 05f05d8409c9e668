package files

import (
	"bytes"
	"fmt"
	"strings"
)

// Limits of the work for one diff. Beyond diffLines or diffEdits the diff is coarse: it removes and adds all lines between the first and
// the last change. It shows at most diffLines of each.
const (
	diffContext = 3
	diffLines   = 50_000 // lines between the first and the last change
	diffEdits   = 1_000  // number of lines that differ
)

// diff describes the change of a file.
type diff struct {
	text           string // unified diff; empty when nothing changes or the old content is binary
	line           int    // number of the first new line in the new content; when lines are only removed, the line at their position
	added, removed int
	notes          []string
}

// difference compares a file with its new content. The parameter most limits the size of the diff's text, in bytes.
func difference(name string, was snapshot, content []byte, most int) diff {
	if isBinary(was.content) {
		return diff{notes: []string{fmt.Sprintf("replaces a binary file of %d bytes", len(was.content))}, added: countLines(content)}
	}
	if bytes.Equal(was.content, content) {
		return diff{}
	}
	head, a, b := middle(was.content, content)
	d := diff{added: countLines(b), removed: countLines(a)}
	var ops []op
	coarse := d.added+d.removed > diffLines
	linesA, linesB := splitLines(a, diffLines), splitLines(b, diffLines)
	if !coarse {
		var found bool
		ops, found = shortest(linesA, linesB)
		coarse = !found
	}
	if !coarse {
		d.added, d.removed = tally(ops)
	}
	if coarse {
		ops = allOf(linesA, linesB)
	}
	d.line = firstChange(ops, head)
	old := "a/" + name
	if !was.exists() {
		old = "/dev/null"
	}
	w := hunkWriter{a: linesA, b: linesB, offset: head, most: most}
	fmt.Fprintf(&w.out, "--- %s\n+++ b/%s\n", old, name)
	w.write(ops)
	d.text = strings.ToValidUTF8(w.out.String(), "\ufffd")
	if w.full || countLines(a) > diffLines || countLines(b) > diffLines {
		d.notes = append(d.notes, fmt.Sprintf("the diff is shortened: the full change adds %d lines and removes %d", d.added, d.removed))
	}
	return d
}

// middle removes the equal lines at the beginning and at the end, except for the lines that a diff shows as context. head is the number of
// lines removed at the beginning.
func middle(a, b []byte) (head int, midA, midB []byte) {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	start := lineStart(a, n, diffContext)
	m := 0
	for m < len(a)-n && m < len(b)-n && a[len(a)-1-m] == b[len(b)-1-m] {
		m++
	}
	tail := a[len(a)-m:]
	keep := 0
	for range diffContext + 1 { // One line more than diffContext, because the first of these lines may be the end of a line that differs.
		i := bytes.IndexByte(tail[keep:], '\n')
		if i < 0 {
			keep = len(tail)
			break
		}
		keep += i + 1
	}
	cut := m - keep
	return bytes.Count(a[:start], []byte{'\n'}), a[start : len(a)-cut], b[start : len(b)-cut]
}

// lineStart returns the offset of the start of a line: the line that is up lines above the line that contains pos.
func lineStart(b []byte, pos, up int) int {
	for range up + 1 {
		i := bytes.LastIndexByte(b[:pos], '\n')
		if i < 0 {
			return 0
		}
		pos = i
	}
	return pos + 1
}

func countLines(b []byte) int {
	n := bytes.Count(b, []byte{'\n'})
	if len(b) > 0 && b[len(b)-1] != '\n' {
		n++
	}
	return n
}

// splitLines returns the lines of b with their line ends. The parameter most limits their number.
func splitLines(b []byte, most int) []string {
	var lines []string
	for line := range bytes.Lines(b) {
		if len(lines) == most {
			break
		}
		lines = append(lines, string(line))
	}
	return lines
}
