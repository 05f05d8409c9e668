package show

import (
	"fmt"
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Documents lists documents with the start of their values.
func (v View) Documents(docs []*tooldv1.Document) string {
	rows := make([][]cell, len(docs))
	for i, d := range docs {
		rows[i] = []cell{{Line(d.GetKey()), bold}, {fmt.Sprint(d.GetRevision()), dim}, {fmt.Sprint(len(d.GetValue())), dim}, {Line(d.GetValue()), ""}}
	}
	return v.table([]string{"KEY", "REVISION", "BYTES", "VALUE"}, 24, rows)
}

// Document shows one complete document.
func (v View) Document(d *tooldv1.Document) string {
	return v.paint(bold, Line(d.GetKey())) + v.paint(dim, fmt.Sprintf("  revision %d", d.GetRevision())) + "\n" + Text(d.GetValue()) + "\n"
}

// DeadLetters lists actions that have failed permanently.
func (v View) DeadLetters(dead []*tooldv1.DeadLetter) string {
	var b strings.Builder
	for i, d := range dead {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(v.paint(bold, Line(d.GetActionId())) + "  " + v.paint(accent, cut(Line(d.GetHandler()), 40)) + "\n")
		b.WriteString("  " + v.paint(bad, cut(Line(d.GetError()), tableWidth-2)) + "\n")
		b.WriteString("  " + cut(Line(d.GetPayload()), tableWidth-2) + "\n")
		b.WriteString("  " + v.paint(dim, cut(fmt.Sprintf("%s, of the call %s by %s %s ago, %d attempts", strings.ToLower(d.GetPhase()), Line(d.GetCallId()), Line(d.GetCaller()),
			v.age(d.GetCreatedAt()), d.GetAttempts()), tableWidth-2)) + "\n")
	}
	return b.String()
}
