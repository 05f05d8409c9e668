package daemon

import (
	"io"
	"slices"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
)

// An Option adds a part of the program to its daemon.
type Option func(*options)

// options are the parts and properties of a daemon that its program decides, not its configuration.
type options struct {
	tools  []tool.Tool
	hooks  hook.Set
	ready  func(Ready) // nil: nobody waits
	helper string      // as [sandbox.Config] has it

	// The rest is for a process that is the daemon's alone, as that of [Main] is.
	alone   bool
	program string    // how commands begin that people may copy
	out     io.Writer // for the program that started the daemon
}

func newOptions(helper string, given []Option) options {
	o := options{helper: helper, out: io.Discard}
	for _, option := range given {
		option(&o)
	}
	return o
}

// WithTools adds tools beside the built-in ones. Their source is "embedded".
func WithTools(tools ...tool.Tool) Option {
	return func(o *options) { o.tools = append(o.tools, tools...) }
}

// WithHooks adds hooks. Each entry says by its fields to which calls it applies, how long it may take and what its failure means.
//
// Hooks run in the order in which they are given, after the plugins of the daemon. An entry "builtin: NAME" in the setting hooks moves
// the hook of this name to its place in that list, as it moves a plugin of the daemon. A name must not be that of such a plugin.
func WithHooks(sets ...hook.Set) Option {
	return func(o *options) {
		for _, s := range sets {
			o.hooks = joined(o.hooks, s)
		}
	}
}

// WithActions adds handlers of actions, which tools and After hooks ask for by the name of the entry.
func WithActions(handlers ...hook.Entry[hook.Handler]) Option {
	return WithHooks(hook.Set{Handler: handlers})
}

// WithHelper gives the path of the program toold-sandbox, which makes isolated processes. Without it, [New] has no helper, and calls
// of tools that need isolation end with SANDBOX; [Main] takes the file toold-sandbox beside the program, else the program itself.
func WithHelper(path string) Option {
	if path == "" {
		path = sandbox.NoHelper
	}
	return func(o *options) { o.helper = path }
}

// WithReady has f called once, when the daemon serves. It returns soon: the daemon waits for it.
func WithReady(f func(Ready)) Option { return func(o *options) { o.ready = f } }

// joined returns the hooks of both sets, those of the first one first.
func joined(a, b hook.Set) hook.Set {
	return hook.Set{
		Rewrite: slices.Concat(a.Rewrite, b.Rewrite), Gate: slices.Concat(a.Gate, b.Gate), Admit: slices.Concat(a.Admit, b.Admit),
		Before: slices.Concat(a.Before, b.Before), After: slices.Concat(a.After, b.After), Filter: slices.Concat(a.Filter, b.Filter),
		Handler: slices.Concat(a.Handler, b.Handler), Notifier: slices.Concat(a.Notifier, b.Notifier),
	}
}
