package show

import (
	"bytes"
	"encoding/json"
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

// DefinitionDiff shows how a quarantined tool definition differs from the trusted one. It covers every member, including every text that a
// model reads.
func (v View) DefinitionDiff(q *tooldv1.QuarantinedTool) string {
	before, after := definitionLines(q.GetTrusted()), definitionLines(q.GetWaiting())
	var b strings.Builder
	b.WriteString("--- trusted  " + q.GetTrusted().GetDigest() + "\n+++ waiting  " + q.GetWaiting().GetDigest() + "\n")
	for _, line := range around(lineDiff(before, after), 3) {
		b.WriteString(line + "\n")
	}
	return v.Diff(b.String())
}

// RefusedBy says who refused the new definition of a quarantined tool, or returns "" when nobody did.
func (v View) RefusedBy(q *tooldv1.QuarantinedTool) string {
	if q.GetRefusedBy() == "" {
		return ""
	}
	return v.paint(bad, ", refused by "+Line(q.GetRefusedBy())+" "+v.age(q.GetRefusedAt())+" ago")
}

// Definitions lists the definitions of a tool that were trusted or refused.
func (v View) Definitions(all []*tooldv1.JudgedDefinition) string {
	rows := make([][]cell, len(all))
	for i, d := range all {
		judgement, color := "trusted", good
		switch {
		case d.GetRefused():
			judgement, color = "refused", bad
		case d.GetBy() != "":
			judgement = "accepted"
		}
		rows[i] = []cell{
			{d.GetDefinition().GetDigest(), bold}, {judgement, color}, {orNone(d.GetBy() != "", "by "+Line(d.GetBy())), ""}, {v.age(d.GetTime()) + " ago", dim},
		}
	}
	return v.table([]string{"DIGEST", "JUDGEMENT", "WHO", "WHEN"}, 16, rows)
}

// ToolCalls lists the counts of calls by tool.
func (v View) ToolCalls(all *tooldv1.CountToolCallsResponse) string {
	rows := make([][]cell, len(all.GetTools()))
	for i, t := range all.GetTools() {
		rows[i] = []cell{{Line(t.GetTool()), bold}, {Number(int64(t.GetCalls())), ""}, {Number(int64(t.GetFailed())), ""}, {Number(int64(t.GetDenied())), ""}, {v.age(t.GetNewest()) + " ago", dim}}
	}
	return v.table([]string{"TOOL", "CALLS", "FAILED", "DENIED", "NEWEST"}, 20, rows)
}

// definitionLines formats a descriptor as JSON on many lines, with its schemas as nested JSON. It escapes invisible characters, because
// they may be the only change.
func definitionLines(d *tooldv1.Descriptor) []string {
	raw, err := protojson.Marshal(d)
	if err != nil {
		return nil
	}
	var members map[string]any
	if json.Unmarshal(raw, &members) != nil {
		return nil
	}
	delete(members, "digest")
	for _, name := range []string{"parameters", "resultSchema"} {
		if text, ok := members[name].(string); ok && json.Valid([]byte(text)) {
			members[name] = json.RawMessage(text)
		}
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if enc.Encode(members) != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(JSON(text.String())), "\n")
}

// maxCells limits the size of the comparison table. Larger inputs are shown as replaced completely.
const maxCells = 4 << 20

// lineDiff returns the lines of a and b, each with " ", "-" or "+" before it.
func lineDiff(a, b []string) []string {
	var out []string
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		out, a, b = append(out, " "+a[0]), a[1:], b[1:]
	}
	same := 0
	for same < min(len(a), len(b)) && a[len(a)-1-same] == b[len(b)-1-same] {
		same++
	}
	tail := a[len(a)-same:]
	a, b = a[:len(a)-same], b[:len(b)-same]
	out = append(out, changedLines(a, b)...)
	for _, line := range tail {
		out = append(out, " "+line)
	}
	return out
}

func changedLines(a, b []string) (out []string) {
	width := len(b) + 1
	if (len(a)+1)*width > maxCells {
		width = 0
	}
	table := make([]int32, (len(a)+1)*width) // number of lines that the remainders of a and b have in common
	if width > 0 {
		for i := len(a) - 1; i >= 0; i-- {
			for j := len(b) - 1; j >= 0; j-- {
				if a[i] == b[j] {
					table[i*width+j] = table[(i+1)*width+j+1] + 1
				} else {
					table[i*width+j] = max(table[(i+1)*width+j], table[i*width+j+1])
				}
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case width > 0 && i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, " "+a[i])
			i, j = i+1, j+1
		case i < len(a) && (j == len(b) || width == 0 || table[(i+1)*width+j] >= table[i*width+j+1]):
			out = append(out, "-"+a[i])
			i++
		default:
			out = append(out, "+"+b[j])
			j++
		}
	}
	return out
}

// around keeps the changed lines, with context lines before and after each.
func around(lines []string, context int) []string {
	keep := make([]bool, len(lines))
	for i, line := range lines {
		if line[0] != ' ' {
			for j := max(i-context, 0); j <= min(i+context, len(lines)-1); j++ {
				keep[j] = true
			}
		}
	}
	var out []string
	for i, line := range lines {
		switch {
		case keep[i]:
			out = append(out, line)
		case i == 0 || keep[i-1]:
			out = append(out, " …")
		}
	}
	return out
}
