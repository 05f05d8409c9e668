package grpcserver_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/server/service"
	"github.com/toold-dev/toold/tool"
)

// withOlga adds a user who is caller and operator.
func withOlga(o options) options {
	o.tokens = []access.Token{{Hash: hashOf(tokenOf("olga")), Principal: tool.Principal{Namespace: "default", Subject: "olga", Roles: []string{"caller", "operator"}}}}
	return o
}

func (w *world) administers(user string) tooldv1.AdminServiceClient {
	return tooldv1.NewAdminServiceClient(w.as(user))
}

// holding returns a connection whose requests carry a token.
func (w *world) holding(token string) *grpc.ClientConn {
	w.t.Helper()
	c, err := grpc.NewClient(w.tcp, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(bearer(token)))
	must(w.t, err)
	w.t.Cleanup(func() { c.Close() })
	return c
}

// follow opens one stream of each kind on a connection. It returns functions that wait for the end of each stream.
func follow(t *testing.T, c *grpc.ClientConn) map[string]func() error {
	t.Helper()
	ctx, calls := within(t), tooldv1.NewCallServiceClient(c)
	feed, err := calls.WatchCalls(ctx, &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_Namespace{Namespace: true}, Follow: true})
	must(t, err)
	_, err = feed.Recv()
	must(t, err)
	held, err := calls.ExecuteTool(ctx, &tooldv1.ExecuteToolRequest{Spec: &tooldv1.CallSpec{Tool: "hold"}})
	must(t, err)
	_, err = held.Recv()
	must(t, err)
	tools, err := tooldv1.NewToolServiceClient(c).WatchTools(ctx, &tooldv1.WatchToolsRequest{})
	must(t, err)
	_, err = tools.Recv()
	must(t, err)
	session, err := calls.Session(ctx)
	must(t, err)
	must(t, session.Send(&tooldv1.SessionRequest{Items: []*tooldv1.SessionItem{{CorrelationId: "x", Item: &tooldv1.SessionItem_Execute{Execute: &tooldv1.ExecuteToolRequest{Spec: &tooldv1.CallSpec{Tool: "hold"}}}}}}))
	_, err = session.Recv()
	must(t, err)
	reflecting, err := reflectionv1.NewServerReflectionClient(c).ServerReflectionInfo(ctx)
	must(t, err)
	must(t, reflecting.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}))
	_, err = reflecting.Recv()
	must(t, err)
	return map[string]func() error{
		"feed": func() error { _, err := readAll(feed.Recv); return err }, "call": func() error { _, err := readAll(held.Recv); return err },
		"tools": ended(tools.Recv), "session": ended(session.Recv), "reflection": ended(reflecting.Recv),
	}
}

// ended returns a function that reads to the end of a stream.
func ended[R any](next func() (R, error)) func() error {
	return func() error {
		for {
			if _, err := next(); err != nil {
				return err
			}
		}
	}
}

// TestT137RevokedDuringStream (T137) revokes a token. All streams of this token must end, and the streams of other tokens must continue.
func TestT137RevokedDuringStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOlga(options{}))
	made, err := w.administers("adam").CreateToken(within(t), &tooldv1.CreateTokenRequest{Name: "mine", Roles: []tooldv1.Role{tooldv1.Role_ROLE_ADMIN}})
	must(t, err)
	if !strings.HasPrefix(made.GetText(), "toold_token_") || time.Until(made.GetToken().GetExpiresAt().AsTime()) < 89*24*time.Hour {
		t.Errorf("made %v", made)
	}
	text := w.token(t, "olga", tooldv1.Role_ROLE_CALLER, tooldv1.Role_ROLE_OPERATOR)
	ends := follow(t, w.holding(text.GetText()))
	waits := make(chan error, 1)
	go func() {
		_, err := tooldv1.NewCallServiceClient(w.holding(text.GetText())).CallTool(context.Background(), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "hold", CallId: longID("revoked")}})
		waits <- err
	}()
	for { // Wait until the call is accepted, so that its client already waits for it.
		if _, err := w.calls("olga").GetCall(within(t), &tooldv1.GetCallRequest{CallId: longID("revoked")}); err == nil {
			break
		}
	}
	other, err := w.calls("vera").WatchCalls(within(t), &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_Namespace{Namespace: true}, Follow: true})
	must(t, err)
	got, err := w.administers("olga").RevokeToken(within(t), &tooldv1.RevokeTokenRequest{TokenId: text.GetToken().GetTokenId()})
	must(t, err)
	if got.GetRevoked() != 1 {
		t.Errorf("%d ended", got.GetRevoked())
	}
	for name, end := range ends {
		t.Log(name)
		wantRefusal(t, end(), codes.Unauthenticated, "TOKEN_REVOKED")
	}
	wantRefusal(t, <-waits, codes.Unauthenticated, "TOKEN_REVOKED")
	_, err = tooldv1.NewAdminServiceClient(w.holding(text.GetText())).GetInfo(within(t), &tooldv1.GetInfoRequest{})
	wantRefusal(t, err, codes.Unauthenticated, "TOKEN_INVALID")
	if _, err := other.Recv(); err != nil {
		t.Errorf("another stream: %v", err)
	}
	_, err = w.administers("olga").RevokeToken(within(t), &tooldv1.RevokeTokenRequest{TokenId: made.GetToken().GetTokenId()})
	wantRefusal(t, err, codes.PermissionDenied, "ROLE_REQUIRED")
}

