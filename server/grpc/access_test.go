package grpcserver_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/toold-dev/toold/daemon/wire"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	grpcserver "github.com/toold-dev/toold/server/grpc"
	"github.com/toold-dev/toold/server/service"
	"github.com/toold-dev/toold/tool"
)

var everyRole = []string{"caller", "delegate", "approver", "operator", "worker", "viewer", "admin"}

// mayCall returns which roles may call each method, according to the comments of the API. The role "" stands for any client, with or
// without a token.
func mayCall() map[string][]string {
	see := []string{"caller", "delegate", "approver", "viewer", "operator"}
	start := []string{"caller", "delegate"}
	end := []string{"caller", "delegate", "operator"}
	look := []string{"caller", "delegate", "viewer", "operator"}
	tenants := []string{"operator", "admin"} // an operator for its own namespace, an admin for all namespaces
	return map[string][]string{
		"/toold.v1.CallService/ExecuteTool": start, "/toold.v1.CallService/ExecuteBatch": start, "/toold.v1.CallService/ExecuteTurn": start, "/toold.v1.CallService/GetTurn": look, "/toold.v1.CallService/CallTool": start, "/toold.v1.CallService/DescribeCall": {"approver", "operator", "caller", "delegate"},
		"/toold.v1.CallService/ResumeTool":      {"approver", "operator", "caller", "delegate"},
		"/toold.v1.CallService/ClaimSuspension": {"approver", "operator", "caller", "delegate"}, "/toold.v1.CallService/WhoAmI": everyRole,
		"/toold.v1.CallService/WatchCalls": see, "/toold.v1.CallService/WatchInbox": see, "/toold.v1.CallService/CountCalls": see, "/toold.v1.CallService/Session": see, "/toold.v1.CallService/GetCall": see, "/toold.v1.CallService/ListCalls": see,
		"/toold.v1.CallService/SendInput":    start,
		"/toold.v1.CallService/ReadArtifact": see, "/toold.v1.CallService/GetRun": see,
		"/toold.v1.CallService/ListRuns": see, "/toold.v1.CallService/ListThreads": see, "/toold.v1.CallService/GetThread": see,
		"/toold.v1.CallService/CancelCall": end, "/toold.v1.CallService/CancelCalls": end, "/toold.v1.CallService/EndRun": end,
		"/toold.v1.CallService/ListRules":  see,
		"/toold.v1.CallService/RevokeRule": {"caller", "delegate", "approver", "operator"},
		"/toold.v1.CallService/GetPolicy":  {"operator", "viewer"}, "/toold.v1.CallService/TryRules": {"operator"},
		"/toold.v1.CallService/SetPermissionMode": {"caller", "delegate", "approver", "operator"},
		"/toold.v1.ToolService/ListTools":         see, "/toold.v1.ToolService/GetTool": see, "/toold.v1.ToolService/WatchTools": see,
		"/toold.v1.ToolService/ExportTools":     see,
		"/toold.v1.DocumentService/GetDocument": look, "/toold.v1.DocumentService/ListDocuments": look,
		"/toold.v1.DocumentService/PutDocument": end, "/toold.v1.DocumentService/DeleteDocument": end,
		"/toold.v1.WorkerService/Connect":        {"worker", "operator"},
		"/toold.v1.AdminService/ListDeadLetters": {"operator"}, "/toold.v1.AdminService/RetryDeadLetter": {"operator"},
		"/toold.v1.AdminService/GetInfo": everyRole,
		"/toold.v1.AdminService/Reload":  {"admin"}, "/toold.v1.AdminService/Drain": {"admin"}, "/toold.v1.AdminService/SetLogLevel": {"admin"},
		"/toold.v1.AdminService/ListQuarantinedTools": tenants, "/toold.v1.AdminService/AcceptTool": tenants, "/toold.v1.AdminService/RefuseTool": tenants,
		"/toold.v1.AdminService/ListDefinitions": {"approver", "viewer", "operator", "admin"}, "/toold.v1.ToolService/CountToolCalls": see,
		"/toold.v1.AdminService/ListSources": {"operator", "viewer", "admin"}, "/toold.v1.AdminService/ListSecrets": tenants,
		"/toold.v1.AdminService/CreateToken": tenants, "/toold.v1.AdminService/ListTokens": tenants, "/toold.v1.AdminService/RevokeToken": tenants, "/toold.v1.AdminService/CreateLogin": everyRole,
		"/toold.v1.AdminService/ReleaseCalls": {"operator"}, "/toold.v1.AdminService/Backup": {"admin"}, "/toold.v1.AdminService/Purge": {"operator"},
		"/toold.v1.AdminService/ReadAudit": {"operator"}, "/toold.v1.AdminService/VerifyAudit": {"operator"}, "/toold.v1.AdminService/ListAuditCheckpoints": {"operator"},
		"/toold.v1.AdminService/RetrySource": tenants, "/toold.v1.AdminService/GetLoad": {"admin"},
		"/toold.v1.AdminService/ListWorkers": {"operator", "viewer", "admin"}, "/toold.v1.AdminService/ListProblems": {"operator", "viewer", "admin"},
		"/grpc.health.v1.Health/Check": {""}, "/grpc.health.v1.Health/List": everyRole, "/grpc.health.v1.Health/Watch": everyRole,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      everyRole,
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": everyRole,
	}
}

