// Package protect is a gate that keeps calls away from some files and asks before others change.
package protect

import (
	"context"
	"path"
	"slices"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// A Gate looks at the argument "path" of a call. Its patterns are those of path.Match on the file's name or on the
// whole path. It is a rule for well-meaning models; the boundary is what the file tools can reach at all.
type Gate struct {
	Never []string // such as .env: no call may touch them
	Ask   []string // such as migrations/*: changes need a person's consent
}

// New returns the gate as daemon.WithHooks takes it, with the name by which records and the setting hooks call it.
func New(g Gate) hook.Set {
	return hook.Set{Gate: []hook.Entry[hook.Gate]{{Name: "protect", Hook: &g}}}
}

// Check implements [hook.Gate]. It is pure: it may be asked twice, and when nothing is going to run.
func (g *Gate) Check(_ context.Context, in *hook.Input) (hook.Verdict, error) {
	file := path.Clean(in.Arguments.String("path"))
	switch {
	case matches(g.Never, file):
		// Only this call is refused: the model reads why and the run continues. hook.Block would stop the whole run.
		return hook.Deny(file + " is off limits"), nil
	case matches(g.Ask, file) && in.Assessment.Mutability != tool.ReadOnly && in.Answer() == nil:
		return hook.Suspend(tool.Ticket{
			Action:    "approval",
			Message:   "May " + in.Descriptor.Name() + " change " + file + "?",
			Approvers: &tool.Approvers{DistinctFromCaller: true},
		}), nil
	}
	// Nothing against it, or a person said yes to exactly this call: an answer to other arguments is not seen here.
	return hook.Allow(), nil
}

func matches(patterns []string, file string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		whole, _ := path.Match(p, file)
		name, _ := path.Match(p, path.Base(file))
		return whole || name
	})
}
