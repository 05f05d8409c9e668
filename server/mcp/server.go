package mcpserver

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Limits of the HTTP endpoint.
const (
	maxBody     = 4 << 20   // bytes of a request
	maxBatch    = 100       // messages of a request
	sessionIdle = time.Hour // a session ends after this time without a request; the client must then initialize a new one
)

// firstStateless is the first protocol version without sessions.
const firstStateless = "2026-07-28"

const instructions = "The tools of toold. A call may wait for a person. Then its result names the call id; call toold_wait with that id to get the result. " +
	"Do not repeat the call itself."

// A Config configures a [Server].
type Config struct {
	// Conn reaches the API. The requests of a [Server.Handler] have the values of the HTTP request's context.
	Conn grpc.ClientConnInterface
	// Version is the version of toold that clients see.
	Version string
	// Approvals reports whether a client may get the approval of its own call, if the caller alone may approve the call. Nil means never,
	// because an MCP client can answer without asking a person.
	Approvals func() bool
	// Authenticate returns the namespace and subject of the principal whose credential is in ctx, as one text. Its error has a gRPC status.
	// [Server.Handler] needs it, and binds sessions to the principal.
	Authenticate func(ctx context.Context) (string, error)
	// Issuers returns the URLs of the OAuth authorization servers whose tokens the daemon accepts. If there are none, or Issuers is nil,
	// the server has no OAuth metadata.
	Issuers func() []string
}

// A Server serves MCP. Many goroutines may use it.
type Server struct {
	cfg     Config
	calls   tooldv1.CallServiceClient
	tools   tooldv1.ToolServiceClient
	sdk     *mcp.Server
	partial partial
	owners  owners
	refused atomic.Pointer[error] // why the daemon refuses the connection of a client over stdio
	closed  context.Context       // done when the server closes
	close   context.CancelFunc
	send    mcp.MethodHandler // sends a message to the client of one session; the SDK has no function for some kinds of messages
}

// New returns a server for the API behind cfg.Conn.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, calls: tooldv1.NewCallServiceClient(cfg.Conn), tools: tooldv1.NewToolServiceClient(cfg.Conn), partial: newPartial()}
	s.closed, s.close = context.WithCancel(context.Background())
	capabilities := &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}}
	capabilities.AddExtension(tasksExtension, nil)
	s.sdk = mcp.NewServer(&mcp.Implementation{Name: "toold", Title: "toold", Version: cfg.Version}, &mcp.ServerOptions{
		Instructions: instructions,
		Capabilities: capabilities,
	})
	if err := s.addTasks(); err != nil {
		panic(err) // This cannot happen: the SDK refuses a method only when another method has the same name.
	}
	s.sdk.AddSendingMiddleware(s.sending)
	s.sdk.AddReceivingMiddleware(s.receiving)
	return s
}

// Run serves one client over a transport such as stdio. It blocks until the client disconnects, ctx is done, or the credential of the
// connection is no longer valid. Only in the last case does it return an error of the API.
func (s *Server) Run(ctx context.Context, t mcp.Transport) error {
	err := s.sdk.Run(ctx, t)
	if refused := s.refused.Load(); refused != nil {
		return *refused
	}
	return err
}

// Close ends the requests in progress and the sessions of all clients. The calls of these requests continue.
func (s *Server) Close() {
	s.close()
	for session := range s.sdk.Sessions() {
		_ = session.Close() // Ignore the error: the connection has already ended.
	}
}

// Handler returns the handler of the path /mcp and of its public metadata (RFC 9728). Before each request, the caller must check the headers
// Host and Origin. Before a request to /mcp, it must also put the client's credential into the context of the request.
func (s *Server) Handler() http.Handler {
	get := func(*http.Request) *mcp.Server { return s.sdk }
	stateless := s.withHeaders(mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{
		Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: maxBody, DisableLocalhostProtection: true,
	}))
	sessions := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{
		SessionTimeout: sessionIdle, MaxRequestBodyBytes: maxBody, DisableLocalhostProtection: true,
	})
	mux := http.NewServeMux()
	mux.HandleFunc(metadataPath, s.serveMetadata)
	mux.HandleFunc(metadataPath+"/", s.serveMetadata)
	mux.Handle("/", s.authenticated(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Mcp-Protocol-Version") >= firstStateless:
			stateless.ServeHTTP(w, r)
		case r.Header.Get(sessionHeader) != "" && r.Method == http.MethodGet:
			s.serveNotifications(w, r, sessions)
		case isLargeBatch(w, r):
			http.Error(w, fmt.Sprintf("a batch has at most %d messages", maxBatch), http.StatusRequestEntityTooLarge)
		case r.Header.Get(sessionHeader) != "":
			sessions.ServeHTTP(w, r)
		default:
			s.begin(w, r, sessions)
		}
	})))
	return mux
}