// registered returns the methods that the server lists through reflection.
func registered(t *testing.T, c *grpc.ClientConn) []protoreflect.MethodDescriptor {
	t.Helper()
	stream, err := reflectionv1.NewServerReflectionClient(c).ServerReflectionInfo(within(t))
	must(t, err)
	must(t, stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}))
	resp, err := stream.Recv()
	must(t, err)
	must(t, stream.CloseSend())
	var methods []protoreflect.MethodDescriptor
	for _, s := range resp.GetListServicesResponse().GetService() {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(s.GetName()))
		must(t, err)
		service, ok := d.(protoreflect.ServiceDescriptor)
		if !ok {
			t.Fatalf("%s is no service", s.GetName())
		}
		for i := range service.Methods().Len() {
			methods = append(methods, service.Methods().Get(i))
		}
	}
	return methods
}

// TestT57EveryMethodWithEachRole (T57) calls every registered method with each role, and without a token. The status of each response must
// match the table.
func TestT57EveryMethodWithEachRole(t *testing.T) {
	var tokens []access.Token
	for _, role := range everyRole {
		tokens = append(tokens, access.Token{Hash: hashOf(tokenOf("only-" + role)), Principal: tool.Principal{Namespace: "default", Subject: "only-" + role, Roles: []string{role}}})
	}
	w := newWorld(t, options{tokens: tokens})
	table := mayCall()
	for _, m := range registered(t, w.as("vera")) {
		name := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
		roles, known := table[name]
		if !known {
			t.Errorf("%s is served and in no table", name)
		}
		delete(table, name)
		for _, role := range append([]string{""}, everyRole...) {
			want := slices.Contains(roles, role) || slices.Contains(roles, "")
			err := probe(t, w, role, m, want)
			for role == "" && status.Code(err) == codes.Unavailable { // The server ends a connection without a credential after a few refusals, so try again on a new one.
				err = probe(t, w, role, m, want)
			}
			code, why := reason(err)
			refused := code == codes.Unauthenticated || code == codes.PermissionDenied && why == "ROLE_REQUIRED"
			if refused == want {
				t.Errorf("%s as %q: %v, want allowed %t", name, role, err, want)
			}
			if role == "" && !want && (code != codes.Unauthenticated || why != "TOKEN_REQUIRED") {
				t.Errorf("%s without a token: %v", name, err)
			}
		}
	}
	for name := range table {
		t.Errorf("%s is in the table and not served", name)
	}
}

