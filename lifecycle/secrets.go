package lifecycle

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// secrets ends a call whose tool requires a secret that it cannot have, before anybody is asked whether it may run. Why it
// cannot is for the operator.
func (p *pass) secrets(context.Context) *end {
	d := p.def.Descriptor
	if p.l.e.cfg.Secret == nil {
		return nil
	}
	for _, name := range d.RequiredSecrets {
		why := p.l.e.cfg.Secret(p.l.key.Namespace, d.ID, name)
		if why == nil {
			continue
		}
		p.l.e.log.Warn("a tool requires a secret that it cannot have", zap.String("call_id", p.l.key.ID), zap.String("tool", d.ID),
			zap.String("namespace", p.l.key.Namespace), zap.String("secret", name), zap.NamedError("why", why))
		return &end{status: call.Failed, executed: call.NotStarted, after: true, result: failure(&tool.Error{
			Code: tool.ExecutionFailed, Reason: "SECRET_UNAVAILABLE", Aborted: true,
			Message: fmt.Sprintf("Not run: secret %s is not available to this tool", name),
		})}
	}
	return nil
}