// isLargeBatch reports whether a request has too many messages. Protocol version 2025-03-26 permits several messages in one request. The
// server handles them at the same time, so without a limit a small request could take much memory.
func isLargeBatch(w http.ResponseWriter, r *http.Request) bool {
	body := bufio.NewReader(r.Body)
	start, _ := body.Peek(1)
	r.Body = io.NopCloser(body)
	if len(start) == 0 || start[0] == '{' {
		return false
	}
	var batch []json.RawMessage
	return json.Unmarshal(readBody(w, r), &batch) == nil && len(batch) > maxBatch
}

// readBody returns the body of a request, or the part of it that can be read. Afterwards the body of r gives the same bytes and the same
// error again.
func readBody(w http.ResponseWriter, r *http.Request) []byte {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(text), failing{err}))
	return text
}

// failing is a reader that returns only an error. If err is nil, it returns the end of file.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, cmp.Or(f.err, io.EOF) }

// authenticated identifies the principal of each request, and passes its identity and context to the SDK. The SDK then refuses a session
// that belongs to another principal. The SDK takes an identity only from a bearer token. authenticated therefore replaces the token of each
// request by one that names the principal. The real credential stays in the context.
func (s *Server) authenticated(next http.Handler) http.Handler {
	inner := auth.RequireBearerToken(func(ctx context.Context, principal string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: principal, Extra: map[string]any{requestContext: context.WithoutCancel(ctx)}}, nil
	}, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		principal, err := s.cfg.Authenticate(r.Context())
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+hashed(principal))
		inner.ServeHTTP(w, r)
	})
}

// refuse answers a request that could not be authenticated. err is the reason.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	st := status.Convert(err)
	switch st.Code() {
	case codes.Unauthenticated:
		w.Header().Set("WWW-Authenticate", s.challenge(r))
		http.Error(w, st.Message(), http.StatusUnauthorized)
	case codes.PermissionDenied:
		http.Error(w, st.Message(), http.StatusForbidden)
	default:
		http.Error(w, st.Message(), http.StatusServiceUnavailable)
	}
}

// requestContext is the key of an HTTP request's context in [auth.TokenInfo.Extra].
const requestContext = "toold/context"

// withRequest returns ctx with the values of the HTTP request that carried req. The SDK handles the requests of a session in the context of the
// session's first request, whose credential may have expired.
func withRequest(ctx context.Context, req mcp.Request) context.Context {
	extra := req.GetExtra()
	if extra == nil || extra.TokenInfo == nil {
		return ctx
	}
	values, ok := extra.TokenInfo.Extra[requestContext].(context.Context)
	if !ok {
		return ctx
	}
	return requestValues{ctx, values}
}

// requestValues is a context that looks for values first in another context. That context must not have a cancellation: [context.Cause] would
// find the cancellation there, because a context returns it as a value.
type requestValues struct {
	context.Context
	values context.Context
}

func (c requestValues) Value(key any) any {
	if v := c.values.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

// receiving answers the requests that concern tools. The SDK answers all others.
func (s *Server) receiving(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		ctx = withRequest(ctx, req)
		switch req := req.(type) {
		case *mcp.ListToolsRequest:
			return result(s.listTools(ctx, req))
		case *mcp.CallToolRequest:
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(s.closed, cancel)()
			return result(s.callTool(ctx, req))
		case *mcp.ListPromptsRequest, *mcp.GetPromptRequest, *mcp.ListResourcesRequest, *mcp.ListResourceTemplatesRequest, *mcp.ReadResourceRequest:
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method + ": toold has tools only"} // Without this error, the SDK would return empty lists.
		case *mcp.InitializedRequest:
			r, err := next(ctx, method, req)
			if err == nil && req.Session.ID() == "" {
				s.watchStdio(ctx, req.Session)
			}
			return r, err
		case *mcp.ServerRequest[*taskParams]:
			return s.task(ctx, method, clientOf(req), req, next)
		case *mcp.ServerRequest[*taskAnswers]:
			return s.task(ctx, method, clientOf(req), req, next)
		}
		return next(ctx, method, req)
	}
}

// result returns err as a JSON-RPC error, and never a nil pointer as a result.
func result[R mcp.Result](r R, err error) (mcp.Result, error) {
	if err != nil {
		return nil, wireError(err)
	}
	return r, nil
}
