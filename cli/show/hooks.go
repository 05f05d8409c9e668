package show

import (
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Hooks lists the external hooks.
func (v View) Hooks(hooks []*tooldv1.HookState) string {
	if len(hooks) == 0 {
		return "there are no external hooks\n"
	}
	rows := make([][]cell, 0, len(hooks))
	for _, h := range hooks {
		state, last := cell{"good", good}, h.GetPlace()
		switch {
		case h.GetFailing():
			state, last = cell{"fails", bad}, h.GetLastError()
		case h.GetAsked() == 0:
			state = cell{"not asked", dim}
		}
		rows = append(rows, []cell{
			{Line(h.GetName()), bold}, {Line(strings.Join(h.GetKinds(), " ")), ""}, state, {Number(h.GetAsked()), ""}, {Number(h.GetFailed()), ""}, {Line(last), dim},
		})
	}
	return v.table([]string{"HOOK", "KINDS", "STATE", "ASKED", "FAILED", "PLACE OR PROBLEM"}, 20, rows)
}
