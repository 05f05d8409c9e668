package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// Names of notifications that the SDK has no function for.
const (
	listChanged  = "notifications/tools/list_changed"
	acknowledged = "notifications/subscriptions/acknowledged"
)

// sendLimit bounds the time to send a notification to a client that does not read.
const sendLimit = 10 * time.Second

// A toolList is a page of tools, with the members of [mcp.ListToolsResult]. Its definitions are the bytes that ExportTools returns.
type toolList struct {
	mcp.ResultBase
	ResultType string          `json:"resultType,omitempty"`
	Tools      json.RawMessage `json:"tools"`
	NextCursor string          `json:"nextCursor,omitempty"`
	TTL        int             `json:"ttlMs"`
	CacheScope string          `json:"cacheScope"`
}

// listTools returns a page of the tools that the principal sees. The last page also has toold_wait, unless the client follows calls as tasks.
func (s *Server) listTools(ctx context.Context, req *mcp.ListToolsRequest) (*toolList, error) {
	c := clientOf(req)
	export := &tooldv1.ExportToolsRequest{Format: tooldv1.ExportFormat_EXPORT_FORMAT_MCP}
	if req.Params != nil {
		export.PageToken = req.Params.Cursor
	}
	page, err := s.tools.ExportTools(ctx, export)
	if err != nil {
		return nil, err
	}
	list := &toolList{ResultType: c.complete(), Tools: json.RawMessage(page.GetTools()), NextCursor: page.GetNextPageToken(), CacheScope: "private"}
	if list.NextCursor == "" && !c.tasks {
		list.Tools, err = withTool(list.Tools, waitDefinition)
	}
	return list, err
}

// withTool adds a definition to a list in JSON.
func withTool(list json.RawMessage, definition string) (json.RawMessage, error) {
	var all []json.RawMessage
	if err := json.Unmarshal(list, &all); err != nil {
		return nil, err
	}
	return json.Marshal(append(all, json.RawMessage(definition)))
}

// sending stores the function that sends messages. When the server acknowledges a subscription to changes of the tools, sending starts the
// watch for it: only the acknowledgement names the subscription.
func (s *Server) sending(next mcp.MethodHandler) mcp.MethodHandler {
	s.send = next
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		ack, ok := req.GetParams().(*mcp.SubscriptionsAcknowledgedParams)
		if session, _ := req.GetSession().(*mcp.ServerSession); ok && method == acknowledged && ack.Notifications.ToolsListChanged {
			revision := s.revision(ctx) // Read the revision before the client knows that it is subscribed, so that the client misses no change.
			go func() {
				if err := s.watchTools(ctx, session, ack.Meta[mcp.MetaKeySubscriptionID], revision); err != nil {
					session.Close()
				}
			}()
		}
		return next(ctx, method, req)
	}
}

// watchStdio notifies the client of a session over stdio of changes until the session ends. When the credential is no longer valid, it ends the
// session, and [Server.Run] returns the error.
func (s *Server) watchStdio(ctx context.Context, session *mcp.ServerSession) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer cancel()
		_ = session.Wait() // Ignore the error: it is the error of the connection, which the client also sees.
	}()
	go func() {
		if err := s.watchTools(ctx, session, nil, ""); err != nil {
			s.refused.Store(&err)
			session.Close()
		}
	}()
}

// serveNotifications serves the stream for notifications of a session, and notifies the client of changes. When the credential of the
// request is no longer valid, the stream ends, but the session continues. The client may open a new stream with a new credential.
func (s *Server) serveNotifications(w http.ResponseWriter, r *http.Request, next http.Handler) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if session := s.sessionOf(r); session != nil {
		revision := s.revision(ctx)
		go func() {
			defer cancel()
			_ = s.watchTools(ctx, session, nil, revision) // Ignore the error: the next request of the client gets it too.
		}()
	}
	next.ServeHTTP(w, r.WithContext(ctx))
}

// revision returns the revision of the principal's list of tools, or an empty text if the list cannot be read.
func (s *Server) revision(ctx context.Context) string {
	list, err := s.tools.ListTools(ctx, &tooldv1.ListToolsRequest{PageSize: 1})
	if err != nil {
		return "" // watchTools will get the same error and handle it.
	}
	return list.GetRevision()
}

// watchTools notifies the client of a session of each change of the principal's list of tools after a revision. If revision is empty, it
// begins with the current revision. It blocks. When ctx is done it returns nil; when the credential is no longer valid it returns an error.
func (s *Server) watchTools(ctx context.Context, session *mcp.ServerSession, subscription any, revision string) error {
	for ctx.Err() == nil {
		err := s.watchOnce(ctx, &revision, func() { s.notifyChanged(session, subscription) })
		if code := status.Code(err); code == codes.Unauthenticated || code == codes.PermissionDenied {
			return err
		}
		sleep(ctx, watchPause)
	}
	return nil
}

// watchPause is the time between the end of a watch of the tools and the next watch.
const watchPause = 5 * time.Second

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// watchOnce invokes changed for each change after the revision, until the watch ends. If the revision is empty, it first requests one tool
// to get the current revision, because a watch without a revision begins with all definitions.
func (s *Server) watchOnce(ctx context.Context, revision *string, changed func()) error {
	if *revision == "" {
		list, err := s.tools.ListTools(ctx, &tooldv1.ListToolsRequest{PageSize: 1})
		if err != nil {
			return err
		}
		*revision = list.GetRevision()
	}
	stream, err := s.tools.WatchTools(ctx, &tooldv1.WatchToolsRequest{Revision: *revision})
	if err != nil {
		return err
	}
	for {
		change, err := stream.Recv()
		if err != nil {
			return err
		}
		if *revision != change.GetRevision() {
			*revision = change.GetRevision()
			changed()
		}
	}
}

// notifyChanged notifies the client of one change. The context contains no request, so the SDK sends the message on the session's stream
// for notifications.
func (s *Server) notifyChanged(session *mcp.ServerSession, subscription any) {
	ctx, cancel := context.WithTimeout(context.Background(), sendLimit)
	defer cancel()
	params := &mcp.ToolListChangedParams{}
	if subscription != nil {
		params.SetMeta(map[string]any{mcp.MetaKeySubscriptionID: subscription})
	}
	_, err := s.send(ctx, listChanged, &mcp.ServerRequest[*mcp.ToolListChangedParams]{Session: session, Params: params})
	if errors.Is(err, mcp.ErrConnectionClosed) {
		session.Close()
	}
}
