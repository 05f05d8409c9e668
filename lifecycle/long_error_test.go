package lifecycle_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/toold-dev/toold/tool"
)

// TestLongErrors checks that the model gets the beginning and the end of a long error, and a handle to read all of it.
func TestLongErrors(t *testing.T) {
	long := "first" + strings.Repeat("\n0123456789", 30<<10) + "last"
	fails := func(r *tool.Result, err error) tool.Tool {
		return made("t", mutating, func(context.Context, *tool.Call) (*tool.Result, error) { return r, err })
	}
	withError := &tool.Result{Status: tool.StatusError, Message: "short", Error: &tool.Error{Code: tool.ExecutionFailed, Message: long}}
	byHand := instead(tool.ResultInstead{Message: long, Error: true})
	for name, tt := range map[string]struct {
		tool   tool.Tool
		answer *tool.Decision
	}{
		"the message of a result": {fails(&tool.Result{Status: tool.StatusError, Message: long}, nil), nil},
		"the error of a result":   {fails(withError, nil), nil},
		"an error":                {fails(nil, errors.New(long)), nil},
		"by the operator instead": {fails(nil, errors.New("ran")), &byHand},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, []tool.Tool{tt.tool}, gates(namedGate("ask", approval(insteadAllowed()))), func(t *testing.T, w *world) {
				answer := yes()
				if tt.answer != nil {
					answer = *tt.answer
				}
				r := w.answer(bob, w.do(spec("t", "")), answer).Result
				text := r.ModelText()
				if len(text) > 64<<10 || !strings.HasPrefix(text, "first") || !strings.HasSuffix(text, "last") || !strings.Contains(text, "artifact://") || !r.Truncated || len(r.Artifacts) != 1 {
					t.Errorf("the model gets %d bytes, artifacts %v", len(text), r.Artifacts)
				}
			})
		})
	}
}
