package mcpserver

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Members of _meta. Requests may choose the ids of CallSpec; each result names its call.
const (
	metaCall   = "toold/callId"
	metaRun    = "toold/runId"
	metaThread = "toold/threadId"
)

// callTool makes one call of toold and returns its result, or what the call waits for.
func (s *Server) callTool(ctx context.Context, req *mcp.CallToolRequest) (mcp.Result, error) {
	if req.Params.Name == waitTool {
		return s.waitTool(ctx, req)
	}
	spec, err := specOf(req.Params)
	if err != nil {
		return nil, err
	}
	c, st := clientOf(req), &state{id: spec.GetCallId()}
	rule, err := s.taskRule(ctx, spec.GetTool())
	switch {
	case err != nil:
		return nil, err
	case c.tasks:
		if t, err := s.startTask(ctx, spec, rule != ""); t != nil || err != nil {
			return result(t, err)
		}
	case rule == taskRequired:
		return nil, missingTasks("the tool " + spec.GetTool())
	}
	limited, stop := c.limited(ctx)
	defer stop()
	err = s.follow(limited, st, c.progress(ctx, req.Params.GetProgressToken()), func(ctx context.Context, cursor string) (frames, error) {
		return framesOf(s.calls.ExecuteTool(ctx, &tooldv1.ExecuteToolRequest{Spec: spec, Cursor: cursor}))
	})
	if ctx.Err() != nil {
		s.cancelled(ctx, st.id)
	}
	switch {
	case err != nil && limited.Err() == nil:
		return nil, err
	case st.isUnknown:
		return nil, invalid(fmt.Sprintf("unknown tool %q", req.Params.Name))
	case c.tasks && st.result == nil:
		return result(s.newTask(ctx, st.id))
	}
	return s.outcome(ctx, c, st)
}

// specOf returns the call that a request asks for.
func specOf(p *mcp.CallToolParamsRaw) (*tooldv1.CallSpec, error) {
	spec := &tooldv1.CallSpec{Tool: p.Name, Arguments: string(p.Arguments)}
	var run tooldv1.Run
	for key, field := range map[string]*string{metaCall: &spec.CallId, metaRun: &run.RunId, metaThread: &run.ThreadId} {
		v, there := p.Meta[key]
		if text, ok := v.(string); ok {
			*field = text
		} else if there {
			return nil, invalid(fmt.Sprintf("_meta[%q] is not a string", key))
		}
	}
	if run.RunId != "" || run.ThreadId != "" {
		spec.Run = &tooldv1.Run{RunId: run.RunId, ThreadId: run.ThreadId}
	}
	if spec.GetCallId() == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		spec.CallId = id.String()
	}
	return spec, nil
}

// outcome returns the result of a call, or a result that says what the call waits for.
func (s *Server) outcome(ctx context.Context, c *client, st *state) (mcp.Result, error) {
	if st.result != nil {
		return s.finished(ctx, c, st), nil
	}
	return s.waiting(ctx, c, st)
}
