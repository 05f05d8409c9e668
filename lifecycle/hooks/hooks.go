// Package hooks checks the set of hooks of an engine. It also applies filters to data that is not part of events.
package hooks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/tool"
)

// A Set holds the hooks that a pipeline run uses from beginning to end. It is immutable; a new configuration replaces it.
type Set struct {
	hook.Set
	Quick  bool // all hooks that run before the tool only compute and never wait
	Scrubs bool // at least one filter also checks data that is not part of events
}

// New returns the checked set, or an error that explains why it is invalid.
func New(s hook.Set) (*Set, error) {
	if err := check(&s); err != nil {
		return nil, err
	}
	return &Set{
		Set:   s,
		Quick: computeOnly(s.Rewrite) && computeOnly(s.Gate) && computeOnly(s.Admit) && computeOnly(s.Before),
		Scrubs: slices.ContainsFunc(s.Filter, func(e hook.Entry[hook.Filter]) bool {
			_, scrubs := e.Hook.(hook.Scrubber)
			return scrubs
		}),
	}, nil
}

func computeOnly[T any](entries []hook.Entry[T]) bool {
	return !slices.ContainsFunc(entries, func(e hook.Entry[T]) bool { return e.Deadline != hook.NoDeadline })
}

// Timed calls a hook like [hook.Bounded]. If the hook may wait, Timed adds this execution of the hook to runs. It keeps only the newest
// entries of runs.
func Timed[H, T any](ctx context.Context, runs *[]call.HookRun, kind string, e *hook.Entry[H], fn func(context.Context) (T, error), late func(T)) (T, error) {
	if e.Deadline == hook.NoDeadline {
		return hook.BoundedOr(ctx, e.Deadline, fn, late)
	}
	asked := time.Now()
	v, err := hook.BoundedOr(ctx, e.Deadline, fn, late)
	if len(*runs) >= call.MaxHookRuns {
		*runs = (*runs)[1:]
	}
	*runs = append(slices.Clip(*runs), call.HookRun{Kind: kind, Hook: e.Name, Asked: asked, Took: time.Since(asked), Failed: err != nil})
	return v, err
}

// Broken returns the outcome of a call when err means that a hook returned something that its kind of hook may not return. This ends the
// call even if the configuration tolerates failures of the hook. For any other err, Broken returns nil.
func Broken(name string, err error) *outcome.Terminal {
	if !errors.As(err, new(*hook.ProtocolError)) {
		return nil
	}
	return outcome.Blocked(fmt.Sprintf("the hook %q broke the protocol", name))
}

// check refuses a set in which a gate or handler has no name or the name of another, a gate has a reserved name, or a notifier has an invalid
// name. It also refuses After hooks and handlers without a deadline.
func check(s *hook.Set) error {
	names := map[string]bool{call.OriginTool: true, call.OriginDoubt: true}
	for _, g := range s.Gate {
		if g.Name == "" || names[g.Name] {
			return fmt.Errorf("gate name %q: each gate needs a unique name other than %q and %q", g.Name, call.OriginTool, call.OriginDoubt)
		}
		names[g.Name] = true
	}
	for _, a := range s.After {
		if a.Deadline == hook.NoDeadline {
			return fmt.Errorf("after hook %q: it needs a deadline, so that it cannot delay the end of a call forever", a.Name)
		}
	}
	handlers := map[string]bool{}
	for _, h := range s.Handler {
		if h.Name == "" || handlers[h.Name] || h.Deadline == hook.NoDeadline {
			return fmt.Errorf("handler %q: each handler needs a unique name and a deadline", h.Name)
		}
		handlers[h.Name] = true
	}
	for _, n := range s.Notifier {
		if tool.ValidName(n.Name) != nil {
			return fmt.Errorf("notifier %q: it needs a name of letters and digits", n.Name)
		}
	}
	return nil
}

// Implementers returns the hooks of all kinds that implement T.
func Implementers[T any](s *hook.Set) []T {
	return slices.Concat(hooksOf[T](s.Rewrite), hooksOf[T](s.Gate), hooksOf[T](s.Admit), hooksOf[T](s.Before), hooksOf[T](s.After), hooksOf[T](s.Filter), hooksOf[T](s.Handler), hooksOf[T](s.Notifier))
}

// OfType returns the elements of kept that implement T.
func OfType[T any](kept []any) (found []T) {
	for _, k := range kept {
		if k, ok := k.(T); ok {
			found = append(found, k)
		}
	}
	return found
}

func hooksOf[T, H any](entries []hook.Entry[H]) (found []T) {
	for i := range entries {
		if k, ok := any(entries[i].Hook).(T); ok {
			found = append(found, k)
		}
	}
	return found
}
