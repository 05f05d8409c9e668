package lifecycle_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/memory"
	"github.com/toold-dev/toold/tool"
)

// halves sets a Compact function that keeps the first half of each message of the tool "says".
func halves(c *lifecycle.Config) {
	c.OutputBudget = 2000
	c.Compact = func(id, message string) (string, string, bool) {
		if id != "says" || message == "" {
			return "", "", false
		}
		return message[:len(message)/2], fmt.Sprintf("%d bytes halved", len(message)), true
	}
}

// talks returns a tool that returns its argument as the message of a success or of an error.
func talks(id string) tool.Tool {
	return made(id, reading, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		text := strings.Repeat("abcdefghij", len(c.Arguments.String("n")))
		if c.Arguments.String("fail") != "" {
			r := tool.Fail("%s", text)
			r.Message = text
			return r, nil
		}
		return tool.SuccessMessage(map[string]string{"k": text}, "%s", text), nil
	})
}

func TestCompactKeepsTheWhole(t *testing.T) {
	inBubble(t, []tool.Tool{talks("says"), talks("other")}, halves, func(t *testing.T, w *world) {
		raw := strings.Repeat("abcdefghij", 20)
		args := `{"n":"` + strings.Repeat("n", 20) + `"}`
		c := w.do(spec("says", args))
		want := raw[:100] + "\n[Compacted: 200 bytes halved; the original text is " + tool.ArtifactHandle(c.ID, "result.message") + "]"
		if r := c.Result; r.Message != want || r.Data != `{"k":"`+raw+`"}` || !r.Truncated || len(r.Artifacts) != 1 {
			t.Errorf("result %+v, want the message %q", r, want)
		}
		part, err := w.e.Artifacts().ReadArtifact(t.Context(), alice, c.ID, "result.message", 0, 1000)
		if err != nil || string(part.Bytes) != raw {
			t.Errorf("the artifact has %q, %v", part.Bytes, err)
		}
		if c = w.do(spec("other", args)); c.Result.Message != raw || len(c.Result.Artifacts) != 0 {
			t.Errorf("a tool that is not meant: %+v", c.Result)
		}

		c = w.do(spec("says", `{"n":"`+strings.Repeat("n", 500)+`"}`)) // Even half of this message exceeds the budget.
		r := c.Result
		handle := tool.ArtifactHandle(c.ID, "result.message")
		if len(r.Message) > 1500 || strings.Count(r.Message, handle) != 2 || !strings.HasSuffix(r.Message, handle+"]") || len(r.Artifacts) != 2 {
			t.Errorf("compact and cut: %+v", r)
		}
		if part, err = w.e.Artifacts().ReadArtifact(t.Context(), alice, c.ID, "result.message", 0, 10); err != nil || part.Size != 5000 {
			t.Errorf("the artifact has %d bytes, %v, want 5000", part.Size, err)
		}
	})
}

// TestCompactLeavesAlone checks what is not compacted: errors, and messages whose original cannot be stored.
func TestCompactLeavesAlone(t *testing.T) {
	limits := func(c *lifecycle.Config) {
		halves(c)
		c.Store = memory.New(memory.Config{Output: store.OutputLimits{Namespace: 100}})
	}
	inBubble(t, []tool.Tool{talks("says")}, limits, func(t *testing.T, w *world) {
		raw := strings.Repeat("abcdefghij", 20)
		c := w.do(spec("says", `{"fail":"x","n":"`+strings.Repeat("n", 20)+`"}`))
		if c.Result.Error == nil || c.Result.Error.Message != raw || c.Result.Message != raw || c.Result.Truncated {
			t.Errorf("an error became %s %+v", c.Status, c.Result)
		}
		c = w.do(spec("says", `{"n":"`+strings.Repeat("n", 20)+`"}`))
		if !strings.HasPrefix(c.Result.Message, raw+"\n[Output was cut") || len(c.Result.Artifacts) != 0 {
			t.Errorf("without room: %+v", c.Result)
		}
	})
}
