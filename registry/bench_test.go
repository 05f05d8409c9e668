package registry_test

import (
	"encoding/json"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/tool"
)

// The speed targets are for the schema tenProperties and the arguments tenArguments, which have 200 bytes.
const (
	tenProperties = `{"type":"object","additionalProperties":false,"required":["path","pattern"],"properties":{
		"path":{"type":"string","minLength":1,"maxLength":4096},"pattern":{"type":"string"},"glob":{"type":"string"},
		"mode":{"type":"string","enum":["content","files","count"]},"limit":{"type":"integer","minimum":1,"maximum":10000},
		"before":{"type":"integer","minimum":0},"after":{"type":"integer","minimum":0},"case":{"type":"boolean"},
		"tags":{"type":"array","items":{"type":"string"},"maxItems":16},"at":{"type":"string","format":"date-time"}}}`
	tenArguments = `{"path":"src/main.go","pattern":"TODO","glob":"*.go","mode":"content","limit":100,"before":2,"after":2,"case":true,"tags":["a","b"],"at":"2026-01-02T03:04:05Z","x":"a"}`
)

func entry(b *testing.B, schema string) *registry.Entry {
	b.Helper()
	r := registry.New(registry.Config{})
	if err := r.Register("bench", makeTool(tool.Descriptor{ID: "bench", Parameters: json.RawMessage(schema)})); err != nil {
		b.Fatal(err)
	}
	e, _ := r.Lookup("bench")
	return e
}

func BenchmarkValidateTenProperties(b *testing.B) {
	e := entry(b, tenProperties)
	args, err := call.Parse(tenArguments[:len(tenArguments)-len(`,"x":"a"}`)] + "}").Arguments(0)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := e.ValidateArguments(args); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRefuseTenProperties(b *testing.B) {
	e := entry(b, tenProperties)
	args, err := call.Parse(tenArguments).Arguments(0)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := e.ValidateArguments(args); err == nil {
			b.Fatal("accepted")
		}
	}
}

func BenchmarkCompileTenProperties(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := registry.CompileSchema(json.RawMessage(tenProperties)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkViewLookup(b *testing.B) {
	r := registry.New(registry.Config{})
	if err := r.Register("bench", named("read", "write", "bash")...); err != nil {
		b.Fatal(err)
	}
	offer := registry.Offer{Allow: []string{"read", "b*"}, Exclude: []string{"web_*"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := r.View(offer).Lookup("bash"); !ok {
			b.Fatal("not offered")
		}
	}
}
