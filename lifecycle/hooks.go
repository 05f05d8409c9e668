package lifecycle

import (
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/tool"
)

// A hookSet is the hooks that a pipeline run takes from its beginning to its end. It is never changed, only replaced.
type hookSet struct {
	hook.Set
	quick  bool // none before the tool may take its time
	scrubs bool // a filter looks at more than events
}

func newHookSet(s hook.Set) (*hookSet, error) {
	if err := checkHooks(&s); err != nil {
		return nil, err
	}
	return &hookSet{
		Set:   s,
		quick: computeOnly(s.Rewrite) && computeOnly(s.Gate) && computeOnly(s.Admit) && computeOnly(s.Before),
		scrubs: slices.ContainsFunc(s.Filter, func(e hook.Entry[hook.Filter]) bool {
			_, scrubs := e.Hook.(hook.Scrubber)
			return scrubs
		}),
	}, nil
}

func computeOnly[T any](entries []hook.Entry[T]) bool {
	return !slices.ContainsFunc(entries, func(e hook.Entry[T]) bool { return e.Deadline != hook.NoDeadline })
}

// SetHooks replaces the hooks. Calls that are on their way keep those that they began with; a call that waits is resumed
// with the new ones.
func (e *Engine) SetHooks(s hook.Set) error {
	hooks, err := newHookSet(s)
	if err == nil {
		e.hooks.Store(hooks)
	}
	return err
}

// broken returns the end of a call when a hook answered what its kind may not: that is no failure that a configuration
// may allow. nil when err is another error.
func broken(name string, err error) *outcome.Terminal {
	if !errors.As(err, new(*hook.ProtocolError)) {
		return nil
	}
	return outcome.Blocked(fmt.Sprintf("the hook %q broke the protocol", name))
}

// failedHook counts and logs the failure of a hook that may hold a call up, and returns what its entry says of failures; nil
// when the call goes on as if the hook had not been asked.
func (p *pipeline) failedHook(kind, name string, mode hook.Failure, err error) *outcome.Terminal {
	p.l.e.stats.hookFailures.Add(1)
	p.l.e.log.Error(kind+" hook failed", zap.String("hook", name), zap.String("call_id", p.l.key.ID), zap.Error(err))
	if out := broken(name, err); out != nil {
		return out
	}
	switch mode {
	case hook.FailAllow:
		return nil
	case hook.FailBlock:
		return outcome.Blocked(fmt.Sprintf("the hook %q failed", name))
	}
	return outcome.HookFailed(name, p.forOperators(err.Error()))
}

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
	handlers := map[string]bool{}
	for _, h := range s.Handler {
		if h.Name == "" || handlers[h.Name] || h.Deadline == hook.NoDeadline {
			return fmt.Errorf("handler %q: names are needed and differ, and each needs a deadline", h.Name)
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

// implementers returns the hooks of all kinds that are a T.
func implementers[T any](s *hook.Set) []T {
	return slices.Concat(hooksOf[T](s.Rewrite), hooksOf[T](s.Gate), hooksOf[T](s.Admit), hooksOf[T](s.Before), hooksOf[T](s.After), hooksOf[T](s.Filter), hooksOf[T](s.Handler), hooksOf[T](s.Notifier))
}

// ofType returns those of the configured keepers that are of a kind.
func ofType[T any](kept []any) (found []T) {
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

// FilterFailed counts and logs the failure of a filter.
func (e *Engine) FilterFailed(hook, callID string, err error) {
	e.stats.hookFailures.Add(1)
	e.log.Error("filter failed", zap.String("filter", hook), zap.String("call_id", callID), zap.Error(err))
}
