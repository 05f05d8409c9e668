package show

import (
	"fmt"
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Sources lists the tool sources. Below the table it lists the refused tools and their problems.
func (v View) Sources(sources []*tooldv1.Source) string {
	rows := make([][]cell, 0, len(sources))
	var wrong, refused strings.Builder
	for _, s := range sources {
		state, last := cell{"ready", good}, strings.TrimSpace(s.GetServer()+"  "+s.GetProtocol())
		switch s.GetState() {
		case tooldv1.SourceState_SOURCE_STATE_CONNECTING:
			state = cell{"connecting", dim}
		case tooldv1.SourceState_SOURCE_STATE_DOWN:
			state, last = cell{"down", bad}, s.GetError()
		}
		if s.GetError() != "" {
			wrong.WriteString("  " + v.paint(bad, Line(s.GetName())) + "  " + Line(s.GetError()) + "\n")
		}
		age := ""
		if s.GetSince() != nil {
			age = v.age(s.GetSince())
		}
		rows = append(rows, []cell{
			{Line(s.GetName()), bold}, state, {age, dim}, {fmt.Sprint(s.GetTools()), ""}, {Line(s.GetTrust()), ""}, {Line(last), dim},
		})
		for _, r := range s.GetRefused() {
			refused.WriteString("  " + v.paint(bad, Line(s.GetName())+" "+Line(r.GetName())) + "  " + Line(r.GetReason()) + "\n")
		}
	}
	text := v.table([]string{"SOURCE", "STATE", "SINCE", "TOOLS", "TRUST", "SERVER OR PROBLEM"}, 24, rows)
	if wrong.Len() > 0 {
		text += "\nproblems:\n" + wrong.String() // the table has no room for the whole message
	}
	if refused.Len() > 0 {
		text += "\nnot taken:\n" + refused.String()
	}
	return text
}
