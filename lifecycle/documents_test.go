package lifecycle_test

import (
	"context"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// A delete of what is not there changes nothing, so nothing is told of it, and the log has no hole.
func TestDeleteOfNothingIsNotTold(t *testing.T) {
	a, b, c := tool.Key[string]{Scope: tool.RunScope, Name: "a"}, tool.Key[string]{Scope: tool.RunScope, Name: "b"}, tool.Key[string]{Scope: tool.RunScope, Name: "c"}
	tidy := made("tidy", mutating, func(context.Context, *tool.Call) (*tool.Result, error) {
		return tool.Text("done").With(a.Delete(), b.Set("x"), c.Delete(), c.SetAt("y", 7)), nil
	})
	inBubble(t, []tool.Tool{tidy}, nil, func(t *testing.T, w *world) {
		id := w.do(spec("tidy", "")).ID
		list := w.checkLog(id)
		if got := types(t, 1, list); got != "accepted attempt_started document_changed state_conflict finished" {
			t.Errorf("log: %s", got)
		}
		for _, ev := range list {
			if ev.Type == call.EventDocumentChanged && (ev.Document.Key != "b" || ev.Document.Revision != 1) {
				t.Errorf("told %+v", ev.Document)
			}
		}
		if c := w.get(id); c.LastSequence != 5 {
			t.Errorf("record ends at %d", c.LastSequence)
		}
	})
}
