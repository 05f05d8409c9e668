package toold_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	toold "github.com/toold-dev/toold/sdk/go"
)

// versioned is a daemon that knows only its version.
type versioned struct {
	tooldv1.UnimplementedAdminServiceServer
	version string
	asked   int
}

func (v *versioned) GetInfo(context.Context, *tooldv1.GetInfoRequest) (*tooldv1.GetInfoResponse, error) {
	v.asked++
	return &tooldv1.GetInfoResponse{Version: v.version}, nil
}

// serve returns a client of a daemon with these services.
func serve(t *testing.T, register ...func(*grpc.Server)) *toold.Client {
	t.Helper()
	return dial(t, listen(t, register...))
}

func dial(t *testing.T, address string, with ...toold.Option) *toold.Client {
	t.Helper()
	c, err := toold.Dial(address, with...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// listen returns the address of a daemon with these services.
func listen(t *testing.T, register ...func(*grpc.Server)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	for _, r := range register {
		r(srv)
	}
	go func() { _ = srv.Serve(l) }() // The goroutine returns after Stop.
	t.Cleanup(srv.Stop)
	return l.Addr().String()
}

func admin(v *versioned) func(*grpc.Server) {
	return func(s *grpc.Server) { tooldv1.RegisterAdminServiceServer(s, v) }
}

func calls(c tooldv1.CallServiceServer) func(*grpc.Server) {
	return func(s *grpc.Server) { tooldv1.RegisterCallServiceServer(s, c) }
}

func tools(c tooldv1.ToolServiceServer) func(*grpc.Server) {
	return func(s *grpc.Server) { tooldv1.RegisterToolServiceServer(s, c) }
}
