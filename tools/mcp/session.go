package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/toold-dev/toold/tool"
)

// stateless is the first protocol version in which a result can contain questions. lastEarlier is the version before it.
const (
	stateless   = "2026-07-28"
	lastEarlier = "2025-11-25"
)

// logLevel is a member of a request's _meta with which the request asks for log messages of the server.
const logLevel = "io.modelcontextprotocol/logLevel"

// missingCapability is the error code with which a server requires a capability of the client, such as the tasks extension.
const missingCapability = -32021

// maxLog is the maximum size of a log message that a call keeps, in bytes.
const maxLog = 8 << 10

// A session is one connection to a server.
type session struct {
	server  *server
	client  *sdk.ClientSession
	floor   *floor
	relist  chan struct{}
	pipe    *pipe // nil when the server is not a local process
	reports *reports
	calls   atomic.Int64 // number of calls so far, for the tokens of requests
}

// connect starts the protocol. The client tells the server that it supports only forms and pages for people. The server can neither ask the
// client's model (sampling) nor list its directories (roots).
func (n *session) connect(ctx context.Context, t sdk.Transport, earlier bool) error {
	client := sdk.NewClient(&sdk.Implementation{Name: "toold", Version: n.server.cfg.Version}, &sdk.ClientOptions{
		Logger: slog.New(slog.DiscardHandler),
		Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{
			Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{},
		}},
		MultiRoundTrip:              &sdk.MultiRoundTripOptions{Disabled: true},
		ElicitationHandler:          n.elicit,
		ProgressNotificationHandler: n.progress,
		LoggingMessageHandler:       n.logged, //nolint:staticcheck // servers of earlier eras have it
		ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { n.askAgain() },
	})
	client.AddReceivingMiddleware(n.deny, n.count)
	var o *sdk.ClientSessionOptions
	if earlier {
		o = &sdk.ClientSessionOptions{ProtocolVersion: lastEarlier}
	}
	var err error
	n.client, err = client.Connect(ctx, t, o)
	if err != nil {
		return err
	}
	about := n.client.InitializeResult()
	if about.ProtocolVersion < stateless && about.Capabilities != nil && about.Capabilities.Logging != nil { //nolint:staticcheck // servers of earlier eras have it
		if err := n.client.SetLoggingLevel(ctx, &sdk.SetLoggingLevelParams{Level: "info"}); err != nil { //nolint:staticcheck // servers of earlier eras have it
			n.server.cfg.Log.Debug("MCP server refused the log level", zap.String("server", n.server.entry.Key), zap.Error(err))
		}
	}
	return nil
}

// tools reads all pages of the list of tools.
func (n *session) tools(ctx context.Context) (all []*sdk.Tool, err error) {
	params := &sdk.ListToolsParams{}
	size := 0
	for range maxPages {
		page, err := n.client.ListTools(ctx, params)
		if err != nil {
			return nil, err
		}
		for _, t := range page.Tools {
			size += len(encode(t))
		}
		if size > maxList {
			return nil, fmt.Errorf("has more than %d bytes", maxList)
		}
		if all = append(all, page.Tools...); len(all) > maxTools {
			return nil, fmt.Errorf("has more than %d tools", maxTools)
		}
		if page.NextCursor == "" {
			return all, nil
		}
		params = &sdk.ListToolsParams{Cursor: page.NextCursor}
	}
	return nil, fmt.Errorf("has more than %d pages", maxPages)
}

// askAgain makes the method follow read the list again.
func (n *session) askAgain() {
	select {
	case n.relist <- struct{}{}:
	default: // The channel already contains a request to read the list.
	}
}

// close ends the connection. The SDK waits for open requests, which a server may never answer. So close invokes cut after endGrace, which
// ends the wait.
func (n *session) close(cut func()) {
	grace := time.AfterFunc(endGrace, cut)
	defer grace.Stop()
	_ = n.client.Close() // An error is ignored, because the connection is over.
}

// deny refuses requests that a server may not send to its client. It also recovers from panics: the SDK handles each message in a new
// goroutine, where a panic would end the daemon. For example, version 1.8.0 of the SDK panics when elicitation/create has no params.
func (n *session) deny(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (_ sdk.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				n.server.cfg.Log.Error("message of an MCP server refused because its handler panicked", zap.String("server", n.server.entry.Key), zap.String("method", method), zap.Any("panic", p), zap.Stack("stack"))
				err = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: method + " has parameters that cannot be read"}
			}
		}()
		if method == "sampling/createMessage" || method == "roots/list" {
			n.server.cfg.Log.Warn("MCP server sent a request that toold does not support", zap.String("server", n.server.entry.Key), zap.String("method", method))
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method + " is not supported"}
		}
		return next(ctx, method, r)
	}
}

// count counts each report of the server about a call after the report was handled.
func (n *session) count(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		if isReport(method) {
			defer n.reports.pass()
		}
		return next(ctx, method, r)
	}
}

// elicit handles a question from a server of an earlier era.
func (n *session) elicit(ctx context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	q, err := newQuestion("", r.Params)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	return n.floor.ask(ctx, q), nil
}

