package httpserver

import (
	"context"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/service"
)

// registerAPI adds every method of the API to mux. It also returns their handlers by path. The handlers speak Connect, gRPC-Web and gRPC, with
// JSON or protobuf.
func (s *Server) registerAPI(mux *http.ServeMux) map[string]http.Handler {
	a := &api{mux, map[string]http.Handler{}, s.cfg.Service, connect.WithHandlerOptions(connect.WithReadMaxBytes(service.MaxMessage), connect.WithCompressMinBytes(1<<10), withForms()),
		plainForms(), &sync.Pool{New: func() any { return new(buffers) }}}
	calls, tools, documents, admin := s.cfg.Service.Calls, s.cfg.Service.Tools, s.cfg.Service.Documents, s.cfg.Service.Admin
	stream(a, tooldv1.CallService_ExecuteTool_FullMethodName, calls.ExecuteTool)
	unary(a, tooldv1.CallService_CallTool_FullMethodName, calls.CallTool)
	stream(a, tooldv1.CallService_ExecuteBatch_FullMethodName, calls.ExecuteBatch)
	stream(a, tooldv1.CallService_ExecuteTurn_FullMethodName, calls.ExecuteTurn)
	stream(a, tooldv1.CallService_GetTurn_FullMethodName, calls.GetTurn)
	stream(a, tooldv1.CallService_ResumeTool_FullMethodName, calls.ResumeTool)
	stream(a, tooldv1.CallService_WatchCalls_FullMethodName, calls.WatchCalls)
	stream(a, tooldv1.CallService_WatchInbox_FullMethodName, calls.WatchInbox)
	unary(a, tooldv1.CallService_CountCalls_FullMethodName, calls.CountCalls)
	bidi(a, tooldv1.CallService_Session_FullMethodName, calls.Session)
	unary(a, tooldv1.CallService_GetCall_FullMethodName, calls.GetCall)
	unary(a, tooldv1.CallService_ListCalls_FullMethodName, calls.ListCalls)
	unary(a, tooldv1.CallService_CancelCall_FullMethodName, calls.CancelCall)
	unary(a, tooldv1.CallService_CancelCalls_FullMethodName, calls.CancelCalls)
	unary(a, tooldv1.CallService_DescribeCall_FullMethodName, calls.DescribeCall)
	unary(a, tooldv1.CallService_ReadArtifact_FullMethodName, calls.ReadArtifact)
	unary(a, tooldv1.CallService_SendInput_FullMethodName, calls.SendInput)
	unary(a, tooldv1.CallService_GetRun_FullMethodName, calls.GetRun)
	unary(a, tooldv1.CallService_ListRuns_FullMethodName, calls.ListRuns)
	unary(a, tooldv1.CallService_ListThreads_FullMethodName, calls.ListThreads)
	unary(a, tooldv1.CallService_GetThread_FullMethodName, calls.GetThread)
	unary(a, tooldv1.CallService_EndRun_FullMethodName, calls.EndRun)
	unary(a, tooldv1.CallService_ListRules_FullMethodName, calls.ListRules)
	unary(a, tooldv1.CallService_RevokeRule_FullMethodName, calls.RevokeRule)
	unary(a, tooldv1.CallService_GetPolicy_FullMethodName, calls.GetPolicy)
	unary(a, tooldv1.CallService_TryRules_FullMethodName, calls.TryRules)
	unary(a, tooldv1.CallService_SetPermissionMode_FullMethodName, calls.SetPermissionMode)
	unary(a, tooldv1.CallService_ClaimSuspension_FullMethodName, calls.ClaimSuspension)
	unary(a, tooldv1.CallService_WhoAmI_FullMethodName, calls.WhoAmI)

	unary(a, tooldv1.ToolService_ListTools_FullMethodName, tools.ListTools)
	unary(a, tooldv1.ToolService_GetTool_FullMethodName, tools.GetTool)
	unary(a, tooldv1.ToolService_ExportTools_FullMethodName, tools.ExportTools)
	stream(a, tooldv1.ToolService_WatchTools_FullMethodName, tools.WatchTools)
	unary(a, tooldv1.ToolService_CountToolCalls_FullMethodName, tools.CountToolCalls)

	unary(a, tooldv1.DocumentService_GetDocument_FullMethodName, documents.GetDocument)
	unary(a, tooldv1.DocumentService_ListDocuments_FullMethodName, documents.ListDocuments)
	unary(a, tooldv1.DocumentService_PutDocument_FullMethodName, documents.PutDocument)
	unary(a, tooldv1.DocumentService_DeleteDocument_FullMethodName, documents.DeleteDocument)

	bidi(a, tooldv1.WorkerService_Connect_FullMethodName, s.cfg.Service.Workers.Connect)
	registerAdmin(a, admin)
	return a.methods
}

