package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// waitTool is the name of the tool that waits for a call. It makes no call of toold.
const waitTool = "toold_wait"

const waitDefinition = `{"name":"toold_wait","title":"Wait for a call",` +
	`"description":"Waits for a call that an earlier result named, and returns its result. Use it when a result says that its call is not finished.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"call_id":{"type":"string","description":"The call id that the earlier result named."},` +
	`"seconds":{"type":"integer","minimum":1,"maximum":600,"default":50,"description":"How long to wait."}},` +
	`"required":["call_id"],"additionalProperties":false},` +
	`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`

const (
	defaultWait = 50 // seconds; common clients give up after 60 s
	maxWait     = 600
)

// waitArguments are the arguments of toold_wait.
type waitArguments struct {
	CallID  string `json:"call_id"`
	Seconds *int   `json:"seconds"`
}

func waitArgumentsOf(text json.RawMessage) (id string, wait time.Duration, err error) {
	var a waitArguments
	if err := json.Unmarshal(text, &a); err != nil || a.CallID == "" {
		return "", 0, invalid(`toold_wait wants {"call_id": "…", "seconds": 50}`)
	}
	n := defaultWait
	if a.Seconds != nil {
		n = *a.Seconds
	}
	if n < 1 || n > maxWait {
		return "", 0, invalid(fmt.Sprintf("seconds is %d; want 1 to %d", n, maxWait))
	}
	return a.CallID, time.Duration(n) * time.Second, nil
}

// waitTool waits for a call of the principal. A cancelled request does not cancel the call.
func (s *Server) waitTool(ctx context.Context, req *mcp.CallToolRequest) (mcp.Result, error) {
	id, wait, err := waitArgumentsOf(req.Params.Arguments)
	if err != nil {
		return nil, err
	}
	if _, err := s.ownCall(ctx, id); err != nil {
		return nil, err
	}
	suspension := ""
	if text := req.Params.RequestState; text != "" {
		var of string
		if of, suspension, err = s.retried(ctx, text); err != nil {
			return nil, err
		}
		if of != id {
			return nil, errState
		}
	}
	c, st := clientOf(req), &state{id: id}
	report := c.progress(ctx, req.Params.GetProgressToken())
	if err := s.watch(ctx, c, st, wait, report); err != nil {
		return nil, err
	}
	if err := s.answered(ctx, c, st, suspension, req.Params.InputResponses, report); err != nil {
		return nil, err
	}
	return s.outcome(ctx, c, st, report)
}

// watch follows a call until it has ended, its client has to answer a question, or the time is over.
func (s *Server) watch(ctx context.Context, c *client, st *state, wait time.Duration, report func(*tooldv1.Progress)) error {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	st.stop = func() bool {
		questions, err := s.questionsOf(waiting, c, st.suspension)
		return err != nil || questions != nil
	}
	err := s.follow(waiting, st, report, func(ctx context.Context, cursor string) (frames, error) { return s.watchCall(ctx, st.id, cursor) })
	if status.Code(err) == codes.DeadlineExceeded || waiting.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

// watchOn follows a call for the default time, after another person has answered its question.
func (s *Server) watchOn(ctx context.Context, c *client, st *state, report func(*tooldv1.Progress)) error {
	stop := st.stop
	st.cursor = ""
	err := s.watch(ctx, c, st, defaultWait*time.Second, report)
	st.stop = stop
	if ctx.Err() != nil {
		s.cancelled(ctx, st)
	}
	return err
}

// watchCall opens the stream of a call. Without a cursor, it begins with the state of the call.
func (s *Server) watchCall(ctx context.Context, id, cursor string) (frames, error) {
	return framesOf(s.calls.WatchCalls(ctx, &tooldv1.WatchCallsRequest{
		Selector: &tooldv1.WatchCallsRequest_CallId{CallId: id}, Cursor: cursor, Follow: true,
	}))
}

// waiting returns a result that says what a call waits for. If the tool has an output schema, the result is an error: clients require
// structured content from each result of such a tool, except from errors.
func (s *Server) waiting(ctx context.Context, c *client, st *state) (*toolResult, error) {
	out := &toolResult{ResultType: c.complete(), Content: []mcp.Content{&mcp.TextContent{Text: waitingText(st)}}}
	out.Meta = mcp.Meta{metaCall: st.id}
	if st.tool == "" {
		return out, nil
	}
	is, err := s.tools.GetTool(ctx, &tooldv1.GetToolRequest{Tool: st.tool})
	if err != nil {
		return nil, err
	}
	out.IsError = is.GetTool().GetResultSchema() != ""
	return out, nil
}

func waitingText(st *state) string {
	var b strings.Builder
	switch q := st.suspension; {
	case q == nil:
		b.WriteString("The call still runs.")
	case q.GetApprovers() != nil:
		b.WriteString("The call waits for the approval of a person. It has not finished.")
	default:
		b.WriteString("The call waits for the answer to a question. It has not finished.")
	}
	if text := st.suspension.GetMessage(); text != "" {
		fmt.Fprintf(&b, " The question is: %s", clean(text))
	}
	fmt.Fprintf(&b, "\nThe call id is %s. Call %s with this call_id to get the result. Do not send the call again.", st.id, waitTool)
	return b.String()
}
