package lifecycle

import (
	"fmt"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
)

// checkHooks refuses sets in which an answer could be taken for another hook's.
func checkHooks(s *hook.Set) error {
	names := map[string]bool{call.OriginTool: true}
	for _, g := range s.Gate {
		if g.Name == "" || names[g.Name] {
			return fmt.Errorf("gate name %q: names are needed, differ, and none is %q", g.Name, call.OriginTool)
		}
		names[g.Name] = true
	}
	return nil
}
