package grpcserver_test

import (
	"context"
	"strings"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// BenchmarkExecuteTool runs client and server in one process. Use it to compare results before and after a change; the absolute time has
// little meaning.
func BenchmarkExecuteTool(b *testing.B) {
	w := newWorld(b, options{})
	request := &tooldv1.ExecuteToolRequest{Spec: &tooldv1.CallSpec{Tool: "echo", Arguments: `{"text":"` + strings.Repeat("x", 190) + `"}`}}
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		client := w.calls("alice")
		for pb.Next() {
			stream, err := client.ExecuteTool(context.Background(), request)
			if err == nil {
				_, err = readAll(stream.Recv)
			}
			check(b, err)
		}
	})
}

func BenchmarkCallTool(b *testing.B) {
	w := newWorld(b, options{})
	request := &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "echo", Arguments: `{"text":"` + strings.Repeat("x", 190) + `"}`}}
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		client := w.calls("alice")
		for pb.Next() {
			_, err := client.CallTool(context.Background(), request)
			check(b, err)
		}
	})
}
