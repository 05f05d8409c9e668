package show

import (
	"cmp"
	"fmt"
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Policy returns the rules in force, with their hits.
func (v View) Policy(p *tooldv1.GetPolicyResponse) string {
	rows := make([][]cell, 0, len(p.GetRules())+len(p.GetDefaults()))
	for _, r := range p.GetRules() {
		rows = append(rows, []cell{
			{Line(r.GetName()), bold}, {ruleAction(r.GetAction()), actionColor(r.GetAction())}, {hits(r.GetHits()), ""}, {v.lastHit(r.GetHits()), dim},
			{fmt.Sprint(r.GetLine()), dim}, {Line(r.GetLayer()), dim}, {ruleScope(r), ""},
		})
	}
	for _, d := range p.GetDefaults() {
		rows = append(rows, []cell{
			{"by tier: " + name(d.GetTier()), dim}, {ruleAction(d.GetAction()), actionColor(d.GetAction())}, {hits(d.GetHits()), ""}, {v.lastHit(d.GetHits()), dim},
			{"", dim}, {Line(d.GetLayer()), dim}, {"calls that no rule matches", dim},
		})
	}
	file := cmp.Or(Line(p.GetFile()), "no rule file")
	if p.GetVersion() != "" {
		file += ", version " + Line(p.GetVersion())
	}
	return file + ", in force for " + Duration(v.Now.Sub(p.GetSince().AsTime())) + ", hits since then\n\n" +
		v.table([]string{"RULE", "ACTION", "HITS", "LAST", "LINE", "LAYER", "FOR"}, 20, rows)
}

// ruleScope describes the calls to which a rule applies.
func ruleScope(r *tooldv1.PolicyRule) string {
	parts := []string{strings.Join(r.GetTools(), ", ")}
	for _, one := range []struct {
		name   string
		values []string
	}{{"callers", r.GetCallers()}, {"sources", r.GetSources()}} {
		if len(one.values) > 0 {
			parts = append(parts, one.name+" "+strings.Join(one.values, ", "))
		}
	}
	for _, t := range r.GetTiers() {
		parts = append(parts, name(t))
	}
	if r.GetWhen() != "" {
		parts = append(parts, "when "+r.GetWhen())
	}
	return Line(strings.TrimPrefix(strings.Join(parts, "; "), "; "))
}

func ruleAction(a tooldv1.RuleAction) string { return strings.ReplaceAll(name(a), "_", " ") }

func actionColor(a tooldv1.RuleAction) string {
	switch a {
	case tooldv1.RuleAction_RULE_ACTION_ALLOW:
		return good
	case tooldv1.RuleAction_RULE_ACTION_ASK, tooldv1.RuleAction_RULE_ACTION_ASK_ALWAYS:
		return waits
	}
	return bad
}

func hits(h *tooldv1.RuleHits) string {
	if h.Count == nil {
		return "?"
	}
	return fmt.Sprint(h.GetCount())
}

func (v View) lastHit(h *tooldv1.RuleHits) string {
	if h.GetLastAt() == nil {
		return ""
	}
	return v.age(h.GetLastAt())
}

// RuleTrial returns the result of a trial of a rule file.
func (v View) RuleTrial(file string, r *tooldv1.TryRulesResponse) string {
	var b strings.Builder
	for _, w := range r.GetWarnings() {
		b.WriteString(v.paint(waits, position(file, int(w.GetLine()), int(w.GetColumn()))+": "+Line(w.GetMessage())) + "\n")
	}
	switch {
	case r.GetCallError() != "":
		b.WriteString("the call cannot be judged: " + Text(r.GetCallError()) + "\n")
	case r.GetTried() != nil:
		b.WriteString(v.fields("in force", v.trialRuling(r.GetInForce()), Line(file), v.trialRuling(r.GetTried())))
	case r.GetReplay() != nil:
		b.WriteString(v.replay(r.GetReplay()))
	}
	return b.String()
}

func (v View) trialRuling(r *tooldv1.Ruling) string {
	return v.paint(actionColor(r.GetDecision().GetAction()), ruleAction(r.GetDecision().GetAction())) + "  " + Line(r.GetWhy())
}

func (v View) replay(r *tooldv1.Replay) string {
	var b strings.Builder
	total := func(t *tooldv1.ReplayTotals) string {
		return fmt.Sprintf("%d allowed, %d asked, %d refused, %d blocked", t.GetAllowed(), t.GetAsked(), t.GetRefused(), t.GetBlocked())
	}
	judged := fmt.Sprintf("%d calls, %d cannot be judged", r.GetJudged(), r.GetSkipped())
	if !r.GetComplete() {
		judged += "; the time limit was reached before all calls were judged"
	}
	b.WriteString(v.fields("judged", judged, "in force", total(r.GetBefore()), "this file", total(r.GetAfter())))
	if len(r.GetChanged()) == 0 {
		b.WriteString("\nNo call would have another outcome.\n")
		return b.String()
	}
	rows := make([][]cell, 0, len(r.GetChanged()))
	for _, c := range r.GetChanged() {
		from, to := c.GetBefore(), c.GetAfter()
		rows = append(rows, []cell{
			{Short(Line(c.GetCallId()), 36), bold}, {ruleAction(from.GetAction()) + " > " + ruleAction(to.GetAction()), actionColor(to.GetAction())},
			{cmp.Or(Line(to.GetRule()), "by tier"), ""}, {decidedBy(c.GetDecided()), ""}, {Line(c.GetCaller()), dim}, {Line(c.GetTitle()), ""},
		})
	}
	b.WriteString("\n" + v.table([]string{"CALL", "CHANGE", "RULE", "PEOPLE", "CALLER", "TITLE"}, 36, rows))
	return b.String()
}

func decidedBy(a tooldv1.DecisionAction) string {
	switch a {
	case tooldv1.DecisionAction_DECISION_ACTION_RESUME:
		return "approved"
	case tooldv1.DecisionAction_DECISION_ACTION_CANCEL:
		return "declined"
	}
	return ""
}
