package show

import (
	"cmp"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// A View holds what formatting needs to know about the reader: colour support and the current time. Color must be true only for terminals.
type View struct {
	Now     time.Time
	Color   bool
	Program string // how suggested commands begin; "" means toold
}

// command returns a command that people may copy. The words must be safe.
func (v View) command(words ...string) string {
	return strings.Join(append([]string{cmp.Or(v.Program, "toold")}, words...), " ")
}

const tableWidth = 80

// The colours, named by their meaning.
const (
	bold   = "1"
	dim    = "2"
	bad    = "31"
	good   = "32"
	waits  = "33"
	accent = "36"
)

func (v View) paint(code, s string) string {
	if !v.Color || s == "" || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// A cell is safe text. Its colour takes no columns.
type cell struct{ text, color string }

// table formats rows under a head with lines of at most 80 columns. It cuts the last column. A first cell wider than its column, such as an
// id that must stay complete, gets its own line.
func (v View) table(head []string, first int, rows [][]cell) string {
	widths := make([]int, len(head))
	for i, h := range head {
		widths[i] = columns(h)
	}
	for _, row := range rows {
		for i, c := range row {
			if i > 0 || columns(c.text) <= first {
				widths[i] = max(widths[i], columns(c.text))
			}
		}
	}
	last, used := len(head)-1, 0
	for _, w := range widths[:last] {
		used += w + 2
	}
	widths[last] = max(min(widths[last], tableWidth-used), 1)
	var b strings.Builder
	titles := make([]cell, len(head))
	for i, h := range head {
		titles[i] = cell{h, bold}
	}
	for _, row := range append([][]cell{titles}, rows...) {
		v.tableRow(&b, widths, row)
	}
	return b.String()
}

func (v View) tableRow(b *strings.Builder, widths []int, row []cell) {
	last := len(row) - 1
	for i, c := range row {
		if i == 0 && columns(c.text) > widths[0] {
			b.WriteString(v.paint(c.color, c.text) + "\n" + strings.Repeat(" ", widths[0]+2))
			continue
		}
		text := cut(c.text, widths[i])
		b.WriteString(v.paint(c.color, text))
		if i < last && strings.TrimSpace(joined(row[i+1:])) != "" {
			b.WriteString(strings.Repeat(" ", widths[i]-columns(text)+2))
		}
	}
	b.WriteString("\n")
}

func joined(cells []cell) string {
	var b strings.Builder
	for _, c := range cells {
		b.WriteString(c.text)
	}
	return b.String()
}

// fields formats pairs of name and value with aligned names. It omits empty values. Values must be safe, and wrap between words.
func (v View) fields(pairs ...string) string {
	widest := 0
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			widest = max(widest, len(pairs[i]))
		}
	}
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}
		b.WriteString(v.paint(dim, pairs[i]) + strings.Repeat(" ", widest-len(pairs[i])+2))
		value := words(pairs[i+1], tableWidth-widest-2)
		b.WriteString(strings.ReplaceAll(value, "\n", "\n"+strings.Repeat(" ", widest+2)) + "\n")
	}
	return b.String()
}

// indent indents s by two columns.
func indent(s string) string {
	s = strings.TrimSuffix(s, "\n")
	if s == "" {
		return ""
	}
	return "  " + strings.ReplaceAll(s, "\n", "\n  ") + "\n"
}

// name returns an enum value without its prefix, such as SUCCEEDED or READ_ONLY.
func name(e protoreflect.Enum) string {
	values := e.Descriptor().Values()
	v := values.ByNumber(e.Number())
	if v == nil || e.Number() == 0 {
		return ""
	}
	prefix := strings.TrimSuffix(string(values.ByNumber(0).Name()), "UNSPECIFIED")
	return strings.TrimPrefix(string(v.Name()), prefix)
}
