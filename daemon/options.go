package daemon

import (
	"io"
	"slices"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
)

// An Option adds a part of the embedding program to its daemon.
type Option func(*options)

// options are the parts and properties of a daemon that come from its program and not from its configuration.
type options struct {
	tools  []tool.Tool
	hooks  hook.Set
	ready  func(Ready) // called when the daemon serves; may be nil
	helper string      // path of the helper, as in [sandbox.Config]

	// The fields below are set only when the process belongs to the daemon alone, as with [Main].
	alone   bool
	program string    // program name in commands that users may copy
	out     io.Writer // output for the program that started the daemon
}

func newOptions(helper string, given []Option) options {
	o := options{helper: helper, out: io.Discard}
	for _, option := range given {
		option(&o)
	}
	return o
}

// WithTools adds tools to the built-in ones. The name of their source is "embedded".
func WithTools(tools ...tool.Tool) Option {
	return func(o *options) { o.tools = append(o.tools, tools...) }
}

// WithHooks adds hooks. The fields of each entry say to which calls it applies, how long it may take, and what happens when it fails.
//
// Hooks run in the given order, after the plugins of the daemon. An entry "builtin: NAME" in the setting hooks moves the hook with this
// name to that position in the list. This works in the same way for a plugin of the daemon. A hook must not have the name of such a plugin.
func WithHooks(sets ...hook.Set) Option {
	return func(o *options) {
		for _, s := range sets {
			o.hooks = joined(o.hooks, s)
		}
	}
}

// WithActions adds handlers of actions. A tool or After hook requests an action with the name of the handler's entry.
func WithActions(handlers ...hook.Entry[hook.Handler]) Option {
	return WithHooks(hook.Set{Handler: handlers})
}

// WithHelper sets the path of the program toold-sandbox, which creates isolated processes. Without it, [New] has no helper, and calls of
// tools that need isolation end with SANDBOX. [Main] uses the file toold-sandbox beside the program, or else the program itself.
func WithHelper(path string) Option {
	if path == "" {
		path = sandbox.NoHelper
	}
	return func(o *options) { o.helper = path }
}

// WithReady sets a function that the daemon calls once, when it serves. The function must return soon, because the daemon waits for it.
func WithReady(f func(Ready)) Option { return func(o *options) { o.ready = f } }

// joined returns the hooks of both sets: first the hooks of a, then the hooks of b. It does not use reflect.AppendSlice, because escape
// analysis of Go 1.26 then does not see that the daemon keeps the hooks. A hook made in main stayed on the stack of main and was
// overwritten.
func joined(a, b hook.Set) hook.Set {
	return hook.Set{
		Rewrite: slices.Concat(a.Rewrite, b.Rewrite), Gate: slices.Concat(a.Gate, b.Gate), Admit: slices.Concat(a.Admit, b.Admit),
		Before: slices.Concat(a.Before, b.Before), After: slices.Concat(a.After, b.After), Filter: slices.Concat(a.Filter, b.Filter),
		Handler: slices.Concat(a.Handler, b.Handler), Notifier: slices.Concat(a.Notifier, b.Notifier),
	}
}
