package lifecycle

import (
	"context"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/decision"
	"github.com/toold-dev/toold/lifecycle/requests"
	"github.com/toold-dev/toold/tool"
)

// A catalog finds the tools of calls that their callers may see.
type catalog struct {
	cfg      *Config
	requests requests.Limits
}

func newCatalog(cfg *Config) catalog {
	t := catalog{cfg: cfg, requests: requests.Limits{MaxArguments: cfg.MaxArguments}}
	if cfg.Frontend != nil {
		t.requests.Frontend = func(f *tool.FrontendTool) error {
			_, err := cfg.Frontend(f)
			return err
		}
	}
	return t
}

// lookup finds the tool of a call. It does not return a tool that is hidden from the caller or that the caller's agent excludes.
func (t *catalog) lookup(c *call.Call) (*Definition, bool) {
	if c.Frontend != nil {
		return t.declared(c)
	}
	def, ok := t.cfg.Tools.Lookup(c.Namespace, c.Tool)
	if !ok || t.cfg.Hide != nil && t.cfg.Hide(c.Caller, def.Descriptor) || !c.Run.Agent.Offers(def.Descriptor) {
		return nil, false
	}
	return def, true
}

func (t *catalog) isolationOf(d *tool.Descriptor) call.Isolation {
	i := call.Isolation{Required: or(d.RequiredIsolation, tool.IsolationNone), Network: or(d.RequiredNetwork, "none")}
	if t.cfg.Isolation != nil {
		i.Facts = t.cfg.Isolation(d)
	}
	return i
}

// toolOf returns the tool of a call for checking answers, or nil when the tool no longer exists.
func (t *catalog) toolOf(c *call.Call) *decision.Tool {
	def, ok := t.lookup(c)
	if !ok {
		return nil
	}
	return &decision.Tool{
		Digest: def.Digest, Descriptor: def.Descriptor, ValidateResult: def.Schema.ValidateResult,
		Validate: func(args tool.Arguments) error {
			return def.validate(context.Background(), args, func(string) string { return "" })
		},
	}
}

// declared returns the frontend tool that the caller of a call declared. A declared tool is offered unless the agent excludes it.
func (t *catalog) declared(c *call.Call) (*Definition, bool) {
	if t.cfg.Frontend == nil {
		return nil, false
	}
	def, err := t.cfg.Frontend(c.Frontend)
	if err != nil || t.cfg.Hide != nil && t.cfg.Hide(c.Caller, def.Descriptor) || c.Run.Agent.Excludes(def.Descriptor) {
		return nil, false
	}
	return def, true
}
