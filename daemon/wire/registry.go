package wire

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/server/service"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/frontend"
	"github.com/toold-dev/toold/tools/search"
)

// Definitions gives the engine access to the tools of a registry.
func Definitions(r *registry.Registry) lifecycle.Tools { return definitions{r} }

type definitions struct{ *registry.Registry }

func (d definitions) Lookup(namespace, id string) (*lifecycle.Definition, bool) {
	e, ok := d.View(registry.Offer{Namespace: namespace}).Lookup(id)
	if !ok {
		return nil, false
	}
	return &lifecycle.Definition{Tool: Of(e.Tool, namespace), Descriptor: &e.Descriptor, Digest: e.Digest, Schema: e}, true
}

// Frontend returns the definition of a frontend tool that a caller declares.
func Frontend(r *registry.Registry) func(*tool.FrontendTool) (*lifecycle.Definition, error) {
	return func(f *tool.FrontendTool) (*lifecycle.Definition, error) {
		e, err := r.Declared(frontend.Source, frontend.New(f))
		if err != nil {
			return nil, err
		}
		return &lifecycle.Definition{Tool: e.Tool, Descriptor: &e.Descriptor, Digest: e.Digest, Schema: e}, nil
	}
}

// Absent returns a function that explains why a registered tool cannot be found. It explains nothing about a tool that is hidden from the
// principal.
func Absent(r *registry.Registry, hide Hide) func(tool.Principal, string) string {
	return func(p tool.Principal, name string) string {
		return r.WhyAbsent(p.Namespace, name, func(d *tool.Descriptor) bool { return hide != nil && hide(p, d) })
	}
}

// Accept trusts a definition that waits in quarantine. by is the subject of the operator.
func Accept(r *registry.Registry, q *tool.QuarantinedTool, by string) (*tool.Definition, error) {
	e, err := r.Accept(q.Source, q.Waiting.Descriptor.ID, q.Waiting.Digest, by)
	if err != nil {
		return nil, notWaiting(q, err)
	}
	return &e.Definition, nil
}

// Refuse records that a definition in quarantine must not be trusted. by is the subject of the operator.
func Refuse(r *registry.Registry, q *tool.QuarantinedTool, by string) error {
	return notWaiting(q, r.Refuse(q.Source, q.Waiting.Descriptor.ID, q.Waiting.Digest, by))
}

func notWaiting(q *tool.QuarantinedTool, err error) error {
	var other *registry.DigestError
	switch {
	case errors.Is(err, registry.ErrNotQuarantined):
		return call.Refuse(call.NotFound, "TOOL_NOT_QUARANTINED", "no definition of %q is in quarantine", q.Waiting.Descriptor.ID)
	case errors.As(err, &other):
		return call.Refuse(call.FailedPrecondition, "DIGEST_MISMATCH", "%v; read it again", other)
	}
	return err
}

// Answers gives the engine the checks of answers against the schemas of tools.
func Answers(r *registry.Registry) lifecycle.Answers { return answers{r} }

type answers struct{ r *registry.Registry }

func (a answers) Compile(schema json.RawMessage) error {
	_, err := a.r.CompileSchema(schema)
	return err
}

func (a answers) Validate(schema json.RawMessage, answer any) ([]tool.Violation, error) {
	s, err := a.r.CompileSchema(schema)
	if err != nil {
		return nil, err
	}
	return s.Validate(answer), nil
}

// Hide reports whether a tool is hidden from a principal. For that principal, the tool does not exist.
type Hide func(tool.Principal, *tool.Descriptor) bool

// Tools gives endpoints access to the tools of a registry, except those that are hidden from the principal. A nil hide hides nothing.
func Tools(r *registry.Registry, hide Hide) service.Tools { return tools{r, hide} }

type tools struct {
	r    *registry.Registry
	hide Hide
}

func (t tools) offer(p tool.Principal) registry.Offer {
	if t.hide == nil {
		return registry.Offer{Namespace: p.Namespace}
	}
	return registry.Offer{Namespace: p.Namespace, Hidden: func(d *tool.Descriptor) bool { return t.hide(p, d) }}
}

// listed returns the tools of the namespace without the tool that searches for tools. Only exports with a limit contain that tool.
func (t tools) listed(p tool.Principal, in func(*tool.Descriptor) bool) registry.Offer {
	return registry.Offer{Namespace: p.Namespace, Hidden: func(d *tool.Descriptor) bool {
		return d.ID == tool.SearchID || in != nil && !in(d) || t.hide != nil && t.hide(p, d)
	}}
}

func (t tools) List(p tool.Principal) []*tool.Definition {
	return definitionsOf(t.r.View(t.listed(p, nil)).List())
}

func (t tools) Select(p tool.Principal, in func(*tool.Descriptor) bool, query string, include []string, limit int) []*tool.Definition {
	return definitionsOf(t.r.View(t.listed(p, in)).Select(query, include, limit))
}

func definitionsOf(entries []*registry.Entry) []*tool.Definition {
	out := make([]*tool.Definition, len(entries))
	for i, e := range entries {
		out[i] = &e.Definition
	}
	return out
}

func (t tools) Lookup(p tool.Principal, name string) (*tool.Definition, bool) {
	e, ok := t.r.View(t.offer(p)).Lookup(name)
	if !ok {
		return nil, false
	}
	return &e.Definition, true
}

func (t tools) Watch(p tool.Principal) func(context.Context) error {
	return t.r.Watch(t.listed(p, nil)).Next
}

// Finder finds tools of a registry for tool_search, except those that are hidden from the caller.
func Finder(r *registry.Registry, hide Hide) search.Finder { return tools{r, hide} }

func (t tools) Find(c *tool.Call, query string, limit int) []*tool.Descriptor {
	offer := t.listed(c.Caller, nil)
	offer.Allow, offer.Exclude = c.Run.Agent.Allow, c.Run.Agent.Exclude
	entries := t.r.View(offer).Search(query, limit)
	found := make([]*tool.Descriptor, len(entries))
	for i, e := range entries {
		found[i] = &e.Descriptor
	}
	return found
}
