package tool_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/toold-dev/toold/tool"
)

func greet() tool.Descriptor {
	return tool.Descriptor{
		ID:          "greet",
		Description: "Greets.",
		Parameters:  json.RawMessage(`{"type":"object","properties":{"a":{"maximum":9007199254740993},"b":{}}}`),
		Effects:     tool.Effects{Tier: tool.Observe},
	}
}

func digest(t *testing.T, d tool.Descriptor) string {
	t.Helper()
	s, err := d.Digest()
	if err != nil {
		t.Fatalf("digest of %+v: %v", d, err)
	}
	return s
}

// The expected digest is a constant, because stored calls contain digests. If the digest of a descriptor changed, waiting approvals would
// become invalid.
func TestDescriptorDigestIsStable(t *testing.T) {
	const want = "ff6d658923486431e791023f3cf4d72e5c4df94cfb1aa051f9b44142a61e3a5c"
	if got := digest(t, greet()); got != want {
		t.Errorf("digest = %s, want %s", got, want)
	}
}

func TestDescriptorDigestIgnores(t *testing.T) {
	tests := []struct {
		name   string
		change func(*tool.Descriptor)
	}{
		{"member order", func(d *tool.Descriptor) {
			d.Parameters = json.RawMessage(`{"properties":{"b":{},"a":{"maximum":9007199254740993}},"type":"object"}`)
		}},
		{"white space", func(d *tool.Descriptor) {
			d.Parameters = json.RawMessage("{\n \"type\": \"object\",\"properties\":{\"a\":{\"maximum\":9007199254740993},\"b\":{}}}\n")
		}},
		{"metadata", func(d *tool.Descriptor) { d.Metadata = map[string]string{"team": "a"} }},
		{"empty maps", func(d *tool.Descriptor) { d.Annotations = map[string]string{}; d.Aliases = []string{} }},
	}
	want := digest(t, greet())
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := greet()
			tt.change(&d)
			before := string(d.Parameters)
			if got := digest(t, d); got != want {
				t.Errorf("digest changed to %s", got)
			}
			if string(d.Parameters) != before {
				t.Error("Digest changed the descriptor")
			}
		})
	}
}

func TestDescriptorDigestCovers(t *testing.T) {
	changes := map[string]func(*tool.Descriptor){
		"id":           func(d *tool.Descriptor) { d.ID = "greet2" },
		"display name": func(d *tool.Descriptor) { d.DisplayName = "Greet" },
		"description":  func(d *tool.Descriptor) { d.Description = "Greets!" },
		"category":     func(d *tool.Descriptor) { d.Category = "people" },
		// As a float64, this integer would equal the next integer, and the digests would be equal.
		"number in a schema": func(d *tool.Descriptor) {
			d.Parameters = json.RawMessage(`{"type":"object","properties":{"a":{"maximum":9007199254740992},"b":{}}}`)
		},
		"result schema":    func(d *tool.Descriptor) { d.ResultSchema = json.RawMessage(`true`) },
		"effects":          func(d *tool.Descriptor) { d.Effects.Tier = tool.Escalate },
		"mildest":          func(d *tool.Descriptor) { d.Mildest = &tool.Effects{} },
		"idempotent":       func(d *tool.Descriptor) { d.Idempotent = true },
		"on doubt":         func(d *tool.Descriptor) { d.OnDoubt = tool.OnDoubtAsk },
		"timeouts":         func(d *tool.Descriptor) { d.Timeouts.Attempt = time.Second },
		"max arguments":    func(d *tool.Descriptor) { d.MaxArguments = 1 },
		"output budget":    func(d *tool.Descriptor) { d.OutputBudget = 1 },
		"isolation":        func(d *tool.Descriptor) { d.RequiredIsolation = tool.IsolationFull },
		"network":          func(d *tool.Descriptor) { d.RequiredNetwork = "proxy" },
		"required secrets": func(d *tool.Descriptor) { d.RequiredSecrets = []string{"token"} },
		"guidance":         func(d *tool.Descriptor) { d.Guidance = "Be kind." },
		"annotations":      func(d *tool.Descriptor) { d.Annotations = map[string]string{"title": "x"} },
		"aliases":          func(d *tool.Descriptor) { d.Aliases = []string{"hello"} },
		"source":           func(d *tool.Descriptor) { d.Source = "mcp" },
		"version":          func(d *tool.Descriptor) { d.Version = "2" },
	}
	seen := map[string]string{digest(t, greet()): "none"}
	for name, change := range changes {
		d := greet()
		change(&d)
		s := digest(t, d)
		if other, ok := seen[s]; ok {
			t.Errorf("a change of %s has the digest of a change of %s", name, other)
		}
		seen[s] = name
	}
}

func TestDescriptorDigestRefusesBrokenSchemas(t *testing.T) {
	for _, schema := range []string{`{`, `{"a":}`, `nul`} {
		d := greet()
		d.ResultSchema = json.RawMessage(schema)
		if got, err := d.Digest(); err == nil {
			t.Errorf("Digest with the schema %s = %s, want an error", schema, got)
		}
	}
}

func TestDescriptorName(t *testing.T) {
	d := greet()
	if d.Name() != "greet" {
		t.Errorf("Name() = %q, want the id", d.Name())
	}
	d.DisplayName = "Greet somebody"
	if d.Name() != "Greet somebody" {
		t.Errorf("Name() = %q", d.Name())
	}
}

func TestMildestEffects(t *testing.T) {
	d := greet()
	strict := tool.Effects{Mutability: tool.Mutating, Safety: tool.SafetyMutating, Tier: tool.Observe}
	if got := d.MildestEffects(); !reflect.DeepEqual(got, strict) {
		t.Errorf("without Mildest = %+v, want the effects %+v", got, strict)
	}
	d.Mildest = &tool.Effects{Mutability: tool.ReadOnly}
	mild := tool.Effects{Mutability: tool.ReadOnly, Safety: tool.SafetyReadOnly, Tier: tool.Confirm}
	if got := d.MildestEffects(); !reflect.DeepEqual(got, mild) {
		t.Errorf("with Mildest = %+v, want %+v", got, mild)
	}
}
