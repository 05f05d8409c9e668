package lifecycle

import (
	"context"
	"fmt"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// fullIsolation is the facts that must hold for a tool that requires [tool.IsolationFull]: files, network, processes. The
// network of a tool that requires an open one is not isolated.
var fullIsolation = []string{"fs_read", "fs_write", "net", "processes_killed"}

// isolate ends a call whose tool requires more isolation than there is: nothing ever runs with less.
func (p *pass) isolate(context.Context) *end {
	if p.def.Descriptor.RequiredIsolation != tool.IsolationFull {
		return nil
	}
	isolation := p.l.e.isolationOf(p.def.Descriptor)
	for _, fact := range fullIsolation {
		if !isolation.Holds(fact) && (fact != "net" || isolation.Network != "open") {
			return &end{status: call.Failed, executed: call.NotStarted, after: true, result: failure(&tool.Error{
				Code: tool.Sandbox, Reason: fact, Aborted: true,
				Message: fmt.Sprintf("Not run: the tool requires isolation and this machine does not give %s", fact),
			})}
		}
	}
	return nil
}
