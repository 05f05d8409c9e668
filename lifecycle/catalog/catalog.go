// Package catalog finds the tools of calls, and asks a tool about a call: whether its arguments are valid, and what it would do.
//
// The package does not trust the answers of a tool. If a tool panics, does not answer in time or contradicts its descriptor, the package
// uses the descriptor instead.
package catalog

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/decision"
	"github.com/toold-dev/toold/tool"
)

// Tools finds tools by id or alias.
type Tools interface {
	// Lookup finds a tool for the callers of a namespace, by id or alias.
	Lookup(namespace, id string) (*Definition, bool)
}

// A Catalog finds the tools of calls that their callers may see. Every field except Tools may be nil.
type Catalog struct {
	Tools Tools
	// Hide reports whether a tool is hidden from a principal. A nil Hide hides no tool.
	Hide func(tool.Principal, *tool.Descriptor) bool
	// Frontend creates a tool from a caller's declaration. It is nil when there are no frontend tools.
	Frontend func(*tool.FrontendTool) (*Definition, error)
	// Isolation returns the isolation facts of a tool's processes, or none for a tool that starts no process.
	Isolation func(*tool.Descriptor) []call.Fact
	// RemoveNulls removes from the text of arguments the nulls that strict mode added for optional parameters, and reports whether it
	// changed the text. nil removes none.
	RemoveNulls func(parameters json.RawMessage, arguments string) (string, bool)
}

// Lookup finds the tool of a call. It does not return a tool that is hidden from the caller or that the caller's agent excludes.
func (t *Catalog) Lookup(c *call.Call) (*Definition, bool) {
	if c.Frontend != nil {
		return t.declared(c)
	}
	def, ok := t.Tools.Lookup(c.Namespace, c.Tool)
	if !ok || t.Hide != nil && t.Hide(c.Caller, def.Descriptor) || !c.Run.Agent.Offers(def.Descriptor) {
		return nil, false
	}
	return def, true
}

// declared returns the frontend tool that the caller of a call declared. A declared tool is offered unless the agent excludes it.
func (t *Catalog) declared(c *call.Call) (*Definition, bool) {
	if t.Frontend == nil {
		return nil, false
	}
	def, err := t.Frontend(c.Frontend)
	if err != nil || t.Hide != nil && t.Hide(c.Caller, def.Descriptor) || c.Run.Agent.Excludes(def.Descriptor) {
		return nil, false
	}
	return def, true
}

// ToolOf returns the tool of a call for checking answers, or nil when the tool no longer exists.
func (t *Catalog) ToolOf(c *call.Call) *decision.Tool {
	def, ok := t.Lookup(c)
	if !ok {
		return nil
	}
	return &decision.Tool{
		Digest: def.Digest, Descriptor: def.Descriptor, ValidateResult: def.Schema.ValidateResult,
		Validate: func(args tool.Arguments) error {
			return def.Validate(context.Background(), args, func(string) string { return "" })
		},
	}
}

// IsolationOf returns the isolation that a tool requires, and the facts that hold for its processes.
func (t *Catalog) IsolationOf(d *tool.Descriptor) call.Isolation {
	i := call.Isolation{Required: cmp.Or(d.RequiredIsolation, tool.IsolationNone), Network: cmp.Or(d.RequiredNetwork, "none")}
	if t.Isolation != nil {
		i.Facts = t.Isolation(d)
	}
	return i
}

// fullIsolation lists the facts that must hold for [tool.IsolationFull]. For a tool that requires an open network, the fact "net" need not
// hold.
var fullIsolation = []string{"fs_read", "fs_write", "net", "processes_killed"}

// MissingFact returns a fact of [tool.IsolationFull] that does not hold for a tool's processes, or "" when all hold.
func (t *Catalog) MissingFact(d *tool.Descriptor) string {
	isolation := t.IsolationOf(d)
	for _, fact := range fullIsolation {
		if !isolation.Holds(fact) && (fact != "net" || isolation.Network != "open") {
			return fact
		}
	}
	return ""
}

// WithoutNulls removes the nulls that strict mode added to the arguments, and reports whether there were any.
func (t *Catalog) WithoutNulls(def *Definition, args tool.Arguments) (tool.Arguments, bool, error) {
	if t.RemoveNulls == nil {
		return args, false, nil
	}
	text, removed := t.RemoveNulls(def.Descriptor.Parameters, args.Text())
	if !removed {
		return args, false, nil
	}
	args, err := call.Parse(text).Arguments(def.Descriptor.MaxArguments)
	return args, true, err
}
