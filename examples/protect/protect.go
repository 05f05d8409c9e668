// Package protect is a gate that denies calls on some files and asks before calls change others.
package protect

import (
	"context"
	"path"
	"slices"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// A Gate checks the argument "path" of a call. Its patterns are those of path.Match, applied to the file name and to the whole path. It
// guides well-meaning models. The security boundary is the set of files that the file tools can reach.
type Gate struct {
	Never []string // such as .env: every call is denied
	Ask   []string // such as migrations/*: changes need an approval
}

// New returns the gate in the form that daemon.WithHooks accepts. Records and the setting "hooks" use its name.
func New(g Gate) hook.Set {
	return hook.Set{Gate: []hook.Entry[hook.Gate]{{Name: "protect", Hook: &g}}}
}

// Check implements [hook.Gate]. It has no side effects: toold may ask it twice, and also when no call will run.
func (g *Gate) Check(_ context.Context, in *hook.Input) (hook.Verdict, error) {
	file := path.Clean(in.Arguments.String("path"))
	switch {
	case matches(g.Never, file):
		// Denies only this call: the model reads the reason and the run continues. hook.Block would stop the whole run.
		return hook.Deny(file + " must not be changed"), nil
	case matches(g.Ask, file) && in.Assessment.Mutability != tool.ReadOnly && in.Answer() == nil:
		return hook.Suspend(tool.Ticket{
			Action:    "approval",
			Message:   "May " + in.Descriptor.Name() + " change " + file + "?",
			Approvers: &tool.Approvers{DistinctFromCaller: true},
		}), nil
	}
	// No rule matches, or a person has approved exactly this call. A gate never sees an answer to other arguments.
	return hook.Allow(), nil
}

func matches(patterns []string, file string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		whole, _ := path.Match(p, file)
		name, _ := path.Match(p, path.Base(file))
		return whole || name
	})
}
