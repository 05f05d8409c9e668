package wire

import (
	"context"

	"github.com/toold-dev/toold/tool"
)

// PerNamespace returns a tool that some namespaces have in a workspace of their own: the same tool, made once for each of them.
// The engine and [Of] get that of a namespace; a call that reaches the tool itself goes there too.
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

// Of returns a tool as a namespace has it.
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