// probe calls a method with an empty request, and returns how the request ended. If the method is permitted and is a stream, probe closes
// the stream after a short time. If the method is not permitted, probe waits for the refusal.
func probe(t *testing.T, w *world, role string, m protoreflect.MethodDescriptor, allowed bool) error {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	if m.IsStreamingServer() && allowed {
		ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
	}
	c := w.as("")
	if role != "" {
		c = w.as("only-" + role)
	}
	req := newMessage(t, m.Input())
	_, err := invoke(ctx, c, m, req, func() proto.Message { return newMessage(t, m.Output()) })
	if status.Code(err) == codes.DeadlineExceeded {
		return nil // The stream was permitted: it waits for events.
	}
	return err
}

// TestT57MethodWithoutEntry (T57) checks that a server with a method that is not in the table does not start.
func TestT57MethodWithoutEntry(t *testing.T) {
	w := newWorld(t, options{})
	auth, err := access.NewAuth(userTokens(), nil)
	must(t, err)
	services, err := service.New(service.Config{Engine: stubEngine{}, DeadLetters: w.engine.Outbox(), Tools: stubTools{}, Policy: wire.Policy(wire.PolicyConfig{}), Admin: w.admin, Auth: auth})
	must(t, err)
	s, err := grpcserver.New(grpcserver.Config{Service: services})
	must(t, err)
	defer s.Shutdown(context.Background())
	defer services.Stop()
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "toold.v1.Forgotten", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Open"}}}, struct{}{})
	lis, err := grpcserver.ListenTCP(context.Background(), "127.0.0.1:0", false)
	must(t, err)
	if err := s.Serve(lis); err == nil || !strings.Contains(err.Error(), "/toold.v1.Forgotten/Open") {
		t.Errorf("Serve = %v, want the method named", err)
	}
}

type (
	stubEngine struct{ service.Engine }
	stubTools  struct{ service.Tools }
)

// TestT58Tenants (T58) checks that a tenant cannot see the data of another tenant, and cannot use the other tenant's page token.
func TestT58Tenants(t *testing.T) {
	w := newWorld(t, options{})
	ctx := within(t)
	spec := &tooldv1.CallSpec{Tool: "write", Arguments: `{"text":"x"}`, CallId: longID("tenant"), Run: &tooldv1.Run{RunId: "r1"}}
	resp, err := w.calls("alice").CallTool(ctx, &tooldv1.CallToolRequest{Spec: spec})
	must(t, err)
	_, err = w.calls("alice").CallTool(ctx, &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "talk", CallId: longID("second")}})
	must(t, err)
	s := resp.GetCall().GetSuspension()
	m := w.calls("mallory")
	_, err = m.GetCall(ctx, &tooldv1.GetCallRequest{CallId: spec.GetCallId()})
	wantRefusal(t, err, codes.NotFound, "CALL_NOT_FOUND")
	_, err = m.CancelCall(ctx, &tooldv1.CancelCallRequest{CallId: spec.GetCallId()})
	wantRefusal(t, err, codes.NotFound, "CALL_NOT_FOUND")
	_, err = m.ReadArtifact(ctx, &tooldv1.ReadArtifactRequest{CallId: spec.GetCallId(), Name: "stdout"})
	wantRefusal(t, err, codes.NotFound, "CALL_NOT_FOUND")
	_, err = m.GetRun(ctx, &tooldv1.GetRunRequest{RunId: "r1"})
	wantRefusal(t, err, codes.NotFound, "RUN_NOT_FOUND")
	_, err = m.EndRun(ctx, &tooldv1.EndRunRequest{RunId: "r1"})
	wantRefusal(t, err, codes.NotFound, "RUN_NOT_FOUND")
	watch, err := m.WatchCalls(ctx, &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_CallId{CallId: spec.GetCallId()}})
	must(t, err)
	_, err = watch.Recv()
	wantRefusal(t, err, codes.NotFound, "CALL_NOT_FOUND")
	resume, err := m.ResumeTool(ctx, &tooldv1.ResumeToolRequest{SuspensionId: s.GetSuspensionId(), Decision: &tooldv1.Decision{
		DecisionId: longID("decision"), Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, ExpectedDigest: s.GetDigest(),
	}})
	must(t, err)
	_, err = resume.Recv()
	wantRefusal(t, err, codes.NotFound, "SUSPENSION_NOT_FOUND")

	// The list of the other tenant is empty, and this tenant cannot use a page token that alice received.
	list, err := m.ListCalls(ctx, &tooldv1.ListCallsRequest{})
	must(t, err)
	if len(list.GetCalls()) != 0 {
		t.Errorf("mallory lists %v", list.GetCalls())
	}
	page, err := w.calls("alice").ListCalls(ctx, &tooldv1.ListCallsRequest{PageSize: 1})
	must(t, err)
	if page.GetNextPageToken() == "" || len(page.GetCalls()) != 1 {
		t.Fatalf("alice's first page: %v", page)
	}
	for _, other := range []string{"mallory", "bob"} {
		_, err = w.calls(other).ListCalls(ctx, &tooldv1.ListCallsRequest{PageSize: 1, PageToken: page.GetNextPageToken()})
		wantRefusal(t, err, codes.InvalidArgument, "INVALID_FIELD")
	}
	for _, filter := range []*tooldv1.ListCallsRequest{{Tool: "write"}, {Labels: map[string]string{"a": "b"}}, {Text: "x"}, {Source: "test"}} {
		filter.PageSize, filter.PageToken = 1, page.GetNextPageToken()
		_, err = w.calls("alice").ListCalls(ctx, filter)
		wantRefusal(t, err, codes.InvalidArgument, "INVALID_FIELD")
	}
	next, err := w.calls("alice").ListCalls(ctx, &tooldv1.ListCallsRequest{PageSize: 1, PageToken: page.GetNextPageToken()})
	must(t, err)
	if len(next.GetCalls()) != 1 || next.GetCalls()[0].GetCallId() == page.GetCalls()[0].GetCallId() {
		t.Errorf("second page: %v", next)
	}

	// The same call id in another namespace belongs to another call.
	own, err := m.CallTool(ctx, &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "talk", CallId: spec.GetCallId()}})
	must(t, err)
	if own.GetCall().GetNamespace() != "other" || own.GetCall().GetTool() != "talk" {
		t.Errorf("mallory's own call: %v", own.GetCall())
	}
}

