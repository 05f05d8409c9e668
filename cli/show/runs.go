package show

import (
	"maps"
	"slices"
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Runs formats a list of runs.
func (v View) Runs(runs []*tooldv1.RunSummary) string {
	rows := make([][]cell, 0, len(runs))
	for _, r := range runs {
		color := ""
		switch r.GetState() {
		case tooldv1.RunState_RUN_STATE_WAITING:
			color = waits
		case tooldv1.RunState_RUN_STATE_BLOCKED:
			color = bad
		case tooldv1.RunState_RUN_STATE_ENDED:
			color = dim
		}
		c := r.GetCalls()
		all := c.GetNew() + c.GetRunning() + c.GetSuspended() + c.GetResuming() + c.GetSucceeded() + c.GetFailed() + c.GetCancelled()
		rows = append(rows, []cell{
			{Line(r.GetRunId()), ""}, {name(r.GetState()), color}, {v.age(r.GetLastCallAt()), dim}, {Number(all), dim}, {Line(r.GetThreadId()), ""}, {Line(r.GetAgentId()), bold},
		})
	}
	return v.table([]string{"RUN", "STATE", "LAST CALL", "CALLS", "THREAD", "AGENT"}, idWidth, rows)
}

// Threads formats a list of threads.
func (v View) Threads(threads []*tooldv1.ThreadSummary) string {
	rows := make([][]cell, 0, len(threads))
	for _, t := range threads {
		rows = append(rows, []cell{
			{Line(t.GetThreadId()), ""}, {Number(int64(len(t.GetWaits()))), orNone(len(t.GetWaits()) > 0, waits)}, {v.age(t.GetLastCallAt()), dim}, {Line(t.GetLastRunId()), ""}, {Line(t.GetAgentId()), bold},
		})
	}
	return v.table([]string{"THREAD", "WAITS", "LAST CALL", "LAST RUN", "AGENT"}, idWidth, rows)
}

// Thread formats the state of a thread.
func (v View) Thread(t *tooldv1.ThreadSummary) string {
	return v.paint(bold, Line(t.GetThreadId())) + "\n" + v.fields(
		"last run", Line(t.GetLastRunId()),
		"agent", Line(t.GetAgentId()),
		"caller", forWhom(t.GetCaller(), t.GetOnBehalfOf()),
		"parent", Line(t.GetParentThreadId()),
		"labels", labelsOf(t.GetLabels()),
		"created", orNone(t.GetCreatedAt() != nil, v.clock(t.GetCreatedAt())),
		"last call", orNone(t.GetLastCallAt() != nil, v.clock(t.GetLastCallAt())),
		"mode", Line(t.GetPermissionMode()),
		"namespace", Line(t.GetNamespace()),
	) + v.open(t.GetWaits())
}

// open formats open questions, one in a line.
func (v View) open(questions []*tooldv1.WaitingCall) string {
	var b strings.Builder
	for _, w := range questions {
		b.WriteString(v.paint(waits, "waits") + " " + Line(w.GetSuspensionId()) + "  " + Line(w.GetAction()) + "  " + v.paint(bold, Line(w.GetTool())) + quoted(w.GetTitle()) + "\n")
	}
	return b.String()
}

// children formats the runs that a run started, one in a line.
func (v View) children(children []*tooldv1.ChildRun) string {
	var b strings.Builder
	for _, c := range children {
		b.WriteString("started " + Line(c.GetRunId()) + "  " + v.paint(bold, Line(c.GetAgentId())) + "  by call " + Line(c.GetParentCallId()) + "\n")
	}
	return b.String()
}

// forWhom formats a caller and the subject for whom it acts.
func forWhom(caller, onBehalfOf string) string {
	return Line(caller) + orNone(onBehalfOf != "", " for "+Line(onBehalfOf))
}

func labelsOf(labels map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, Line(key)+"="+Line(labels[key]))
	}
	return strings.Join(all, ", ")
}
