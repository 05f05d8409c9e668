package show

import (
	"encoding/json"
	"fmt"
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Problems lists what is wrong and what to do.
func (v View) Problems(got *tooldv1.ListProblemsResponse) string {
	if len(got.GetProblems()) == 0 {
		return v.paint(good, "nothing is wrong") + "\n"
	}
	var b strings.Builder
	for i, p := range got.GetProblems() {
		if i > 0 {
			b.WriteByte('\n')
		}
		color := waits
		if p.GetSeverity() == tooldv1.ProblemSeverity_PROBLEM_SEVERITY_ERROR {
			color = bad
		}
		head := v.paint(color, Line(p.GetCode()))
		if s := p.GetSubject(); s != "" {
			head += "  " + v.paint(bold, Line(s))
		}
		if p.GetSince() != nil {
			head += "  " + v.paint(dim, "since "+v.clock(p.GetSince()))
		}
		b.WriteString(head + "\n" + indent(words(Line(p.GetText()), tableWidth-2)))
		b.WriteString(indent(v.fields("detail", Line(p.GetDetail()), "do", Line(p.GetRemedy()), "command", Line(p.GetCommand()))))
	}
	if n := got.GetLeftOut(); n > 0 {
		fmt.Fprintf(&b, "\n%d more problems of these kinds\n", n)
	}
	return b.String()
}

// Workers lists connected workers.
func (v View) Workers(workers []*tooldv1.Worker) string {
	if len(workers) == 0 {
		return "no worker is connected\n"
	}
	rows := make([][]cell, 0, len(workers))
	for _, w := range workers {
		state := cell{"ready", good}
		if w.GetDraining() {
			state = cell{"draining", waits}
		}
		rows = append(rows, []cell{
			{Line(w.GetSource()), bold}, {Line(w.GetName()), ""}, state, {fmt.Sprintf("%d of %d", w.GetRunning(), w.GetMaxCalls()), ""}, {v.age(w.GetConnectedAt()), dim}, {v.age(w.GetHeardAt()), dim},
			{Line(w.GetPrincipal()), ""}, {Line(strings.Join(w.GetTools(), " ")), dim},
		})
	}
	return v.table([]string{"POOL", "WORKER", "STATE", "RUNS", "SINCE", "HEARD", "BY", "TOOLS"}, 20, rows)
}

// Load lists samples of the load.
func (v View) Load(samples []*tooldv1.LoadSample) string {
	if len(samples) == 0 {
		return "there is no sample yet; the daemon takes one every 10 s\n"
	}
	unknown := func(n int64, text string) cell {
		if n < 0 {
			return cell{"?", dim}
		}
		return cell{text, ""}
	}
	rows := make([][]cell, 0, len(samples))
	for _, s := range samples {
		rows = append(rows, []cell{
			{s.GetTime().AsTime().UTC().Format("15:04:05"), dim}, {Number(int64(s.GetRunning())), ""}, {Number(int64(s.GetQueued())), ""}, unknown(s.GetSuspended(), Number(s.GetSuspended())),
			{fmt.Sprintf("%.1f", s.GetEndedPerSecond()), ""}, {fmt.Sprintf("%.1f", s.GetFailedPerSecond()), ""}, {Size(s.GetMemory()), ""}, {fmt.Sprintf("%.2f", s.GetCpu()), ""}, unknown(s.GetDiskFree(), Size(s.GetDiskFree())),
		})
	}
	return v.table([]string{"UTC", "RUN", "QUEUED", "WAIT", "ENDED/S", "FAILED/S", "MEMORY", "CPU", "DISK FREE"}, 8, rows)
}

// Audit lists audit records.
func (v View) Audit(records []*tooldv1.AuditRecord) string {
	if len(records) == 0 {
		return "no audit record matches\n"
	}
	rows := make([][]cell, 0, len(records))
	for _, r := range records {
		what, who := auditText(r.GetRecord())
		rows = append(rows, []cell{
			{r.GetTime().AsTime().UTC().Format("2006-01-02 15:04:05"), dim}, {fmt.Sprint(r.GetPosition()), dim}, {Line(what), ""}, {Line(who), ""}, {Line(r.GetKey()), dim},
		})
	}
	return v.table([]string{"UTC", "RECORD", "WHAT", "WHO", "OF"}, 19, rows)
}

// auditText returns what a record says, and the subject that acted. For an event that it does not know, the text is only the name of the
// event.
func auditText(record []byte) (what, who string) {
	var e struct {
		Event, Tool, Verdict, Gate, Action, Status, Error, Operation, Cause string

		By, Caller struct{ Subject string }
		Attempt    int
	}
	if json.Unmarshal(record, &e) != nil {
		return "cannot be read", ""
	}
	parts := []string{e.Event}
	for _, p := range []string{e.Operation, e.Tool, e.Gate, e.Verdict, e.Action, e.Status, e.Cause, e.Error} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if e.Attempt > 1 {
		parts = append(parts, fmt.Sprint(e.Attempt))
	}
	return strings.Join(parts, " "), e.By.Subject + e.Caller.Subject
}

// Checkpoints lists signed ends of the audit chain.
func (v View) Checkpoints(all []*tooldv1.AuditCheckpoint) string {
	if len(all) == 0 {
		return "there is no checkpoint\n"
	}
	rows := make([][]cell, 0, len(all))
	for _, c := range all {
		rows = append(rows, []cell{{v.clock(c.GetTime()), ""}, {fmt.Sprint(c.GetPosition()), ""}, {fmt.Sprintf("%x", c.GetLink()), dim}})
	}
	return v.table([]string{"SIGNED", "RECORD", "LINK"}, 36, rows)
}

// Verified shows the result of verifying an audit chain.
func (v View) Verified(r *tooldv1.VerifyAuditResponse) string {
	text := v.paint(good, "the chain is unchanged")
	if len(r.GetFindings()) > 0 {
		text = v.paint(bad, "the chain was changed")
	}
	text += fmt.Sprintf(": %s records, %d checkpoints compared\n", Number(r.GetRecords()), r.GetCheckpoints())
	if r.GetRecords() > 0 {
		text += v.fields("from", v.clock(r.GetFrom()), "to", v.clock(r.GetTo()))
	}
	if r.GetNewest() != nil {
		text += v.fields("signed", v.clock(r.GetNewest().GetTime()))
	}
	if r.GetTrimmed() {
		text += "older records were removed by retention\n"
	}
	for _, f := range r.GetFindings() {
		text += v.paint(bad, Line(f.GetKind())) + "  " + Line(f.GetText()) + "\n"
	}
	return text
}