// TestT55Tokens (T55) checks that the server refuses a static token that is missing, wrong, too short, sent twice or expired. The log must
// contain the refusal but not the token.
func TestT55Tokens(t *testing.T) {
	core, logged := observer.New(zapcore.WarnLevel)
	weak := "short"
	w := newWorld(t, options{log: zap.New(core), tokens: []access.Token{
		{Hash: hashOf(tokenOf("late")), Expires: time.Now().Add(-time.Second), Principal: tool.Principal{Namespace: "default", Subject: "late", Roles: everyRole}},
		{Hash: hashOf(weak), Principal: tool.Principal{Namespace: "default", Subject: "weak", Roles: everyRole}},
	}})
	tests := []struct {
		name    string
		headers []string
		want    string // the reason of the refusal; empty means allowed
	}{
		{"good", []string{"Bearer " + tokenOf("vera")}, ""},
		{"the scheme in any case", []string{"bearer " + tokenOf("vera")}, ""},
		{"none", nil, "TOKEN_REQUIRED"},
		{"unknown", []string{"Bearer " + tokenOf("eve")}, "TOKEN_INVALID"},
		{"another scheme", []string{"Basic " + tokenOf("vera")}, "TOKEN_INVALID"},
		{"no scheme", []string{tokenOf("vera")}, "TOKEN_INVALID"},
		{"empty", []string{"Bearer "}, "TOKEN_INVALID"},
		{"a space behind it", []string{"Bearer " + tokenOf("vera") + " x"}, "TOKEN_INVALID"},
		{"its hash in place of it", []string{"Bearer " + hashOf(tokenOf("vera"))}, "TOKEN_INVALID"},
		{"short enough to be guessed", []string{"Bearer " + weak}, "TOKEN_INVALID"},
		{"two", []string{"Bearer " + tokenOf("vera"), "Bearer " + tokenOf("oscar")}, "TOKEN_INVALID"},
		{"expired", []string{"Bearer " + tokenOf("late")}, "TOKEN_EXPIRED"},
	}
	c, err := grpc.NewClient(w.tcp, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer c.Close()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx := within(t)
			for _, h := range tt.headers {
				ctx = withToken(ctx, h)
			}
			_, err := tooldv1.NewAdminServiceClient(c).GetInfo(ctx, &tooldv1.GetInfoRequest{})
			if tt.want == "" {
				must(t, err)
				return
			}
			wantRefusal(t, err, codes.Unauthenticated, tt.want)
		})
	}
	if n := logged.FilterMessage("request refused").Len(); n < 5 {
		t.Errorf("%d refusals in the log", n)
	}
	for _, line := range logged.All() {
		if text := fmt.Sprint(line.ContextMap()); strings.Contains(text, "0123456789abcdef") {
			t.Errorf("a token is in the log: %s", text)
		}
	}
}

