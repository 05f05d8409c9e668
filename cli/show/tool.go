package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Tools formats tools as a table.
func (v View) Tools(tools []*tooldv1.Descriptor) string {
	rows := make([][]cell, 0, len(tools))
	for _, t := range tools {
		rows = append(rows, []cell{
			{Line(t.GetId()), bold}, {name(t.GetEffects().GetTier()), tierColor(t.GetEffects().GetTier())},
			{name(t.GetEffects().GetSafety()), ""}, {cut(Line(t.GetSource()), 14), dim}, {firstSentence(t.GetDescription()), ""},
		})
	}
	return v.table([]string{"TOOL", "TIER", "SAFETY", "SOURCE", "DESCRIPTION"}, 20, rows)
}

func tierColor(t tooldv1.Tier) string {
	switch t {
	case tooldv1.Tier_TIER_OBSERVE:
		return good
	case tooldv1.Tier_TIER_ESCALATE:
		return bad
	default:
		return waits
	}
}

func firstSentence(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return Line(s)
}

// Tool formats one descriptor with its parameters.
func (v View) Tool(t *tooldv1.Descriptor) string {
	var b strings.Builder
	b.WriteString(v.paint(bold, Line(t.GetId())))
	if n := t.GetDisplayName(); n != "" {
		b.WriteString("  " + Line(n))
	}
	b.WriteString("\n" + indent(words(fold(Text(t.GetDescription())), tableWidth-2)))
	b.WriteString(v.fields(
		"effect", effect(t.GetEffects(), 0),
		"at least", orNone(t.GetMildest() != nil && name(t.GetMildest().GetSafety()) != name(t.GetEffects().GetSafety()), effect(t.GetMildest(), 0)),
		"isolation", isolation(&tooldv1.Isolation{Required: t.GetRequiredIsolation(), Network: t.GetRequiredNetwork()}),
		"source", Line(strings.TrimSpace(t.GetSource()+" "+t.GetVersion())),
		"category", Line(t.GetCategory()),
		"aliases", Line(strings.Join(t.GetAliases(), " ")),
		"timeouts", timeouts(t.GetTimeouts()),
		"arguments", Size(int64(t.GetMaxArguments()))+" at most",
		"output", orNone(t.GetOutputBudget() > 0, Size(int64(t.GetOutputBudget()))+" inline"),
		"secrets", Line(strings.Join(t.GetRequiredSecrets(), " ")),
		"digest", Line(t.GetDigest()),
	))
	b.WriteString(v.parameters(t.GetParameters()))
	if g := t.GetGuidance(); g != "" {
		b.WriteString("\n" + v.paint(bold, "Guidance") + "\n" + indent(words(fold(Text(g)), tableWidth-2)))
	}
	return b.String()
}

func timeouts(t *tooldv1.Timeouts) string {
	var parts []string
	if d := t.GetQueue(); d != nil {
		parts = append(parts, "queue "+Duration(d.AsDuration()))
	}
	if d := t.GetAttempt(); d != nil {
		parts = append(parts, "attempt "+Duration(d.AsDuration()))
	}
	return strings.Join(parts, ", ")
}

// parameters lists the properties of a simple schema, and prints any other schema as JSON.
func (v View) parameters(schema string) string {
	var s struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if json.Unmarshal([]byte(schema), &s) != nil || s.Properties == nil {
		var b bytes.Buffer
		if json.Indent(&b, []byte(schema), "", "  ") != nil {
			return ""
		}
		return "\n" + v.paint(bold, "Parameters") + "\n" + indent(JSON(b.String()))
	}
	members, _ := objectMembers(string(s.Properties))
	if len(members) == 0 {
		return "\n" + v.paint(dim, "No parameters.") + "\n"
	}
	var b strings.Builder
	b.WriteString("\n" + v.paint(bold, "Parameters") + "\n")
	for _, m := range members {
		var p struct {
			Type        any    `json:"type"`
			Description string `json:"description"`
			Enum        []any  `json:"enum"`
			Default     any    `json:"default"`
		}
		_ = json.Unmarshal(m.raw, &p) // a boolean schema leaves p empty
		must := "optional"
		if slices.Contains(s.Required, m.name) {
			must = "required"
		}
		kind := "any"
		if p.Type != nil {
			kind = Line(strings.Trim(fmt.Sprint(p.Type), "[]"))
		}
		b.WriteString("  " + v.paint(accent, Line(m.name)) + "  " + v.paint(dim, kind+", "+must))
		if p.Default != nil {
			b.WriteString(v.paint(dim, ", default "+jsonText(p.Default)))
		}
		b.WriteString("\n")
		if p.Description != "" {
			b.WriteString(indent(indent(indent(words(fold(Line(p.Description)), tableWidth-6)))))
		}
		if p.Enum != nil {
			b.WriteString("      one of " + strings.Trim(jsonText(p.Enum), "[]") + "\n")
		}
	}
	return b.String()
}

func jsonText(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return "?"
	}
	return fold(Line(JSON(string(raw))))
}

