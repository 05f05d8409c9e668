package lifecycle

import (
	"context"

	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/tool"
)

// fullIsolation is the facts that must hold for a tool that requires [tool.IsolationFull]: files, network, processes. The
// network of a tool that requires an open one is not isolated.
var fullIsolation = []string{"fs_read", "fs_write", "net", "processes_killed"}

// isolate ends a call whose tool requires more isolation than there is: nothing ever runs with less.
func (p *pipeline) isolate(context.Context) outcome.Conclusion {
	if p.basis.Isolation != tool.IsolationFull {
		return nil
	}
	isolation := p.l.e.catalog.isolationOf(p.def.Descriptor)
	for _, fact := range fullIsolation {
		if !isolation.Holds(fact) && (fact != "net" || isolation.Network != "open") {
			return outcome.NotIsolated(fact)
		}
	}
	return nil
}
