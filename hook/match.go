package hook

import (
	"slices"

	"github.com/toold-dev/toold/tool"
)

// A Match limits a hook to some calls. A call matches when each non-empty list contains the call's value. The zero Match matches every
// call.
type Match struct {
	Tools      []string // globs for tool IDs
	Sources    []string
	Mutability []tool.Mutability
	Safety     []tool.Safety
}

// Holds reports whether m matches the call. Before the call is assessed, Holds uses the effects in the descriptor.
func (m Match) Holds(in *Input) bool {
	e := in.Assessment.Normal()
	return (len(m.Tools) == 0 || tool.AnyGlob(m.Tools, in.Descriptor.ID)) &&
		(len(m.Sources) == 0 || slices.Contains(m.Sources, in.Descriptor.Source)) &&
		(len(m.Mutability) == 0 || slices.Contains(m.Mutability, e.Mutability)) &&
		(len(m.Safety) == 0 || slices.Contains(m.Safety, e.Safety))
}