// T59: a stream ends when the token that opened it expires.
func TestT59TokenExpiresDuringStream(t *testing.T) {
	t.Parallel()
	expires := time.Now().Add(10 * time.Second) // enough time to open all streams
	w := newWorld(t, options{tokens: []access.Token{{
		Hash: hashOf(tokenOf("brief")), Expires: expires, Principal: tool.Principal{Namespace: "default", Subject: "brief", Roles: []string{"viewer", "caller"}},
	}}})
	ctx := within(t)
	feed, err := w.calls("brief").WatchCalls(ctx, &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_Namespace{Namespace: true}, Follow: true})
	must(t, err)
	call, err := w.calls("brief").ExecuteTool(ctx, &tooldv1.ExecuteToolRequest{Spec: &tooldv1.CallSpec{Tool: "hold", CallId: longID("brief")}})
	must(t, err)
	tools, err := tooldv1.NewToolServiceClient(w.as("brief")).WatchTools(ctx, &tooldv1.WatchToolsRequest{})
	must(t, err)
	reflecting, err := reflectionv1.NewServerReflectionClient(w.as("brief")).ServerReflectionInfo(ctx)
	must(t, err)
	must(t, reflecting.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}))
	_, err = reflecting.Recv()
	must(t, err)
	_, waitErr := w.calls("brief").CallTool(ctx, &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "hold", CallId: longID("brief-too")}})
	_, feedErr := readAll(feed.Recv)
	_, callErr := readAll(call.Recv)
	var toolsErr error
	for toolsErr == nil {
		_, toolsErr = tools.Recv()
	}
	_, reflectErr := reflecting.Recv()
	for _, err := range []error{feedErr, callErr, toolsErr, reflectErr, waitErr} {
		wantRefusal(t, err, codes.Unauthenticated, "TOKEN_EXPIRED")
	}
	if late := time.Since(expires); late < 0 || late > time.Minute {
		t.Errorf("ended %v after the token", late)
	}
}

// TestT60UnixPeer (T60) checks that the server uses the user that the kernel reports for the other end of a unix socket. A user who can
// open the socket but has no access is refused.
func TestT60UnixPeer(t *testing.T) {
	me := uint32(os.Getuid())
	local := tool.Principal{Namespace: "default", Subject: "local", Roles: []string{"viewer"}}
	w := newWorld(t, options{peers: []access.Peer{{UID: me, Principal: local}}})
	if info, err := os.Stat(w.unix); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket has mode %v (%v), want 0600", info.Mode().Perm(), err)
	}
	info, err := infoOver(t, "unix:"+w.unix, nil, "")
	must(t, err)
	if info.GetNamespace() != "default" {
		t.Errorf("namespace %q", info.GetNamespace())
	}
	// A token takes precedence over the local user. With a wrong token, the request is refused although the user has access.
	_, err = infoOver(t, "unix:"+w.unix, nil, tokenOf("mallory"))
	must(t, err)
	_, err = infoOver(t, "unix:"+w.unix, nil, tokenOf("eve"))
	wantRefusal(t, err, codes.Unauthenticated, "TOKEN_INVALID")

	strangers := newWorld(t, options{peers: []access.Peer{{UID: me + 1, Principal: local}}})
	_, err = infoOver(t, "unix:"+strangers.unix, nil, "")
	wantRefusal(t, err, codes.Unauthenticated, "PEER_NOT_ALLOWED")
	_, err = infoOver(t, "unix:"+strangers.unix, nil, tokenOf("eve"))
	wantRefusal(t, err, codes.Unauthenticated, "TOKEN_INVALID")
	_, err = infoOver(t, "unix:"+strangers.unix, nil, tokenOf("oscar")) // the local user has no access, but a token is enough
	must(t, err)
	if os.Geteuid() == 0 { // only root can switch to another user
		must(t, os.Chmod(filepath.Dir(w.unix), 0o755))
		must(t, os.Chmod(w.unix, 0o777))
		_, err = infoOver(t, "passthrough:x", func(context.Context, string) (net.Conn, error) { return dialAs(65534, w.unix) }, "")
		wantRefusal(t, err, codes.Unauthenticated, "PEER_NOT_ALLOWED")
	}
}

