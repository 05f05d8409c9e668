package wire

import (
	"context"

	"github.com/toold-dev/toold/tool"
)

// PerNamespace combines the instances of one tool: own has those for namespaces with a separate workspace, and shared serves all others.
// The engine uses [Of] to get the instance for a namespace; Execute also calls that instance.
func PerNamespace(shared tool.Tool, own map[string]tool.Tool) tool.Tool {
	if len(own) == 0 {
		return shared
	}
	return &perNamespace{shared, own}
}

type perNamespace struct {
	tool.Tool
	own map[string]tool.Tool
}

// Execute implements [tool.Tool].
func (t *perNamespace) Execute(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	return Of(t, c.Namespace).Execute(ctx, c)
}

// Of returns the instance of a tool for a namespace.
func Of(t tool.Tool, namespace string) tool.Tool {
	all, ok := t.(*perNamespace)
	if !ok {
		return t
	}
	if own := all.own[namespace]; own != nil {
		return own
	}
	return all.Tool
}
