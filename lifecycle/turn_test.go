package lifecycle_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/turn"
)

// withNulls removes the nulls of strict mode, like the daemon.
func withNulls(c *lifecycle.Config) {
	c.RemoveNulls = func(parameters json.RawMessage, arguments string) (string, bool) {
		text, changed, err := turn.RemoveNulls(parameters, arguments)
		return text, changed && err == nil
	}
}

// TestStrictTurn checks that the engine removes a null that strict mode added, records this as a rewrite, and keeps a null that the tool's
// schema accepts. A call that was not exported in strict mode keeps its null and fails.
func TestStrictTurn(t *testing.T) {
	parameters := json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"},"after":{"type":["string","null"]}},"required":["path"],"additionalProperties":false}`)
	list := tool.Func(tool.Descriptor{ID: "list", Parameters: parameters, Effects: mutating}, func(context.Context, *tool.Call) (*tool.Result, error) {
		return tool.Text("listed"), nil
	})
	inBubble(t, []tool.Tool{list}, withNulls, func(t *testing.T, w *world) {
		s := spec("list", `{"path":"x","limit":null,"after":null}`)
		s.Turn.Strict = true
		c := w.do(s)
		if c.Status != call.Succeeded || c.Effective != `{"after":null,"path":"x"}` || c.Requested != s.Arguments || len(c.Rewriters) != 1 || c.Rewriters[0] != "strict" {
			t.Errorf("%s with %s of %s by %v: %s", c.Status, c.Effective, c.Requested, c.Rewriters, c.Result.ModelText())
		}
		w.checkLog(c.ID)
		s.ID, s.Turn.Strict = newCallID(), false
		if c := w.do(s); c.Status != call.Failed || c.Result.Error.Code != tool.InvalidArguments {
			t.Errorf("without strict mode it is %s", c.Status)
		}
	})
}

// TestTruncatedTurn checks the last call in a model's response that was cut off. The call does not run, although its arguments parse.
func TestTruncatedTurn(t *testing.T) {
	inBubble(t, []tool.Tool{echo("t", mutating)}, nil, func(t *testing.T, w *world) {
		s := spec("t", `{}`)
		s.Turn.Truncated = true
		c := w.do(s)
		if e := c.Result.Error; c.Status != call.Failed || e == nil || e.Code != tool.InvalidArguments || e.Reason != "TRUNCATED" || c.Executed != call.NotStarted || len(c.Attempts) != 0 {
			t.Errorf("%s, %s: %+v", c.Status, c.Executed, c.Result)
		}
		w.checkLog(c.ID)
	})
}