// Info formats the facts about a daemon.
func (v View) Info(i *tooldv1.GetInfoResponse) string {
	var addresses []string
	for _, a := range i.GetAddresses() {
		text := Line(a.GetNetwork() + " " + a.GetAddress())
		if a.GetTls() {
			text += " (TLS)"
		}
		addresses = append(addresses, text)
	}
	l := i.GetLimits()
	state := "serving"
	if i.GetDraining() {
		state = v.paint(waits, "draining")
	}
	text := "toold " + Line(i.GetVersion()) + "  " + state + "\n" + v.fields(
		"held", v.Held(i),
		"commit", Line(i.GetCommit()),
		"since", v.clock(i.GetStartedAt()),
		"addresses", strings.Join(addresses, "\n"),
		"namespace", Line(i.GetNamespace()),
		"store", Line(i.GetStore()+" "+i.GetStoreId())+fmt.Sprintf(", epoch %d", i.GetEpoch()),
		"features", Line(strings.Join(i.GetFeatures(), " ")),
		"calls", fmt.Sprintf("%s run at once, %s wait", Number(int64(l.GetRunningCalls())), Number(int64(l.GetQueuedCalls()))),
		"shares", shares(l),
		"limits", fmt.Sprintf("arguments %s, result %s, ticket %s, frame %s", Size(l.GetArguments()), Size(l.GetResult()), Size(l.GetTicket()), Size(l.GetFrame())),
		"kept", fmt.Sprintf("ended calls %s, tickets at most %s", Duration(l.GetRetention().AsDuration()), Duration(l.GetSuspension().AsDuration())),
	)
	return text + v.facts(i.GetIsolationFacts())
}

// Held says that calls wait for an operator to release them, and which command does that. It returns "" when there are none.
func (v View) Held(i *tooldv1.GetInfoResponse) string {
	held := "1 call is held"
	switch n := i.GetHeldCalls(); n {
	case 0:
		return ""
	case 1:
	default:
		held = Number(n) + " calls are held"
	}
	return v.paint(waits, held) + ", the store was copied or restored; see " + v.command("release", "--help")
}

// facts formats the isolation facts. If nothing is enforced and all facts have the same reason, one entry covers them all.
func (v View) facts(all []*tooldv1.IsolationFact) string {
	none := len(all) > 1
	names := make([]string, len(all))
	for i, f := range all {
		names[i] = Line(f.GetName())
		if m := f.GetMechanism(); m != "" {
			names[i] += " (" + Line(m) + ")"
		}
		none = none && !f.GetHeld() && f.GetDetail() == all[0].GetDetail()
	}
	if none {
		return v.fields("isolation", v.paint(waits, "none")+" is held"+commaLine(all[0].GetDetail())+"\nof "+strings.Join(names, ", "))
	}
	var text string
	for _, f := range all {
		mark, color := "not held", waits
		if f.GetHeld() {
			mark, color = "held", good
		}
		text += v.paint(dim, "isolation") + " " + Line(f.GetName()) + " " + v.paint(color, mark) + commaLine(f.GetMechanism()) + commaLine(f.GetDetail()) + "\n"
	}
	return text
}

// shares lists the limits per namespace, principal or tool. It returns "" when there are no such limits.
func shares(l *tooldv1.Limits) string {
	var lines []string
	of := func(who string, running, queued, open int32) {
		var parts []string
		if running > 0 {
			parts = append(parts, Number(int64(running))+" run")
		}
		if queued > 0 && queued < l.GetQueuedCalls() {
			parts = append(parts, Number(int64(queued))+" wait")
		}
		if open > 0 {
			parts = append(parts, Number(int64(open))+" questions")
		}
		if len(parts) > 0 {
			lines = append(lines, who+": "+strings.Join(parts, ", "))
		}
	}
	of("namespace", l.GetRunningCallsNamespace(), l.GetQueuedCallsNamespace(), l.GetOpenSuspensionsNamespace())
	of("principal", l.GetRunningCallsPrincipal(), l.GetQueuedCallsPrincipal(), l.GetOpenSuspensionsPrincipal())
	for _, t := range l.GetRunningCallsTools() {
		of("tool "+Line(t.GetTools()), t.GetCalls(), 0, 0)
	}
	if n := l.GetStoredBytesNamespace(); n > 0 {
		lines = append(lines, "namespace: "+Size(n)+" stored")
	}
	for _, o := range []struct {
		of    string
		bytes int64
	}{{"thread", l.GetOutputQuotaThread()}, {"namespace", l.GetOutputQuotaNamespace()}} {
		if o.bytes > 0 {
			lines = append(lines, o.of+": "+Size(o.bytes)+" of output stored")
		}
	}
	if n := l.GetCircuitFailures(); n > 0 {
		lines = append(lines, fmt.Sprintf("source: no calls for %s after %s upstream failures", Duration(l.GetCircuitOpen().AsDuration()), Number(int64(n))))
	}
	return strings.Join(lines, "\n")
}
