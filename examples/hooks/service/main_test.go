package main

import (
	"net"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/plugins/remote"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

func TestPolicy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	lis, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	tooldv1.RegisterHookServiceServer(server, policy{})
	go server.Serve(lis)
	defer server.Stop()
	h, err := remote.New(remote.Config{Name: "policy", Address: "unix:" + path})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for _, tt := range []struct {
		role   string
		safety tool.Safety
		want   hook.VerdictKind
	}{
		{"caller", tool.SafetyMutating, hook.KindAllow},
		{"caller", tool.SafetyDestructive, hook.KindSetResult},
		{"operator", tool.SafetyDestructive, hook.KindAllow},
	} {
		in := &hook.Input{
			CallID: "call-000000000001", Descriptor: &tool.Descriptor{ID: "bash"}, Caller: tool.Principal{Subject: "alice", Roles: []string{tt.role}},
			Assessment: tool.Effects{Safety: tt.safety},
		}
		if v, err := h.Check(t.Context(), in); err != nil || v.Kind() != tt.want {
			t.Errorf("%s, %s: %s, %v; want %s", tt.role, tt.safety, v.Kind(), err, tt.want)
		}
	}
}