func registerAdmin(a *api, admin tooldv1.AdminServiceServer) {
	unary(a, tooldv1.AdminService_GetInfo_FullMethodName, admin.GetInfo)
	unary(a, tooldv1.AdminService_Reload_FullMethodName, admin.Reload)
	unary(a, tooldv1.AdminService_Drain_FullMethodName, admin.Drain)
	unary(a, tooldv1.AdminService_SetLogLevel_FullMethodName, admin.SetLogLevel)
	unary(a, tooldv1.AdminService_ListQuarantinedTools_FullMethodName, admin.ListQuarantinedTools)
	unary(a, tooldv1.AdminService_AcceptTool_FullMethodName, admin.AcceptTool)
	unary(a, tooldv1.AdminService_RefuseTool_FullMethodName, admin.RefuseTool)
	unary(a, tooldv1.AdminService_ListDefinitions_FullMethodName, admin.ListDefinitions)
	unary(a, tooldv1.AdminService_ListSources_FullMethodName, admin.ListSources)
	unary(a, tooldv1.AdminService_ListSecrets_FullMethodName, admin.ListSecrets)
	unary(a, tooldv1.AdminService_CreateToken_FullMethodName, admin.CreateToken)
	unary(a, tooldv1.AdminService_ListTokens_FullMethodName, admin.ListTokens)
	unary(a, tooldv1.AdminService_RevokeToken_FullMethodName, admin.RevokeToken)
	unary(a, tooldv1.AdminService_CreateLogin_FullMethodName, admin.CreateLogin)
	unary(a, tooldv1.AdminService_ReleaseCalls_FullMethodName, admin.ReleaseCalls)
	unary(a, tooldv1.AdminService_Backup_FullMethodName, admin.Backup)
	unary(a, tooldv1.AdminService_Purge_FullMethodName, admin.Purge)
	unary(a, tooldv1.AdminService_ListDeadLetters_FullMethodName, admin.ListDeadLetters)
	unary(a, tooldv1.AdminService_RetryDeadLetter_FullMethodName, admin.RetryDeadLetter)
	unary(a, tooldv1.AdminService_ReadAudit_FullMethodName, admin.ReadAudit)
	unary(a, tooldv1.AdminService_VerifyAudit_FullMethodName, admin.VerifyAudit)
	unary(a, tooldv1.AdminService_ListAuditCheckpoints_FullMethodName, admin.ListAuditCheckpoints)
	unary(a, tooldv1.AdminService_RetrySource_FullMethodName, admin.RetrySource)
	unary(a, tooldv1.AdminService_ListWorkers_FullMethodName, admin.ListWorkers)
	unary(a, tooldv1.AdminService_GetLoad_FullMethodName, admin.GetLoad)
	unary(a, tooldv1.AdminService_ListProblems_FullMethodName, admin.ListProblems)
}

// An api registers methods with common options.
type api struct {
	mux     *http.ServeMux
	methods map[string]http.Handler // by path; see route
	service *service.Service
	options connect.HandlerOption
	forms   map[string]*plainForm
	buffers *sync.Pool
}

