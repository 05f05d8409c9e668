package lifecycle

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/hooks"
	"github.com/toold-dev/toold/lifecycle/outcome"
)

// scrubber returns the filters for texts of the call that are not part of its events. When the call ended before it had an input for hooks,
// scrubber first creates that input.
func (p *pipeline) scrubber() *hooks.Scrubber {
	if p.in == nil {
		p.in = newInput(p.l.peek(), p.def)
	}
	return &hooks.Scrubber{Set: p.hooks, In: p.in, Failed: func(name string, err error) { failures{p.l.e}.FilterFailed(name, p.l.key.ID, err) }}
}

// forOperators hides the text of an internal error from callers: it logs the text under an id and returns the id. For a caller with the
// role operator it returns the text itself.
func (p *pipeline) forOperators(text string) string {
	if text == "" || p.l == nil {
		return ""
	}
	if p.hooks.Scrubs {
		text = p.scrubber().Text(text)
	}
	if p.l.peek().Caller.HasRole("operator") {
		return text
	}
	id := newID()
	p.l.e.log.Warn("internal error; its caller got this id", zap.String("id", id), zap.String("call_id", p.l.key.ID), zap.String("error_text", text))
	return "the daemon's log has the cause under the id " + id
}

// SetHooks replaces the hooks. Active pipeline runs keep the old hooks; a suspended call resumes with the new ones.
func (e *Engine) SetHooks(s hook.Set) error {
	set, err := hooks.New(s)
	if err == nil {
		e.hooks.Store(set)
	}
	return err
}

// failedHook counts and logs the failure of a hook, and applies the hook's failure mode. It returns nil when the call continues without the
// hook.
func (p *pipeline) failedHook(kind, name string, mode hook.Failure, err error) *outcome.Terminal {
	p.l.e.stats.hookFailures.Add(1)
	p.l.e.log.Error(kind+" hook failed", zap.String("hook", name), zap.String("call_id", p.l.key.ID), zap.Error(err))
	if out := hooks.Broken(name, err); out != nil {
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

// failures implements [calllog.Failures].
type failures struct{ e *Engine }

// FilterFailed counts and logs the failure of a filter.
func (f failures) FilterFailed(hook, callID string, err error) {
	f.e.stats.hookFailures.Add(1)
	f.e.log.Error("filter failed", zap.String("filter", hook), zap.String("call_id", callID), zap.Error(err))
}
