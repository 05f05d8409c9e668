package lifecycle

import (
	"strings"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// The bounds of what a run declares.
const (
	maxDeclared      = 64
	maxDeclaredBytes = 256 << 10
)

// checkDeclared refuses declarations that are too many, too large or named like a tool of the daemon. The one that is
// called must make a tool; the others are somebody else's matter until they are.
func (t *catalog) checkDeclared(spec *call.Spec) error {
	if len(spec.Frontend) == 0 {
		return nil
	}
	if t.cfg.Frontend == nil {
		return call.InvalidField("run.frontend_tools", "this daemon has no frontend tools")
	}
	if n := len(spec.Frontend); n > maxDeclared {
		return call.InvalidField("run.frontend_tools", "has %d entries; at most %d are accepted", n, maxDeclared)
	}
	size, seen := 0, map[string]bool{}
	for i := range spec.Frontend {
		f := &spec.Frontend[i]
		size += len(f.Name) + len(f.Description) + len(f.Parameters) + len(f.ResponseSchema)
		switch {
		case tool.ValidName(f.Name) != nil:
			return call.InvalidField("run.frontend_tools", "%q is not a name: want 1 to 64 of a-z, A-Z, 0-9, _ and -", clip(f.Name))
		case !strings.HasPrefix(f.Name, tool.FrontendPrefix):
			return call.InvalidField("run.frontend_tools", "%q does not begin with %q: a frontend tool never stands for a tool of the daemon", f.Name, tool.FrontendPrefix)
		case seen[f.Name]:
			return call.InvalidField("run.frontend_tools", "%q is there twice", f.Name)
		}
		seen[f.Name] = true
	}
	if size > maxDeclaredBytes {
		return call.InvalidField("run.frontend_tools", "have %d bytes; at most %d are accepted", size, maxDeclaredBytes)
	}
	if f := spec.Declared(); f != nil {
		if _, err := t.cfg.Frontend(f); err != nil {
			return call.InvalidField("run.frontend_tools", "%s: %v", f.Name, err)
		}
	}
	return nil
}

func clip(s string) string { return s[:min(len(s), 80)] }

// declared makes the tool of a call that its caller declared. To declare it is to offer it, unless the agent leaves it out.
func (t *catalog) declared(c *call.Call) (*Definition, bool) {
	if t.cfg.Frontend == nil {
		return nil, false
	}
	def, err := t.cfg.Frontend(c.Frontend)
	if err != nil || t.cfg.Hide != nil && t.cfg.Hide(c.Caller, def.Descriptor) || c.Run.Agent.Excludes(def.Descriptor) {
		return nil, false
	}
	return def, true
}
