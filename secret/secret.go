// Package secret turns references to secrets into their values, for those that are entitled to them.
//
// A [Secret] has a name and a place that its value is read from: a file, a variable of the environment, what a program
// prints. An operator refers to it as secret://name. A reference counts where an operator wrote it, in manifests and
// configuration; one that a model writes, or that is part of a value, is text and stays text.
//
// A [Resolver] gives a value to a [Use] that an [Allow] of the secret names, and to nothing else. The filter that
// redacts secrets gets a value before any use does.
package secret

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// The bounds of a value. A shorter one looks like ordinary text in output.
const (
	MinValue = 8
	MaxValue = 16 << 10
)

// Defaults and bounds of commands.
const (
	DefaultTimeout = 10 * time.Second
	DefaultCache   = 5 * time.Minute
	// failed is for how long a command that failed is not started again.
	failed = time.Second
)

// A Secret is a name, where its value is, and the uses that get it. Exactly one of File, Env and Command is set.
type Secret struct {
	Name      string
	File      string        // absolute path of a file that its owner alone can read; its text without the line end behind it
	Env       string        // a variable of this process
	Command   []string      // absolute path of a program, and arguments; what it prints without the line end behind it
	Variables []string      // NAME=value, of Command beside PATH and LANG
	Timeout   time.Duration // of Command; 0: 10 s
	Cache     time.Duration // for which what Command printed counts; 0: 5 min
	Allow     []Allow       // none: nobody gets it
}

// An Allow entitles the uses that all of its lists match.
type Allow struct {
	Namespaces []string // globs; none: every namespace
	Tools      []string // globs; at least one
	Parameters []string // globs; none: all that the tool has
}

// A Use is what a value is wanted for.
type Use struct {
	Namespace string // [Everywhere] for what serves all of them
	Tool      string // its id, or the name of another part: mcp:<server>, notify:<target>
	Parameter string // what of the tool, as env.NAME
}

// Everywhere is the namespace of what serves every one. Only an [Allow] that is limited to none entitles it.
const Everywhere = "*"

// A Config says what a Resolver needs.
type Config struct {
	Secrets []Secret
	Lookup  func(variable string) (string, bool) // the environment; required
	Start   Starter                              // starts commands; required when there are any
	// Known is called with each new value, before a use gets it. After an error no use gets it. Required.
	Known func(name, value string) error
	// Refused is called with the full reason why a use got nothing; may be nil. It is called from many goroutines.
	Refused func(use Use, name string, why error)
}

// A Resolver knows secrets. Its methods may be called from many goroutines.
type Resolver struct {
	cfg Config
	now atomic.Pointer[map[string]*source]
}

// ErrUnknown means that no secret has this name.
var ErrUnknown = errors.New("no such secret is configured")

// A NotAvailableError says to the use that it gets nothing, and not why.
type NotAvailableError struct{ Name string }

func (e *NotAvailableError) Error() string {
	return fmt.Sprintf("secret %s is not available to this tool", e.Name)
}

// New returns a Resolver. It reads no value.
func New(cfg Config) (*Resolver, error) {
	if cfg.Lookup == nil || cfg.Known == nil {
		return nil, errors.New("secrets need an environment, and who is told of values")
	}
	r := &Resolver{cfg: cfg}
	return r, r.Swap(cfg.Secrets)
}

// Swap puts other secrets in the place of all. What was read is read again at its next use.
func (r *Resolver) Swap(secrets []Secret) error {
	if err := Check(secrets); err != nil {
		return err
	}
	next := map[string]*source{}
	for _, s := range secrets {
		if len(s.Command) > 0 && r.cfg.Start == nil {
			return fmt.Errorf("%s: nothing here starts commands", s.Name)
		}
		next[s.Name] = newSource(s)
	}
	r.now.Store(&next)
	return nil
}

// Resolve returns the value of a secret for a use that is entitled to it. The error is a [NotAvailableError], or that of
// ctx: the reasons are for the operator alone, and in no case a value.
func (r *Resolver) Resolve(ctx context.Context, namespace, tool, parameter, name string) (string, error) {
	use := Use{namespace, tool, parameter}
	value, err := r.resolve(ctx, use, name)
	if err == nil {
		return value, nil
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if r.cfg.Refused != nil {
		r.cfg.Refused(use, name, err)
	}
	return "", &NotAvailableError{name}
}

func (r *Resolver) resolve(ctx context.Context, use Use, name string) (string, error) {
	s := (*r.now.Load())[name]
	switch {
	case s == nil:
		return "", ErrUnknown
	case !s.entitles(use):
		return "", fmt.Errorf("no allow entry of the secret entitles tool %q, parameter %q in namespace %q", use.Tool, use.Parameter, use.Namespace)
	}
	return s.get(ctx, &r.cfg)
}

// Expand returns a text of an operator's with the values of its references in their places. Values are not looked at for
// further references.
func (r *Resolver) Expand(ctx context.Context, namespace, tool, parameter, text string) (string, error) {
	return expand(text, func(name string) (string, error) { return r.Resolve(ctx, namespace, tool, parameter, name) })
}

// Available reports whether a tool is entitled to a secret for some parameter. It reads no value, and an error says why it
// is not, to the operator.
func (r *Resolver) Available(namespace, tool, name string) error {
	s := (*r.now.Load())[name]
	switch {
	case s == nil:
		return ErrUnknown
	case !s.entitlesTool(namespace, tool):
		return fmt.Errorf("no allow entry of the secret entitles tool %q in namespace %q", tool, namespace)
	}
	return nil
}
