package render

import (
	"context"

	"github.com/toold-dev/toold/tool"
)

// Abandon implements [tool.Abandoner]. toold calls it when no call needs the job any more.
func (t *Render) Abandon(ctx context.Context, call *tool.Call) {
	if call.Operation != nil {
		t.Farm.Cancel(ctx, call.Operation.ID)
	}
}
