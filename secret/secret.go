// Package secret resolves references to secrets for uses that are entitled to them.
//
// A [Secret] has a name and a source: a file, an environment variable, or the output of a program. An operator refers to it as
// secret://name in manifests and configuration. Only text of the operator can contain references: in text of a model or in the value of a
// secret, secret://name is ordinary text.
//
// A [Resolver] returns a value only to a [Use] that an [Allow] of the secret matches. The filter that redacts secrets gets each value
// before any use gets it.
package secret

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Limits of a value in bytes. A shorter value is refused, because ordinary output could contain the same text.
const (
	MinValue = 8
	MaxValue = 16 << 10
)

// Defaults and limits of commands.
const (
	DefaultTimeout = 10 * time.Second
	DefaultCache   = 5 * time.Minute
	// failed is the time after a failure before the command may be started again.
	failed = time.Second
)

// Secret is a name, the source of its value, and the uses that may get it. Exactly one of File, Env and Command must be set.
type Secret struct {
	Name      string
	File      string        // absolute path of a file that only its owner can read; the value is its text without the final line end
	Env       string        // environment variable of this process
	Command   []string      // absolute path of a program, and arguments; the value is its output without the final line end
	Variables []string      // environment of Command as NAME=value, in addition to PATH and LANG
	Timeout   time.Duration // time limit of Command; 0 means 10 s
	Cache     time.Duration // how long the output of Command is valid; 0 means 5 min
	Allow     []Allow       // empty means that no use gets the value
}

// An Allow entitles a use when each of its lists matches the use.
type Allow struct {
	Namespaces []string // globs; empty means every namespace
	Tools      []string // globs; at least one
	Parameters []string // globs; empty means all parameters of the tool
}

// A Use is the purpose for which a value is requested.
type Use struct {
	Namespace string // [Everywhere] means a use that serves all namespaces
	Tool      string // tool ID, or the name of another part of the daemon: mcp:<server>, notify:<target>
	Parameter string // parameter of the tool, such as env.NAME
}

// Everywhere is the namespace of a use that serves all namespaces. Only an [Allow] for all namespaces entitles it.
const Everywhere = "*"

// A Config configures a Resolver.
type Config struct {
	Secrets []Secret
	Lookup  func(variable string) (string, bool) // reads the environment; required
	Start   Starter                              // starts commands; required when a secret has one
	// Redact is called with each new value, before any use gets it. When Redact returns an error, no use gets the value. Required.
	Redact func(name, value string) error
	// Refused is called with the full reason when a use gets no value. It may be called concurrently. Nil means no call.
	Refused func(use Use, name string, why error)
}

// A Resolver resolves secrets. Its methods may be called concurrently.
type Resolver struct {
	cfg Config
	now atomic.Pointer[map[string]*source]
}

// ErrUnknown means that no secret has this name.
var ErrUnknown = errors.New("no such secret is configured")

// A NotAvailableError means that a use gets no value. It does not contain the reason, because the reason is for the operator only.
type NotAvailableError struct{ Name string }

func (e *NotAvailableError) Error() string {
	return fmt.Sprintf("secret %s is not available to this tool", e.Name)
}

// New returns a Resolver. It reads no value.
func New(cfg Config) (*Resolver, error) {
	if cfg.Lookup == nil || cfg.Redact == nil {
		return nil, errors.New("secrets: the environment and the receiver of values are required")
	}
	r := &Resolver{cfg: cfg}
	return r, r.Swap(cfg.Secrets)
}

// Swap replaces all secrets. Values are read again at their next use.
func (r *Resolver) Swap(secrets []Secret) error {
	if err := Check(secrets); err != nil {
		return err
	}
	next := map[string]*source{}
	for _, s := range secrets {
		if len(s.Command) > 0 && r.cfg.Start == nil {
			return fmt.Errorf("%s: secrets from commands are not available", s.Name)
		}
		next[s.Name] = newSource(s)
	}
	r.now.Store(&next)
	return nil
}

// Resolve returns the value of a secret for an entitled use. The error is a [NotAvailableError] or the error of ctx. Only the operator gets
// the reasons, and no error contains a value.
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

// Expand replaces the references in an operator's text by their values. It does not expand references inside of values.
func (r *Resolver) Expand(ctx context.Context, namespace, tool, parameter, text string) (string, error) {
	return expand(text, func(name string) (string, error) { return r.Resolve(ctx, namespace, tool, parameter, name) })
}

// Available returns nil when a tool is entitled to a secret for some parameter. Otherwise the error contains the reason, for the operator.
// It reads no value.
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
