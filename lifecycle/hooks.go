package lifecycle

import (
	"fmt"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
)

// checkHooks refuses sets in which an answer could be taken for another hook's.
func checkHooks(s *hook.Set) error {
	names := map[string]bool{call.OriginTool: true, call.OriginDoubt: true}
	for _, g := range s.Gate {
		if g.Name == "" || names[g.Name] {
			return fmt.Errorf("gate name %q: names are needed, differ, and none is %q or %q", g.Name, call.OriginTool, call.OriginDoubt)
		}
		names[g.Name] = true
	}
	return nil
}