func who(t *testing.T, w *world, user string) *access.Identity {
	t.Helper()
	id, err := w.service.Auth().Identify(t.Context(), access.Credential{Authorization: []string{"Bearer " + tokenOf(user)}})
	must(t, err)
	return id
}

func (w *world) token(t *testing.T, user string, roles ...tooldv1.Role) *tooldv1.CreateTokenResponse {
	t.Helper()
	got, err := w.administers(user).CreateToken(within(t), &tooldv1.CreateTokenRequest{Name: "test", Roles: roles})
	must(t, err)
	return got
}

// TestT137RemovedDuringStream (T137) checks that the streams of a configured token end when a reload removes the token. The stream of a
// call ends at its next frame.
func TestT137RemovedDuringStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOlga(options{heartbeat: 50 * time.Millisecond}))
	ends := follow(t, w.as("olga"))
	_, err := w.service.Auth().Replace(t.Context(), userTokens())
	must(t, err)
	for name, end := range ends {
		t.Log(name)
		wantRefusal(t, end(), codes.Unauthenticated, "TOKEN_REVOKED")
	}
}

// TestT137TokensOverTheAPI (T137) checks the refusals of the token methods, their pages, and that audit records never contain the text of a
// token.
func TestT137TokensOverTheAPI(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var audited []string
	w := newWorld(t, withOlga(options{config: func(c *service.Config) {
		c.Operation = func(_ context.Context, op service.Operation) {
			mu.Lock()
			defer mu.Unlock()
			audited = append(audited, fmt.Sprint(op.Method, " ", op.Of, " ", op.Refused))
		}
	}}))
	ctx := within(t)
	for _, req := range []*tooldv1.CreateTokenRequest{
		{Name: "x", Roles: []tooldv1.Role{tooldv1.Role_ROLE_ADMIN}},
		{Name: "x", Roles: []tooldv1.Role{tooldv1.Role_ROLE_CALLER}, Namespace: "other"},
		{Name: "x", Roles: []tooldv1.Role{tooldv1.Role_ROLE_CALLER}, Subject: "vera"},
	} {
		_, err := w.administers("olga").CreateToken(ctx, req)
		wantRefusal(t, err, codes.PermissionDenied, "GRANT_EXCEEDED")
	}
	_, err := w.administers("olga").CreateToken(ctx, &tooldv1.CreateTokenRequest{Name: "x", Roles: []tooldv1.Role{99}})
	wantRefusal(t, err, codes.InvalidArgument, "INVALID_FIELD")
	_, err = w.administers("olga").ListTokens(ctx, &tooldv1.ListTokensRequest{Namespace: "other"})
	wantRefusal(t, err, codes.PermissionDenied, "ROLE_REQUIRED")
	_, err = w.administers("olga").CreateLogin(ctx, &tooldv1.CreateLoginRequest{}) // CreateLogin fails, because this server has no HTTP endpoint.
	wantRefusal(t, err, codes.FailedPrecondition, "NO_HTTP")
	link, _, err := w.service.Auth().CreateLogin(ctx, who(t, w, "olga"))
	must(t, err)
	session, _, err := w.service.SignIn(ctx, link)
	must(t, err)
	must(t, w.service.SignOut(ctx, session))
	must(t, w.service.SignOut(ctx, session)) // not reported, because the session has ended
	want, got, texts := []string(nil), []string(nil), []string{link, session}
	for range 3 {
		made := w.token(t, "olga", tooldv1.Role_ROLE_CALLER)
		want, texts = append(want, made.GetToken().GetTokenId()), append(texts, made.GetText())
	}
	request := &tooldv1.ListTokensRequest{PageSize: 2}
	for more := true; more; more = request.PageToken != "" {
		page, err := w.administers("olga").ListTokens(ctx, request)
		must(t, err)
		for _, one := range page.GetTokens() {
			got = append(got, one.GetTokenId())
		}
		request.PageToken = page.GetNextPageToken()
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
	mu.Lock()
	defer mu.Unlock()
	all := strings.Join(audited, "\n")
	for _, text := range texts {
		if strings.Contains(all, text) {
			t.Error("the text of a token is audited")
		}
	}
	if strings.Count(all, "SignIn") != 1 || strings.Count(all, "SignOut") != 1 || !strings.Contains(all, "CreateToken map[roles:caller] \n") || !strings.Contains(all, "GRANT_EXCEEDED") {
		t.Errorf("audited: %s", all)
	}
}
