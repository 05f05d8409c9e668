package worker_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"google.golang.org/grpc"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	toold "github.com/toold-dev/toold/sdk/go"
	"github.com/toold-dev/toold/sdk/go/worker"
)

// TestTokensStayOnThisMachine checks that workers refuse the same addresses as clients. sdk/go has a copy of this test. A shared test
// package would add the workers' modules to the go.sum of programs that use only the client.
func TestTokensStayOnThisMachine(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, address := range []string{
		"toold.example:7130", "10.0.0.5:7130", "localhost.example:7130", "127.0.0.1.example:7130", "[2001:db8::1]:7130", "dns:///toold.example:7130",
		"dns://10.0.0.53/localhost:7130", "0.0.0.0:7130", "xds:///localhost:7130", "toold.example",
	} {
		if err := worker.New(worker.Config{Address: address, Token: "secret", Pool: "p"}).Run(cancelled); err == nil {
			t.Errorf("a worker sends its token to %s", address)
		}
	}
}

// newer is a daemon of the next major version.
type newer struct {
	tooldv1.UnimplementedAdminServiceServer
}

func (newer) GetInfo(context.Context, *tooldv1.GetInfoRequest) (*tooldv1.GetInfoResponse, error) {
	return &tooldv1.GetInfoResponse{Version: "1.0.0"}, nil
}

// TestTheVersionIsChecked checks that a worker ends with an error when the daemon has another major version or the server is not toold.
func TestTheVersionIsChecked(t *testing.T) {
	for reason, register := range map[toold.Reason]func(*grpc.Server){
		toold.ReasonVersionMismatch: func(s *grpc.Server) { tooldv1.RegisterAdminServiceServer(s, newer{}) },
		toold.ReasonNotToold:        func(*grpc.Server) {},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		srv := grpc.NewServer()
		register(srv)
		go func() { _ = srv.Serve(l) }() // The goroutine returns after Stop.
		if err := worker.New(worker.Config{Address: l.Addr().String(), Pool: "p"}).Run(t.Context()); !errors.Is(err, reason) {
			t.Errorf("Run = %v, want %s", err, reason)
		}
		srv.Stop()
	}
}
