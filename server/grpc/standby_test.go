package grpcserver_test

import (
	"net"
	"testing"

	grpcserver "github.com/toold-dev/toold/server/grpc"
)

// TestStandbyLeavesTheListener stops a standby that may not have begun to serve: the daemon must still be able to accept connections.
func TestStandbyLeavesTheListener(t *testing.T) {
	t.Parallel()
	for range 100 {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := grpcserver.NewStandby(nil)
		s.Serve(lis)
		s.Stop()
		client, err := net.Dial("tcp", lis.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn, err := lis.Accept()
		if err != nil {
			t.Fatalf("after Stop, Accept returned %v", err)
		}
		_, _, _ = conn.Close(), client.Close(), lis.Close()
	}
}
