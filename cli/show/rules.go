package show

import (
	"fmt"
	"strings"

	"github.com/toold-dev/toold/plugins/permission"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// A Ruling is the outcome of the permission rules for a call.
type Ruling struct {
	Tool    string `json:"tool"`
	Verdict string `json:"verdict"` // ALLOW, SUSPEND, DENY or BLOCK
	Hidden  bool   `json:"hidden,omitempty"`
	Tier    string `json:"tier"`
	File    string `json:"file,omitempty"`
	Message string `json:"message,omitempty"` // for the model or the approver
	permission.Explanation
}

// Ruling formats the deciding rule and the other rules that were tried.
func (v View) Ruling(r *Ruling) string {
	var b strings.Builder
	verdict, color, means := "ALLOW", good, "the call runs"
	switch r.Verdict {
	case "SUSPEND":
		verdict, color, means = "ASK", waits, "the call waits for an answer"
	case "DENY":
		verdict, color, means = "DENY", bad, "the call fails, and its run continues"
	case "BLOCK":
		verdict, color, means = "BLOCK", bad, "the call fails and its run is blocked"
	}
	if r.Hidden {
		means = "the tool is hidden: a call of it finds no tool"
	}
	fmt.Fprintf(&b, "%s  %s\n", v.paint(color, verdict), means)
	b.WriteString(v.fields(
		"why", Line(r.Why),
		"rule", Line(r.Rule),
		"at", position(r.File, r.Line, r.Column),
		"pattern", Line(r.Pattern),
		"layer", Line(r.Layer),
		"command", Line(r.Command),
		"tier", Line(r.Tier),
		"approvers", approversOf(r),
		"reads", Line(r.Message),
	))
	if len(r.Tried) == 0 {
		b.WriteString("\nNo rule names " + Line(r.Tool) + ".\n")
		return b.String()
	}
	for from := 0; from < len(r.Tried); {
		to := from
		var rows [][]cell
		for ; to < len(r.Tried) && r.Tried[to].Command == r.Tried[from].Command; to++ {
			rows = append(rows, triedRow(&r.Tried[to]))
		}
		if part := r.Tried[from].Command; part != "" {
			b.WriteString("\n" + v.paint(accent, cut(Line(part), tableWidth)))
		}
		b.WriteString("\n" + v.table([]string{"RULE", "AT", "ACTION", "FOR THIS CALL", "LAYER", "PATTERN"}, 16, rows))
		from = to
	}
	return b.String()
}

func triedRow(t *permission.Tried) []cell {
	holds, color := "holds", good
	if !t.Holds {
		holds, color = t.WhyNot, dim
	}
	return []cell{
		{Line(t.Rule), bold}, {fmt.Sprintf("%d:%d", t.Line, t.Column), dim}, {t.Action, ""}, {holds, color}, {cut(Line(t.Layer), 20), dim}, {Line(t.Pattern), ""},
	}
}

func position(file string, line, column int) string {
	if line == 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d:%d", Line(file), line, column)
}

func approversOf(r *Ruling) string {
	if len(r.Approvers) == 0 {
		return ""
	}
	text := Line(strings.Join(r.Approvers, " or ")) + inGroups(r.Groups)
	if r.Count > 1 {
		text += fmt.Sprintf(", %d people", r.Count)
	}
	if r.FourEyes {
		text += ", not the caller"
	}
	if r.Instead {
		text += ", who may also give the result in the tool's place"
	}
	return text
}

// Rules lists kept approvals: what each allows, to whom, where and until when.
func (v View) Rules(rules []*tooldv1.Rule) string {
	var b strings.Builder
	for i, r := range rules {
		if i > 0 {
			b.WriteString("\n")
		}
		allows := Line(r.GetTitle())
		if allows == "" {
			allows = Line(r.GetOption())
		}
		whose := Line(r.GetPrincipal())
		if r.GetOnBehalfOf() != "" {
			whose += " for " + Line(r.GetOnBehalfOf())
		}
		b.WriteString(v.paint(bold, Line(r.GetRuleId())) + "  " + v.paint(accent, cut(Line(r.GetTool()), 30)) + "\n")
		b.WriteString("  " + cut(allows, tableWidth-2) + "\n")
		b.WriteString("  " + cut("of "+whose+", "+scopeOf(r), tableWidth-2) + "\n")
		b.WriteString("  " + v.paint(dim, cut(fmt.Sprintf("by %s %s ago, ends in %s", principal(r.GetMadeBy()), v.age(r.GetCreatedAt()),
			Duration(max(r.GetUntil().AsTime().Sub(v.Now), 0))), tableWidth-2)) + "\n")
	}
	return b.String()
}

func scopeOf(r *tooldv1.Rule) string {
	switch r.GetScope() {
	case tooldv1.RememberScope_REMEMBER_SCOPE_RUN:
		return "in the run " + Line(r.GetScopeId())
	case tooldv1.RememberScope_REMEMBER_SCOPE_THREAD:
		return "in the thread " + Line(r.GetScopeId())
	case tooldv1.RememberScope_REMEMBER_SCOPE_NAMESPACE:
		return "everywhere in the namespace"
	}
	return name(r.GetScope())
}
