package grpcserver_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/toold-dev/toold/server/access"
	grpcserver "github.com/toold-dev/toold/server/grpc"
	httpserver "github.com/toold-dev/toold/server/http"
	"github.com/toold-dev/toold/tool"
)

// An endpoint calls a method with an empty request and the token of a user, and returns the error of the request.
type endpoint func(ctx context.Context, m protoreflect.MethodDescriptor, token string) error

// TestT57EveryMethodOverEachEndpoint (T57) calls every method of the API with each role and without a token, over each endpoint except the
// gRPC server. The outcome must match the table that TestT57EveryMethodWithEachRole uses for the gRPC server.
func TestT57EveryMethodOverEachEndpoint(t *testing.T) {
	var tokens []access.Token
	for _, role := range everyRole {
		tokens = append(tokens, access.Token{Hash: hashOf(tokenOf("only-" + role)), Principal: tool.Principal{Namespace: "default", Subject: "only-" + role, Roles: []string{role}}})
	}
	w := newWorld(t, options{tokens: tokens})
	base, client := w.overHTTP()
	endpoints := map[string]endpoint{
		"Connect with JSON": overConnect(client, base, connect.WithProtoJSON()),
		"plain JSON":        overPlain(base, overConnect(client, base, connect.WithProtoJSON())),
		"gRPC-Web":          overConnect(client, base, connect.WithGRPCWeb()),
		"gRPC over HTTP":    overConnect(client, base, connect.WithGRPC()),
		"inside the daemon": inside(w.service.Conn()),
	}
	for name, over := range endpoints {
		t.Run(name, func(t *testing.T) {
			var probes errgroup.Group
			probes.SetLimit(16) // Each probe may open a connection, and the server bounds the number of connections without a credential.
			for method, roles := range mayCall() {
				m := methodOf(t, method)
				if !strings.HasPrefix(method, "/toold.") || name == "inside the daemon" && m.IsStreamingClient() {
					continue
				}
				for _, role := range append([]string{""}, everyRole...) {
					probes.Go(func() error { checkAccess(t, over, m, role, slices.Contains(roles, role)); return nil })
				}
			}
			_ = probes.Wait() // no probe returns an error
		})
	}
}

// checkAccess checks whether a role may call a method.
func checkAccess(t *testing.T, over endpoint, m protoreflect.MethodDescriptor, role string, want bool) {
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	if (m.IsStreamingServer()) && want {
		ctx, cancel = context.WithTimeout(ctx, 200*time.Millisecond) // A permitted stream waits for events.
		defer cancel()
	}
	token := ""
	if role != "" {
		token = tokenOf("only-" + role)
	}
	err := over(ctx, m, token)
	code, why := reason(err)
	refused := code == codes.Unauthenticated || code == codes.PermissionDenied && why == "ROLE_REQUIRED"
	if refused == want || code == codes.Unimplemented || code == codes.Unknown {
		t.Errorf("%s as %q: %v, want allowed %t", m.FullName(), role, err, want)
	}
	if role == "" && (code != codes.Unauthenticated || why != "TOKEN_REQUIRED") {
		t.Errorf("%s without a token: %v", m.FullName(), err)
	}
}

// overHTTP serves HTTP for the world, and returns the base address and a client that uses HTTP/2.
func (w *world) overHTTP() (base string, client *http.Client) {
	w.t.Helper()
	s, err := httpserver.New(httpserver.Config{Service: w.service, Metrics: http.NotFoundHandler()})
	must(w.t, err)
	lis, err := grpcserver.ListenTCP(context.Background(), "127.0.0.1:0", false)
	must(w.t, err)
	var serving sync.WaitGroup
	serving.Go(func() { check(w.t, s.Serve(lis)) })
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	w.t.Cleanup(func() {
		transport.CloseIdleConnections()
		now, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.Shutdown(now)
		serving.Wait()
	})
	return "http://" + lis.Addr().String(), &http.Client{Transport: transport}
}

// overConnect calls methods as a generated client of connect-go does.
func overConnect(client *http.Client, base string, protocol connect.ClientOption) endpoint {
	return func(ctx context.Context, m protoreflect.MethodDescriptor, token string) error {
		c := connect.NewClient[dynamicpb.Message, dynamicpb.Message](client, base+nameOf(m), protocol, connect.WithSchema(m), connect.WithResponseInitializer(func(_ connect.Spec, into any) error {
			*into.(*dynamicpb.Message) = *dynamicpb.NewMessage(m.Output())
			return nil
		}))
		authorize := func(h http.Header) {
			if token != "" {
				h.Set("Authorization", "Bearer "+token)
			}
		}
		req := connect.NewRequest(dynamicpb.NewMessage(m.Input()))
		authorize(req.Header())
		switch {
		case m.IsStreamingClient():
			s := c.CallBidiStream(ctx)
			authorize(s.RequestHeader())
			err := s.Send(req.Msg)
			if err != nil && !errors.Is(err, io.EOF) {
				return fromConnect(err)
			}
			_ = s.CloseRequest() // the response says how the request ended
			for err = nil; err == nil; {
				_, err = s.Receive()
			}
			_ = s.CloseResponse()
			return fromConnect(err)
		case m.IsStreamingServer():
			s, err := c.CallServerStream(ctx, req)
			if err != nil {
				return fromConnect(err)
			}
			for s.Receive() {
			}
			_ = s.Close()
			return fromConnect(s.Err())
		}
		_, err := c.CallUnary(ctx, req)
		return fromConnect(err)
	}
}

// fromConnect converts an error of connect-go to a status with its reason. The end of a permitted stream is no error.
func fromConnect(err error) error {
	var e *connect.Error
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, context.DeadlineExceeded) || connect.CodeOf(err) == connect.CodeDeadlineExceeded {
		return nil
	}
	if !errors.As(err, &e) {
		return err
	}
	st := status.New(codes.Code(e.Code()), e.Message())
	for _, d := range e.Details() {
		if v, err := d.Value(); err == nil {
			if info, ok := v.(*errdetails.ErrorInfo); ok {
				st, _ = st.WithDetails(info)
			}
		}
	}
	return st.Err()
}

// inside calls methods as parts of the daemon do.
func inside(conn grpc.ClientConnInterface) endpoint {
	return func(ctx context.Context, m protoreflect.MethodDescriptor, token string) error {
		c := &access.Credential{}
		if token != "" {
			c.Authorization = []string{"Bearer " + token}
		}
		ctx = access.WithCredential(ctx, c)
		if !m.IsStreamingServer() {
			return conn.Invoke(ctx, nameOf(m), inputOf(m), outputOf(m))
		}
		s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, nameOf(m))
		if err == nil {
			err = s.SendMsg(inputOf(m))
		}
		for err == nil {
			err = s.RecvMsg(outputOf(m))
		}
		if errors.Is(err, io.EOF) || status.Code(err) == codes.DeadlineExceeded {
			return nil
		}
		return err
	}
}

func nameOf(m protoreflect.MethodDescriptor) string {
	return "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
}

func inputOf(m protoreflect.MethodDescriptor) proto.Message  { return generated(m.Input()) }
func outputOf(m protoreflect.MethodDescriptor) proto.Message { return generated(m.Output()) }

func generated(d protoreflect.MessageDescriptor) proto.Message {
	typ, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		panic(err) // every message of the API is linked in
	}
	return typ.New().Interface()
}

// methodOf returns the descriptor of a method by its full name.
func methodOf(t *testing.T, name string) protoreflect.MethodDescriptor {
	t.Helper()
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(name, "/"), "/", ".")))
	must(t, err)
	return d.(protoreflect.MethodDescriptor)
}
