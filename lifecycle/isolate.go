package lifecycle

import (
	"context"

	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/tool"
)

// fullIsolation lists the facts that must hold for [tool.IsolationFull]. For a tool that requires an open network, the fact "net" need not
// hold.
var fullIsolation = []string{"fs_read", "fs_write", "net", "processes_killed"}

// isolate returns an outcome if the isolation that the tool requires is not available. A tool never runs with less isolation than it
// requires.
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