func infoOver(t *testing.T, target string, dial func(context.Context, string) (net.Conn, error), token string) (*tooldv1.GetInfoResponse, error) {
	t.Helper()
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(bearer(token))}
	if dial != nil {
		options = append(options, grpc.WithContextDialer(dial))
	}
	c, err := grpc.NewClient(target, options...)
	must(t, err)
	defer c.Close()
	return tooldv1.NewAdminServiceClient(c).GetInfo(within(t), &tooldv1.GetInfoRequest{})
}

// dialAs connects as another user. The kernel records the user of a socket at the time of the connect.
func dialAs(uid int, path string) (conn net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // Never unlock the thread: it must end with this goroutine, because its user was changed.
		none := ^uintptr(0)
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, none, uintptr(uid), none); errno != 0 {
			err = errno
			return
		}
		conn, err = net.Dial("unix", path)
	}()
	<-done
	return conn, err
}

// TestHealth checks that health probes need no credentials. A probe names the service whose health it wants to know.
func TestHealth(t *testing.T) {
	w := newWorld(t, options{})
	ctx := within(t)
	c, err := grpc.NewClient(w.tcp, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer c.Close()
	health := grpc_health_v1.NewHealthClient(c)
	want := func(state grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for _, name := range []string{"", "toold.v1.CallService", "toold.v1.ToolService", "toold.v1.AdminService"} {
			resp, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: name})
			must(t, err)
			if resp.GetStatus() != state {
				t.Errorf("health of %q is %v, want %v", name, resp.GetStatus(), state)
			}
		}
	}
	want(grpc_health_v1.HealthCheckResponse_SERVING)
	w.server.SetReady(false)
	want(grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	_, err = health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "nothing"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("health of an unknown service: %v", err)
	}
}

func TestNewAuthRefuses(t *testing.T) {
	good := tool.Principal{Namespace: "default", Subject: "ann", Roles: []string{"approver"}}
	hash := hashOf(tokenOf("ann"))
	with := func(f func(*tool.Principal)) tool.Principal {
		p := good
		f(&p)
		return p
	}
	tests := []struct {
		name   string
		tokens []access.Token
		peers  []access.Peer
	}{
		{"no hash", []access.Token{{Principal: good}}, nil},
		{"half a hash", []access.Token{{Hash: hash[:32], Principal: good}}, nil},
		{"the same hash twice", []access.Token{{Hash: hash, Principal: good}, {Hash: hash, Principal: good}}, nil},
		{"unknown role", []access.Token{{Hash: hash, Principal: with(func(p *tool.Principal) { p.Roles = []string{"root"} })}}, nil},
		{"no role", []access.Token{{Hash: hash, Principal: with(func(p *tool.Principal) { p.Roles = nil })}}, nil},
		{"no subject", []access.Token{{Hash: hash, Principal: with(func(p *tool.Principal) { p.Subject = "" })}}, nil},
		{"no namespace", []access.Token{{Hash: hash, Principal: with(func(p *tool.Principal) { p.Namespace = "" })}}, nil},
		{"the daemon itself", []access.Token{{Hash: hash, Principal: with(func(p *tool.Principal) { p.Subject = "toold" })}}, nil},
		{"a user twice", nil, []access.Peer{{UID: 7, Principal: good}, {UID: 7, Principal: good}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := access.NewAuth(tt.tokens, tt.peers); err == nil {
				t.Error("no error")
			}
		})
	}
}