func (n *session) progress(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
	token, _ := r.Params.ProgressToken.(string)
	if x := n.floor.flight(token); x != nil {
		x.meter.tell(x.call, r.Params)
	}
}

// A meter passes on the progress of a call at a limited rate.
type meter struct {
	mu    sync.Mutex
	last  time.Time
	whole bool // a progress of 100% was already reported
}

const meterPause = 50 * time.Millisecond

func (m *meter) tell(c *tool.Call, p *sdk.ProgressNotificationParams) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	whole := p.Total > 0 && p.Progress >= p.Total
	if now.Sub(m.last) < meterPause && (!whole || m.whole) {
		return
	}
	m.last, m.whole = now, m.whole || whole
	progress := tool.Progress{Status: tool.ProgressRunning, Message: cleanLine(p.Message, maxTitle*5)}
	if p.Total > 0 && p.Progress >= 0 && p.Progress <= p.Total {
		progress.Fraction, progress.Loaded, progress.Total = p.Progress/p.Total, int64(p.Progress), int64(p.Total)
	}
	_ = c.ReportProgress(progress) // The error is ignored, because it only means that the call is over.
}

// logged adds a log message of a server to the output of its call. When it is unclear which call the message belongs to, logged writes it
// only to the daemon's debug log.
func (n *session) logged(_ context.Context, r *sdk.LoggingMessageRequest) {
	text, isText := r.Params.Data.(string)
	if !isText {
		b, _ := json.Marshal(r.Params.Data)
		text = string(b)
	}
	text = cleanLine(text, maxLog)
	if r.Params.Logger != "" {
		text = cleanLine(r.Params.Logger, maxTitle) + ": " + text
	}
	if x := n.floor.only(); x != nil {
		_ = x.call.Output("log", []byte(cleanLine(string(r.Params.Level), 20)+" "+text+"\n")) // The error is ignored, because it only means that the call is over.
		return
	}
	n.server.cfg.Log.Debug("log message of an MCP server", zap.String("server", n.server.entry.Key), zap.String("text", text))
}

// round is the outcome of one request of a call.
type round struct {
	result    *sdk.CallToolResult
	questions []*question
	state     string // state that the server gets back with the answers
}

// call makes one request for a call. When it returns errAlone, the caller must make the request again.
func (n *session) call(ctx context.Context, name string, c *tool.Call, m *memo) (*round, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	x := &flight{call: c, end: end, answers: m.earlier()}
	token := fmt.Sprintf("%s/%d", c.ID, n.calls.Add(1)) // The number is needed because a call in another namespace may have the same id.
	if err := n.floor.enter(ctx, token, x); err != nil {
		return nil, notRun(err)
	}
	defer n.floor.leave(token)
	params := &sdk.CallToolParams{Meta: sdk.Meta{"progressToken": token}, Name: name, Arguments: json.RawMessage(c.Arguments.Text())}
	if n.client.InitializeResult().ProtocolVersion >= stateless {
		params.Meta[logLevel] = "info"
		params.RequestState, params.InputResponses = m.State, m.responses()
	}
	sent := newRequest(c)
	r, err := n.client.CallTool(context.WithValue(ctx, requestKey{}, sent), params)
	cause := context.Cause(ctx)
	if cause == nil {
		n.reports.settle(ctx)
	}
	switch {
	case errors.Is(cause, errAsked):
		return &round{questions: []*question{x.asked}}, nil
	case errors.Is(cause, errAlone):
		return nil, errAlone
	case cause != nil:
		return n.stopped(cause, sent)
	case err != nil:
		if errors.Is(err, errSignIn) {
			return nil, errSignIn
		}
		if errors.Is(err, tool.ErrNotRun) {
			return nil, err
		}
		if way, ok := errors.AsType[*transportError](err); ok && way.sent && !way.busy {
			n.askAgain() // Reading the list shows whether the server still answers.
		}
		if errors.Is(err, sdk.ErrConnectionClosed) && !sent.sent.Load() { // The connection ended before the request was sent.
			return nil, &unsentError{err}
		}
		if dead := n.pipe.outOfMemory(); dead != nil {
			return nil, dead
		}
		return failedRound(err, n.server.signin.hideText)
	case r.NeedsInput():
		return inputRound(r)
	case len(r.Content) == 0 && r.StructuredContent == nil && sent.isTask():
		return nil, fmt.Errorf("%w: %w", tool.Errorf(tool.Upstream, "The server started a task that toold did not request; its outcome is not known"), tool.ErrLost)
	}
	return &round{result: r}, nil
}

// stopped returns the outcome of a request whose call was cancelled or has timed out. The SDK has already sent the protocol's cancel. The
// server may still answer within endGrace: a result counts, and an error means that the server has stopped the call. A server that does not
// answer may still work on the call. Then the error is [tool.ErrLost], unless the server's processes were killed.
func (n *session) stopped(cause error, sent *request) (*round, error) {
	if !sent.sent.Load() {
		return nil, notRun(cause)
	}
	if n.pipe == nil { // Over HTTP, no answer can come, because the cancel closes the connection of the response.
		return nil, fmt.Errorf("%w: %w", cause, tool.ErrLost)
	}
	grace := time.NewTimer(endGrace)
	defer grace.Stop()
	select {
	case answer := <-sent.answered:
		return lateRound(answer, cause)
	case <-n.pipe.closed:
	case <-grace.C:
	}
	if n.server.entry.restarts() && n.pipe.kill() {
		return nil, cause
	}
	return nil, fmt.Errorf("%w: %w", cause, tool.ErrLost)
}

