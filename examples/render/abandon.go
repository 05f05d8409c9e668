package render

import (
	"context"

	"github.com/toold-dev/toold/tool"
)

// Abandon implements [tool.Abandoner]: nobody waits for the job any more.
func (t *Render) Abandon(ctx context.Context, call *tool.Call) {
	if call.Operation != nil {
		t.Farm.Cancel(ctx, call.Operation.ID)
	}
}