// TestCanApprove checks that CanApprove counts people and not credentials, because a four-eyes approval needs two different people.
func TestCanApprove(t *testing.T) {
	token := func(name string, expires time.Time, roles ...string) access.Token {
		return access.Token{Hash: hashOf(tokenOf(name)), Expires: expires, Principal: tool.Principal{Namespace: "default", Subject: name, Roles: roles}}
	}
	payer := token("payer", time.Time{}, "approver")
	payer.Principal.Namespace, payer.Principal.Groups = "bank", []string{"hr", "finance"}
	auth, err := access.NewAuth(
		[]access.Token{payer, token("local", time.Time{}, "approver"), token("gone", time.Now().Add(-time.Hour), "approver"), token("op", time.Time{}, "operator")},
		[]access.Peer{{UID: 1, Principal: tool.Principal{Namespace: "default", Subject: "local", Roles: []string{"approver"}}}})
	must(t, err)
	tests := []struct {
		name, namespace string
		roles, not      []string
		groups          []string
		count           int
		want            bool
	}{
		{"somebody", "default", []string{"approver"}, nil, nil, 1, true},
		{"the same person by two ways", "default", []string{"approver"}, []string{"local"}, nil, 1, false},
		{"another role", "default", []string{"approver", "operator"}, []string{"local"}, nil, 1, true},
		{"another namespace", "other", []string{"approver"}, nil, nil, 1, false},
		{"two people", "default", []string{"approver", "operator"}, nil, nil, 2, true},
		{"one person by two ways is one", "default", []string{"approver"}, nil, nil, 2, false},
		{"two people but the caller", "default", []string{"approver", "operator"}, []string{"op"}, nil, 2, false},
		{"of the group", "bank", []string{"approver"}, nil, []string{"board", "finance"}, 1, true},
		{"of another group", "bank", []string{"approver"}, nil, []string{"board"}, 1, false},
		{"of the group without the role", "bank", []string{"operator"}, nil, []string{"finance"}, 1, false},
		{"of the group but the caller", "bank", []string{"approver"}, []string{"payer"}, []string{"finance"}, 1, false},
		{"three people", "default", []string{"approver", "operator"}, nil, nil, 3, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := auth.CanApprove(tt.namespace, &tool.Approvers{Roles: tt.roles, Groups: tt.groups, Count: tt.count}, tt.not...); got != tt.want {
				t.Errorf("CanApprove = %t", got)
			}
		})
	}
}

func TestListen(t *testing.T) {
	ctx := within(t)
	for _, address := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
		if lis, err := grpcserver.ListenTCP(ctx, address, false); err == nil {
			lis.Close()
			t.Errorf("listens on %s without TLS", address)
		}
	}
	lis, err := grpcserver.ListenTCP(ctx, "0.0.0.0:0", true)
	must(t, err)
	lis.Close()

	dir, err := os.MkdirTemp("", "toold")
	must(t, err)
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, []byte("precious"), 0o600))
	if _, err := grpcserver.ListenUnix(ctx, file, false); err == nil {
		t.Error("a file was replaced by a socket")
	}
	path := filepath.Join(dir, "socket")
	first, err := grpcserver.ListenUnix(ctx, path, false)
	must(t, err)
	if _, err := grpcserver.ListenUnix(ctx, path, false); err == nil {
		t.Error("took the socket of somebody who answers")
	}
	if unix, ok := first.(*net.UnixListener); ok {
		unix.SetUnlinkOnClose(false) // leaves the socket file behind, as kill -9 does
	}
	first.Close()
	second, err := grpcserver.ListenUnix(ctx, path, false)
	if err != nil {
		t.Fatalf("a socket that nobody answers at: %v", err)
	}
	second.Close()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket outlives its listener: %v", err)
	}
}
