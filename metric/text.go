package metric

import (
	"math"
	"strconv"
	"strings"
)

// ContentType is the content type of a [Text].
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// A Text is a list of metrics in the text format of Prometheus. Call Counter, Gauge or Histogram for a metric first, and write all its
// values directly afterwards.
type Text struct {
	prefix string
	b      strings.Builder
}

// NewText returns an empty text. prefix is added to all names.
func NewText(prefix string) *Text { return &Text{prefix: prefix} }

func (t *Text) String() string { return t.b.String() }

// Counter begins a metric that only grows. Its name must end with _total.
func (t *Text) Counter(name, help string) { t.head(name, "counter", help) }

// Gauge begins a metric that rises and falls.
func (t *Text) Gauge(name, help string) { t.head(name, "gauge", help) }

// Histogram begins a histogram.
func (t *Text) Histogram(name, help string) { t.head(name, "histogram", help) }

func (t *Text) head(name, kind, help string) {
	help = strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(help)
	t.b.WriteString("# HELP " + t.prefix + name + " " + help + "\n# TYPE " + t.prefix + name + " " + kind + "\n")
}

// Value writes one value. labels are pairs of name and value.
func (t *Text) Value(name string, v float64, labels ...string) {
	t.b.WriteString(t.prefix + name)
	t.labels(labels)
	form := byte('g')
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 { // Integers are written without an exponent, because a byte count such as 1.048576e+06 is hard to read.
		form = 'f'
	}
	t.b.WriteString(" " + strconv.FormatFloat(v, form, -1, 64) + "\n")
}

// Observations writes a histogram. Its values are divided by unit; 1e9 converts nanoseconds to seconds.
func (t *Text) Observations(name string, s Snapshot, unit float64, labels ...string) {
	n := int64(0)
	for i, c := range s.Counts {
		n += c
		bound := "+Inf"
		if i < len(s.Bounds) {
			bound = strconv.FormatFloat(float64(s.Bounds[i])/unit, 'g', 6, 64)
		}
		t.Value(name+"_bucket", float64(n), append(labels[:len(labels):len(labels)], "le", bound)...)
	}
	t.Value(name+"_sum", float64(s.Sum)/unit, labels...)
	t.Value(name+"_count", float64(n), labels...)
}

func (t *Text) labels(pairs []string) {
	if len(pairs) == 0 {
		return
	}
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	for i := 0; i+1 < len(pairs); i += 2 {
		mark := ","
		if i == 0 {
			mark = "{"
		}
		t.b.WriteString(mark + pairs[i] + `="` + escape.Replace(strings.ToValidUTF8(pairs[i+1], "\uFFFD")) + `"`)
	}
	t.b.WriteString("}")
}
