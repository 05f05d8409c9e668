package lifecycle_test

import (
	"context"
	"testing"
	"unicode/utf8"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// TestTextsOfToolsAreUTF8 checks that invalid UTF-8 in texts of tools is replaced. Otherwise clients could not read the call, because
// Protobuf rejects such strings.
func TestTextsOfToolsAreUTF8(t *testing.T) {
	const bad = "caf\xe9"
	invalid := made("says", reading, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		if err := c.Progress(tool.ProgressRunning, 0.5, bad); err != nil {
			return nil, err
		}
		r := tool.FailCode(bad, bad)
		r.Message, r.Metadata = bad, map[string]string{bad: bad}
		r.Content = []tool.Content{{Type: tool.ContentText, Text: bad}}
		return r, nil
	})
	asks := made("asks", mutating, func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Suspended(bad), nil })
	inBubble(t, []tool.Tool{invalid, asks}, nil, func(t *testing.T, w *world) {
		s := spec("says", `{}`)
		watcher, err := w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		list, _ := events(t, watcher)
		for _, ev := range list {
			if ev.Progress != nil && !utf8.ValidString(ev.Progress.Message) {
				t.Errorf("progress %q", ev.Progress.Message)
			}
			if ev.Outcome == nil {
				continue
			}
			r := ev.Outcome.Result
			for _, text := range []string{r.Message, r.Error.Message, r.Error.Reason, r.Content[0].Text, r.Metadata["caf\uFFFD"]} {
				if text != "caf\uFFFD" {
					t.Errorf("text %q", text)
				}
			}
		}
		if c := w.do(spec("asks", `{}`)); c.Status != call.Failed || c.Result.Error.Code != tool.Internal {
			t.Errorf("a question that nobody can read: %+v %+v", c, c.Result)
		}
	})
}
