package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

const (
	// taskAfter is how long a request of a client with the tasks extension waits for its call. Then the client gets a task.
	taskAfter = 2 * time.Second
	// taskPoll is the interval at which a client should ask for the state of a task.
	taskPoll = time.Second
	// storePoll is the interval at which toold asks whether a call is in the journal.
	storePoll = 10 * time.Millisecond
)

// metaTask is the key of a tool's metadata that makes its calls tasks from their beginning.
const (
	metaTask     = "mcp.task"
	taskRequired = "required" // refuses clients without the extension; with any other value, these clients wait for the result
)

// Values of task.Status.
const (
	taskWorking   = "working"
	taskInput     = "input_required"
	taskCompleted = "completed"
	taskFailed    = "failed"
	taskCancelled = "cancelled"
)

// A task is a call in the form of the tasks extension. Its id is the id of the call. Its time to live is null, because it has no fixed end:
// the journal keeps a call while it waits, and for a configured time after its end.
type task struct {
	mcp.ResultBase
	ResultType    string              `json:"resultType"`
	ID            string              `json:"taskId"`
	Status        string              `json:"status"`
	StatusMessage string              `json:"statusMessage,omitempty"`
	Created       time.Time           `json:"createdAt"`
	Updated       time.Time           `json:"lastUpdatedAt"`
	TTL           *int                `json:"ttlMs"`
	Poll          int64               `json:"pollIntervalMs"`
	Input         mcp.InputRequestMap `json:"inputRequests,omitempty"`
	Result        *toolResult         `json:"result,omitempty"`
	Error         *jsonrpc.Error      `json:"error,omitempty"`
}

// An ack is the empty result of a request.
type ack struct {
	mcp.ResultBase
	ResultType string `json:"resultType"`
}

// taskParams are the parameters of tasks/get and tasks/cancel.
type taskParams struct {
	mcp.ParamsBase
	ID string `json:"taskId"`
}

// taskAnswers are the parameters of tasks/update.
type taskAnswers struct {
	taskParams
	Responses map[string]json.RawMessage `json:"inputResponses"`
}

// addTasks adds the methods of the tasks extension, which the SDK does not have.
func (s *Server) addTasks() error {
	return errors.Join(
		mcp.AddReceivingCustomMethod(s.sdk, "tasks/get", s.getTask),
		mcp.AddReceivingCustomMethod(s.sdk, "tasks/cancel", s.cancelTask),
		mcp.AddReceivingCustomMethod(s.sdk, "tasks/update", s.updateTask),
	)
}

// task passes a request of the extension to its method, if the client has declared the extension in this request.
func (s *Server) task(ctx context.Context, method string, c *client, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	if !c.tasks {
		return nil, missingTasks("this method")
	}
	r, err := next(ctx, method, req)
	return result(r, err)
}

// missingTasks returns the error for a client that has not declared the extension.
func missingTasks(what string) error {
	capabilities := &mcp.ClientCapabilities{}
	capabilities.AddExtension(tasksExtension, nil)
	data, err := json.Marshal(mcp.MissingRequiredClientCapabilityData{RequiredCapabilities: capabilities})
	if err != nil {
		return err
	}
	return &jsonrpc.Error{Code: mcp.CodeMissingRequiredClientCapabilities, Message: what + " requires the extension " + tasksExtension, Data: data}
}

// taskOf returns the state of a call, without the members that only tasks/get returns.
func taskOf(c *tooldv1.Call) *task {
	t := &task{ResultType: "complete", ID: c.GetCallId(), Status: taskWorking, Created: c.GetCreatedAt().AsTime(), Poll: taskPoll.Milliseconds()}
	t.Updated = latest(c.GetCreatedAt(), c.GetStartedAt(), c.GetSuspension().GetCreatedAt(), c.GetEndedAt())
	switch c.GetStatus() {
	case tooldv1.CallStatus_CALL_STATUS_SUSPENDED:
		t.StatusMessage = clean(c.GetSuspension().GetMessage())
	case tooldv1.CallStatus_CALL_STATUS_CANCELLED:
		t.Status, t.StatusMessage = taskCancelled, c.GetResult().GetModelText()
	case tooldv1.CallStatus_CALL_STATUS_SUCCEEDED, tooldv1.CallStatus_CALL_STATUS_FAILED:
		t.Status = taskCompleted
		if c.GetResult().GetError().GetCode() == tooldv1.ErrorCode_ERROR_CODE_INTERNAL {
			t.Status = taskFailed
		}
	}
	return t
}

