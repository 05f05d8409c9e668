package files

import (
	"fmt"
	"strings"
)

// hunkWriter writes the hunks of a unified diff, up to most bytes.
type hunkWriter struct {
	a, b   []string
	offset int // number of lines in the two files that come before the first line of a and b
	most   int
	out    strings.Builder
	full   bool
}

func (w *hunkWriter) write(ops []op) {
	var hunk []op
	for i, o := range ops {
		last := i == len(ops)-1
		switch {
		case o.kind != ' ':
			hunk = append(hunk, o)
		case len(hunk) == 0:
			if !last {
				hunk = append(hunk, o.last(diffContext))
			}
		case last || o.n > 2*diffContext:
			w.hunk(append(hunk, o.first(diffContext)))
			hunk = nil
			if !last {
				hunk = append(hunk, o.last(diffContext))
			}
		default:
			hunk = append(hunk, o)
		}
	}
	if len(hunk) > 0 {
		w.hunk(hunk)
	}
}

func (o op) first(n int) op {
	o.n = min(o.n, n)
	return o
}

func (o op) last(n int) op {
	cut := max(o.n-n, 0)
	return op{o.kind, o.n - cut, o.a + cut, o.b + cut}
}

func (w *hunkWriter) hunk(ops []op) {
	if w.full {
		return
	}
	added, removed := tally(ops)
	same := 0
	for _, o := range ops {
		if o.kind == ' ' {
			same += o.n
		}
	}
	w.line(fmt.Sprintf("@@ -%s +%s @@\n", w.lines(ops[0].a, same+removed), w.lines(ops[0].b, same+added)))
	for _, o := range ops {
		lines := w.a[o.a:]
		if o.kind == '+' {
			lines = w.b[o.b:]
		}
		for _, l := range lines[:o.n] {
			if w.full {
				return
			}
			w.line(string(o.kind) + l)
			if !strings.HasSuffix(l, "\n") {
				w.line("\n\\ No newline at end of file\n")
			}
		}
	}
}

// lines returns a range of lines as a hunk header shows it. For an empty range, the header shows the line before it.
func (w *hunkWriter) lines(start, n int) string {
	if n == 0 {
		return fmt.Sprintf("%d,0", w.offset+start)
	}
	return fmt.Sprintf("%d,%d", w.offset+start+1, n)
}

func (w *hunkWriter) line(s string) {
	if room := w.most - w.out.Len(); len(s) > room {
		w.full = true
		s = strings.TrimSuffix(s[:max(room, 0)], "\n") + "…\n"
	}
	w.out.WriteString(s)
}
