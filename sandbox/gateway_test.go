package sandbox_test

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toold-dev/toold/sandbox"
)

// gateway handles each connection with a function.
type gateway func(net.Conn)

func (g gateway) Serve(ctx context.Context, _ string, _ *sandbox.Policy, l net.Listener) {
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		g(c)
		c.Close()
	}
}

// The test checks that a canary detects a gateway that connects to the machine itself, and a gateway that does not answer.
func TestCanaryJudgesTheGateway(t *testing.T) {
	for _, tt := range []struct {
		name    string
		gateway gateway
		held    bool
		why     string
	}{
		{"refuses", func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 403 Forbidden\r\n\r\n") }, true, ""},
		{"leads there", func(c net.Conn) {
			b := make([]byte, 100)
			n, _ := c.Read(b)
			to := strings.Fields(string(b[:n]))[1]
			if lure, err := net.Dial("tcp", to); err == nil {
				lure.Close()
			}
			_, _ = io.WriteString(c, "HTTP/1.1 403 Forbidden\r\n\r\n")
		}, false, "reached the machine's network"},
		{"says yes", func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n") }, false, "answered 200"},
		{"says nothing", func(net.Conn) {}, false, "did not answer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := sandbox.New(sandbox.Config{Owner: owner(), StateDir: filepath.Join(t.TempDir(), "state"), Helper: small(), Gateway: tt.gateway})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			facts, err := r.Prove(t.Context(), sandbox.Policy{Workspace: t.TempDir(), Network: sandbox.NetworkProxy})
			if err != nil || facts.Net.Held != tt.held || !strings.Contains(facts.Net.Detail, tt.why) {
				t.Errorf("%+v, %v", facts.Net, err)
			}
		})
	}
}

func TestNoGatewayNoNetwork(t *testing.T) {
	spec := bash(t.TempDir(), "true")
	spec.Policy = &sandbox.Policy{Workspace: spec.Dir, Network: sandbox.NetworkProxy}
	_, err := open(t).Run(t.Context(), spec)
	if refused, ok := errors.AsType[*sandbox.RefusedError](err); !ok || refused.Fact != "net" {
		t.Errorf("%v", err)
	}
}
