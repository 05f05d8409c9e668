package lifecycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store/memory"
	"github.com/toold-dev/toold/tool"
)

const tenProperties = `{"type":"object","additionalProperties":false,"required":["path","pattern"],"properties":{
"path":{"type":"string","minLength":1},"pattern":{"type":"string"},"limit":{"type":"integer","minimum":1},"offset":{"type":"integer"},
"recursive":{"type":"boolean"},"ignore_case":{"type":"boolean"},"ratio":{"type":"number"},"mode":{"type":"string","enum":["content","files"]},
"tags":{"type":"array","items":{"type":"string"}},"note":{"type":"string"}}}`

const tenArguments = `{"path":"src/main/server.go","pattern":"func Serve","limit":200,"offset":10,"recursive":true,"ignore_case":false,"ratio":0.75,"mode":"content","tags":["alpha","beta"],"note":"a short remark, 200 bytes"}`

// BenchmarkReadOnly measures one call from Execute to its last frame, without an endpoint and without a disk.
func BenchmarkReadOnly(b *testing.B) {
	tools := &toolbox{}
	d := tool.Descriptor{ID: "noop", Effects: reading, Parameters: json.RawMessage(tenProperties)}
	tools.put(tool.Func(d, func(context.Context, *tool.Call) (*tool.Result, error) {
		return &tool.Result{Status: tool.StatusSuccess, Data: `{"ok":true}`}, nil
	}))
	allow := namedGate("allow", func(*hook.Input) (hook.Verdict, error) { return hook.Allow(), nil })
	e, err := lifecycle.New(lifecycle.Config{Store: memory.New(memory.Config{}), Tools: tools, Answers: answers{}, Hooks: hook.Set{Gate: []hook.Entry[hook.Gate]{allow}}})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			w, err := e.Execute(b.Context(), alice, call.Spec{Tool: "noop", Arguments: tenArguments}, call.ExecuteOptions{Attended: true})
			if err != nil {
				b.Error(err)
				return
			}
			for err == nil {
				_, err = w.Next(b.Context())
			}
			w.Close()
			if !errors.Is(err, io.EOF) {
				b.Error(err)
			}
		}
	})
}

// BenchmarkDocuments measures the cost of documents for three calls: one uses no document, one reads one of three documents, and one adds
// to a document.
func BenchmarkDocuments(b *testing.B) {
	key := tool.Key[int]{Scope: tool.RunScope, Name: "n"}
	for name, run := range map[string]func(*tool.Call) *tool.Result{
		"none": func(*tool.Call) *tool.Result { return &tool.Result{Status: tool.StatusSuccess} },
		"get": func(c *tool.Call) *tool.Result {
			_, _, _ = key.Get(c)
			return &tool.Result{Status: tool.StatusSuccess}
		},
		"add": func(*tool.Call) *tool.Result {
			return (&tool.Result{Status: tool.StatusSuccess}).With(key.Add(1))
		},
	} {
		b.Run(name, func(b *testing.B) {
			tools := &toolbox{}
			tools.put(made("t", reading, func(_ context.Context, c *tool.Call) (*tool.Result, error) { return run(c), nil }))
			e, err := lifecycle.New(lifecycle.Config{Store: memory.New(memory.Config{}), Tools: tools, Answers: answers{}})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				w, err := e.Execute(b.Context(), alice, call.Spec{Tool: "t", Run: tool.Run{ID: "run-1"}}, call.ExecuteOptions{Attended: true})
				if err != nil {
					b.Fatal(err)
				}
				for err == nil {
					_, err = w.Next(b.Context())
				}
				w.Close()
			}
		})
	}
}
