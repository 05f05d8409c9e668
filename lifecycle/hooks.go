package lifecycle

import (
	"fmt"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
)

// checkHooks refuses sets in which an answer could be taken for another hook's, or a hook could hold up the end of a call.
func checkHooks(s *hook.Set) error {
	names := map[string]bool{call.OriginTool: true, call.OriginDoubt: true}
	for _, g := range s.Gate {
		if g.Name == "" || names[g.Name] {
			return fmt.Errorf("gate name %q: names are needed, differ, and none is %q or %q", g.Name, call.OriginTool, call.OriginDoubt)
		}
		names[g.Name] = true
	}
	for _, a := range s.After {
		if a.Deadline == hook.NoDeadline {
			return fmt.Errorf("after hook %q: it needs a deadline; the end of a call must not depend on it", a.Name)
		}
	}
	return nil
}
