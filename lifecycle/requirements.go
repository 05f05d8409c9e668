package lifecycle

import (
	"context"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/tool"
)

// isolate returns an outcome if the isolation that the tool requires is not available. A tool never runs with less isolation than it
// requires.
func (p *pipeline) isolate(context.Context) outcome.Conclusion {
	if p.basis.Isolation != tool.IsolationFull {
		return nil
	}
	if fact := p.l.e.catalog.MissingFact(p.def.Descriptor); fact != "" {
		return outcome.NotIsolated(fact)
	}
	return nil
}

// secrets returns an outcome if a secret that the tool requires is not available. This check comes before a person is asked about the call.
// Only the operator can read why the secret is not available.
func (p *pipeline) secrets(context.Context) outcome.Conclusion {
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
		return outcome.NoSecret(name)
	}
	return nil
}