// lateRound returns the outcome when a server answers a request after the cancel.
func lateRound(answer []byte, cause error) (*round, error) {
	var message struct {
		Result *sdk.CallToolResult `json:"result"`
	}
	if json.Unmarshal(exact(answer), &message) != nil || message.Result == nil || message.Result.IsError || message.Result.NeedsInput() {
		return nil, cause
	}
	return &round{result: message.Result}, nil
}

// notRun adds to an error that the server has received nothing of the call.
func notRun(err error) error { return fmt.Errorf("%w: %w", err, tool.ErrNotRun) }

// An unsentError means that the server has received nothing of a request.
type unsentError struct{ error }

// failedRound returns the outcome of a request that failed. It depends on the error: pages that a person must visit, an answer of the
// server, or a lost connection.
func failedRound(err error, hidden func(string) string) (*round, error) {
	var wire *jsonrpc.Error
	way, isWay := errors.AsType[*transportError](err)
	switch {
	case isWay && !way.sent:
		return nil, &unsentError{err}
	case isWay && way.busy:
		return nil, &tool.Error{
			Code: tool.Upstream, Reason: "SERVER_BUSY", Retryable: true, DeveloperMessage: hidden(err.Error()),
			Message: "Not run: the server is busy; try again later",
		}
	case isWay || !errors.As(err, &wire):
		return nil, fmt.Errorf("%w: %w", &tool.Error{
			Code: tool.Upstream, Reason: "CONNECTION_LOST", DeveloperMessage: hidden(err.Error()),
			Message: "The connection to the server ended during the call; it is not known whether the call took effect",
		}, tool.ErrLost)
	}
	if wire.Code == sdk.CodeURLElicitationRequired {
		var data struct {
			Elicitations []*sdk.ElicitParams `json:"elicitations"`
		}
		if json.Unmarshal(wire.Data, &data) == nil && len(data.Elicitations) > 0 {
			return pages(data.Elicitations)
		}
	}
	if wire.Code == missingCapability {
		return nil, &tool.Error{
			Code: tool.ExecutionFailed, Reason: "NOT_OFFERED",
			Message: "The server requires a capability that toold does not support, such as tasks: " + strings.TrimSpace(clean(wire.Message, maxDescription)),
		}
	}
	return nil, &tool.Error{
		Code: tool.ExecutionFailed, Reason: fmt.Sprintf("MCP_%d", max(wire.Code, -wire.Code)),
		Message: "The server refused: " + strings.TrimSpace(clean(wire.Message, maxDescription)),
	}
}

func pages(list []*sdk.ElicitParams) (*round, error) {
	if len(list) > maxQuestions {
		return nil, tool.Errorf(tool.ExecutionFailed, "The server asks more than %d questions at once", maxQuestions)
	}
	out := &round{}
	for _, p := range list {
		if p == nil || p.URL == "" {
			return nil, tool.Errorf(tool.ExecutionFailed, "The server asks to open a page, but gives no address")
		}
		q, err := newQuestion("", p)
		if err != nil {
			return nil, tool.Errorf(tool.ExecutionFailed, "%s", sentence(err))
		}
		out.questions = append(out.questions, q)
	}
	return out, nil
}

// inputRound returns the questions in a result of a server of the stateless era.
func inputRound(r *sdk.CallToolResult) (*round, error) {
	if len(r.InputRequests) == 0 {
		return nil, &tool.Error{Code: tool.Upstream, Reason: "SERVER_BUSY", Retryable: true, Message: "The server is busy; try again later"}
	}
	if len(r.InputRequests) > maxQuestions {
		return nil, tool.Errorf(tool.ExecutionFailed, "The server asks more than %d questions at once", maxQuestions)
	}
	if len(r.RequestState) > maxStateBytes {
		return nil, tool.Errorf(tool.ExecutionFailed, "The server's state has more than %d bytes", maxStateBytes)
	}
	out := &round{state: r.RequestState}
	for _, id := range sortedKeys(r.InputRequests) {
		p, ok := r.InputRequests[id].(*sdk.ElicitParams)
		if !ok || p == nil {
			return nil, &tool.Error{
				Code: tool.ExecutionFailed, Reason: "NOT_OFFERED",
				Message: "The server requests a model or a list of roots, which toold does not support",
			}
		}
		q, err := newQuestion(id, p)
		if err != nil {
			return nil, tool.Errorf(tool.ExecutionFailed, "%s", sentence(err))
		}
		out.questions = append(out.questions, q)
	}
	return out, nil
}

// sentence returns the text of an error with a capital letter at its beginning, for a message that models read.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}
