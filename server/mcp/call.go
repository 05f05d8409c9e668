package mcpserver

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Members of _meta. In a request, they choose the ids of the CallSpec. In a result, they name the call.
const (
	metaCall   = "toold/callId"
	metaRun    = "toold/runId"
	metaThread = "toold/threadId"
)

// maxQuestions bounds how often a client with a session is asked in one request.
const maxQuestions = 20

// callTool makes one call of toold. It returns the result of the call, or a result that says what the call waits for. A request with a
// requestState continues the call of an earlier request.
func (s *Server) callTool(ctx context.Context, req *mcp.CallToolRequest) (mcp.Result, error) {
	if req.Params.Name == waitTool {
		return s.waitTool(ctx, req)
	}
	spec, err := specOf(req.Params)
	if err != nil {
		return nil, err
	}
	c := clientOf(req)
	if text := req.Params.RequestState; text != "" {
		return s.continueCall(ctx, c, req, spec, text)
	}
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
	st, report := &state{id: spec.GetCallId()}, c.progress(ctx, req.Params.GetProgressToken())
	limited, stop := c.limited(ctx)
	defer stop()
	err = s.execute(limited, st, spec, report)
	if ctx.Err() != nil {
		s.cancelled(ctx, st)
	}
	if q := st.suspension; err == nil && len(req.Params.InputResponses) > 0 && !isApproval(q) { // The request has answers but no requestState: the client got the question from another request for this call.
		err = s.answered(limited, c, st, q.GetSuspensionId(), req.Params.InputResponses, report)
	}
	switch {
	case err != nil && (limited.Err() == nil || ctx.Err() != nil):
		return nil, err
	case st.isUnknown:
		return nil, invalid(fmt.Sprintf("unknown tool %q", req.Params.Name))
	}
	return s.outcome(ctx, c, st, report)
}

// continueCall applies the answers of a request to the call of an earlier request. The daemon attaches to that call only if principal, tool,
// arguments, run and thread are the same.
func (s *Server) continueCall(ctx context.Context, c *client, req *mcp.CallToolRequest, spec *tooldv1.CallSpec, text string) (mcp.Result, error) {
	id, suspension, err := s.retried(ctx, text)
	if err != nil {
		return nil, err
	}
	spec.CallId = id
	st, report := &state{id: id}, c.progress(ctx, req.Params.GetProgressToken())
	limited, stop := c.limited(ctx)
	defer stop()
	err = s.execute(limited, st, spec, report)
	if ctx.Err() != nil {
		s.cancelled(ctx, st)
	}
	if err == nil {
		err = s.answered(limited, c, st, suspension, req.Params.InputResponses, report)
	}
	switch {
	case status.Code(err) == codes.AlreadyExists:
		return nil, errState
	case err != nil && (limited.Err() == nil || ctx.Err() != nil):
		return nil, err
	}
	return s.outcome(ctx, c, st, report)
}

// execute starts a call, or attaches to it, and follows it.
func (s *Server) execute(ctx context.Context, st *state, spec *tooldv1.CallSpec, report func(*tooldv1.Progress)) error {
	return s.follow(ctx, st, report, func(ctx context.Context, cursor string) (frames, error) {
		return framesOf(s.calls.ExecuteTool(ctx, &tooldv1.ExecuteToolRequest{Spec: spec, Cursor: cursor}))
	})
}

// specOf returns the CallSpec for a request.
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

// outcome returns the result of a call. If the call waits for an answer that its client may give, outcome asks the client. If the call
// waits for something else, a client that follows tasks gets a task. Other clients get a result that says what the call waits for.
func (s *Server) outcome(ctx context.Context, c *client, st *state, report func(*tooldv1.Progress)) (mcp.Result, error) {
	for range maxQuestions {
		questions, err := s.questionsOf(ctx, c, st.suspension)
		if err != nil {
			return nil, err
		}
		if questions == nil {
			break
		}
		questions = withProblem(questions, st.problem)
		if !c.hasState {
			return ask(st, questions), nil
		}
		if ok, err := s.elicit(ctx, c, st, questions, report); err != nil {
			return nil, err
		} else if !ok {
			break
		}
	}
	switch {
	case st.result != nil:
		return s.finished(ctx, c, st), nil
	case c.tasks && st.stop == nil:
		return result(s.newTask(ctx, st.id))
	}
	return s.waiting(ctx, c, st)
}