func latest(times ...*timestamppb.Timestamp) time.Time {
	var last time.Time
	for _, t := range times {
		if t != nil && t.AsTime().After(last) {
			last = t.AsTime()
		}
	}
	return last
}

// ownCall returns a call of the principal. It does not return calls of other principals, not even to an operator, who may read them through
// the API. A client over stdio gets every call that its connection may read.
func (s *Server) ownCall(ctx context.Context, id string) (*tooldv1.Call, error) {
	principal := ""
	if s.cfg.Authenticate != nil {
		var err error
		if principal, err = s.cfg.Authenticate(ctx); err != nil {
			return nil, err
		}
	}
	got, err := s.calls.GetCall(ctx, &tooldv1.GetCallRequest{CallId: id})
	if code := status.Code(err); err != nil && code != codes.NotFound && code != codes.InvalidArgument {
		return nil, err
	}
	c := got.GetCall()
	if err != nil || principal != "" && principal != Principal(c.GetNamespace(), c.GetCaller().GetSubject()) {
		return nil, invalid("there is no call with this id")
	}
	return c, nil
}

// Principal returns the text that [Config.Authenticate] returns.
func Principal(namespace, subject string) string { return namespace + "/" + subject }

// startTask starts a call for a client with the extension. It uses CallTool, because such a call continues without a watcher. If atOnce is
// set and the tool exists, it returns a task. Otherwise it returns nil, and the request follows the call for at most taskAfter.
func (s *Server) startTask(ctx context.Context, spec *tooldv1.CallSpec, atOnce bool) (*task, error) {
	r, err := s.calls.CallTool(ctx, &tooldv1.CallToolRequest{Spec: spec, Wait: durationpb.New(0)})
	if err != nil || !atOnce || isUnknown(r.GetCall().GetToolDigest(), r.GetCall().GetResult()) {
		return nil, err
	}
	return s.newTask(ctx, r.GetCall().GetCallId())
}

// limited returns the context in which a request waits for its call. If the client can get a task, the context ends after taskAfter.
func (c *client) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if !c.tasks {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, taskAfter)
}

// taskRule returns the value of metaTask of a tool. It is empty for an unknown tool.
func (s *Server) taskRule(ctx context.Context, tool string) (string, error) {
	got, err := s.tools.GetTool(ctx, &tooldv1.GetToolRequest{Tool: tool})
	if code := status.Code(err); code == codes.NotFound || code == codes.InvalidArgument {
		return "", nil
	}
	return got.GetTool().GetMetadata()[metaTask], err
}

// newTask returns the task of a call that continues without a watcher. It first waits until the call is in the journal.
func (s *Server) newTask(ctx context.Context, id string) (*task, error) {
	for ctx.Err() == nil {
		got, err := s.calls.GetCall(ctx, &tooldv1.GetCallRequest{CallId: id})
		if err != nil {
			return nil, err
		}
		if !got.GetCall().GetNotStored() {
			t := taskOf(got.GetCall())
			t.ResultType = "task"
			return t, nil
		}
		sleep(ctx, storePoll)
	}
	return nil, ctx.Err()
}

func (s *Server) getTask(ctx context.Context, session *mcp.ServerSession, p *taskParams) (*task, error) {
	c := clientOf(&mcp.ServerRequest[*taskParams]{Session: session, Params: p})
	is, err := s.ownCall(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	t := taskOf(is)
	switch t.Status {
	case taskCompleted:
		t.Result = s.finished(ctx, c, &state{id: t.ID, result: is.GetResult()})
	case taskFailed:
		t.Error = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: is.GetResult().GetModelText()}
	case taskWorking:
		if t.Input, err = s.taskQuestions(ctx, c, is.GetSuspension()); err != nil {
			return nil, err
		}
		if t.Input != nil {
			t.Status = taskInput
		}
	}
	return t, nil
}

// cancelTask asks the call to end. It returns no error if the call has already ended.
func (s *Server) cancelTask(ctx context.Context, _ *mcp.ServerSession, p *taskParams) (*ack, error) {
	if _, err := s.ownCall(ctx, p.ID); err != nil {
		return nil, err
	}
	_, err := s.calls.CancelCall(ctx, &tooldv1.CancelCallRequest{CallId: p.ID, Reason: "the MCP client cancelled the task"})
	return &ack{ResultType: "complete"}, err
}