func (a *api) handle(name string, h http.Handler) {
	a.mux.Handle(name, h)
	a.methods[name] = h
}

// An envelope holds a message of any type. Without it, the compiler would make a copy of Connect's generic code for each pair of message
// types. These copies took 1 MB of the binary.
type envelope struct{ proto.Message }

// A message is a pointer to a generated message type T.
type message[T any] interface {
	*T
	proto.Message
}

// opener returns a function that makes an empty message.
func opener[T any, M message[T]]() func() proto.Message {
	return func() proto.Message { return M(new(T)) }
}

// with returns the options of a method. open makes an empty request of this method.
func (a *api) with(open func() proto.Message) connect.HandlerOption {
	return connect.WithHandlerOptions(a.options, connect.WithRequestInitializer(func(_ connect.Spec, m any) error {
		m.(*envelope).Message = open()
		return nil
	}))
}

func unary[Req, Res any, M message[Req], N message[Res]](a *api, name string, f func(context.Context, M) (N, error)) {
	m := &method{name: name, service: a.service, open: opener[Req, M](), forms: a.forms, buffers: a.buffers}
	m.call = func(ctx context.Context, req proto.Message) (proto.Message, error) { return f(ctx, req.(M)) }
	m.connect = m.throughConnect(a.with(m.open))
	a.handle(name, m)
}

func stream[Req, Res any, M message[Req], N message[Res]](a *api, name string, f func(*Req, grpc.ServerStreamingServer[Res]) error) {
	a.handle(name, connect.NewServerStreamHandler(name, func(ctx context.Context, r *connect.Request[envelope], out *connect.ServerStream[envelope]) error {
		send := func(res *Res) error { return out.Send(&envelope{N(res)}) }
		if err := service.Stream(ctx, a.service, name, f, (*Req)(r.Msg.Message.(M)), service.Out[Res]{Send: send, Abort: abort(ctx)}); err != nil {
			return toConnect(err)
		}
		return nil
	}, a.with(opener[Req, M]())))
}

// bidi registers a method in which client and server send messages independently of each other. Such a method needs HTTP/2.
func bidi[Req, Res any, M message[Req], N message[Res]](a *api, name string, f func(grpc.BidiStreamingServer[Req, Res]) error) {
	a.handle(name, connect.NewBidiStreamHandler(name, func(ctx context.Context, both *connect.BidiStream[envelope, envelope]) error {
		serve := func(stream grpc.BidiStreamingServer[Req, Res]) error {
			unlimitBody(ctx)
			return f(stream)
		}
		receive := func() (*Req, error) {
			req, err := both.Receive()
			if err != nil {
				return nil, err
			}
			return req.Message.(M), nil
		}
		in := service.In[Req]{Receive: receive, Abort: abortRead(ctx)}
		out := service.Out[Res]{Send: func(res *Res) error { return both.Send(&envelope{N(res)}) }, Abort: abort(ctx)}
		if err := service.Bidi(ctx, a.service, name, serve, in, out); err != nil {
			return toConnect(err)
		}
		return nil
	}, a.with(opener[Req, M]())))
}

// abort returns a function that interrupts writes of the response to which ctx belongs.
func abort(ctx context.Context) func() {
	c, _ := ctx.Value(exchangeKey{}).(interface{ SetWriteDeadline(time.Time) error })
	return func() { _ = c.SetWriteDeadline(time.Unix(1, 0)) } // Ignore the error: if writes cannot be interrupted, the response ends with its connection.
}

// abortRead returns a function that interrupts reads of the request to which ctx belongs.
func abortRead(ctx context.Context) func() {
	c, _ := ctx.Value(exchangeKey{}).(interface{ SetReadDeadline(time.Time) error })
	return func() { _ = c.SetReadDeadline(time.Unix(1, 0)) } // This cannot fail: bidi needs HTTP/2, in which reads can be interrupted.
}
