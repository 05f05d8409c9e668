package tool_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/toold-dev/toold/tool"
)

func TestValidName(t *testing.T) {
	tests := []struct {
		name string
		ok   bool
	}{
		{"read", true},
		{"_", true},
		{"Read_2-b", true},
		{strings.Repeat("a", 64), true},
		{strings.Repeat("a", 65), false},
		{"", false},
		{"fs.read", false}, // Some models do not accept a dot.
		{"9read", false},   // Some models do not accept a digit at the beginning.
		{"-read", false},   // A program could take the name for an option.
		{"read ", false},   // T75: a person cannot distinguish it from "read".
		{" read", false},
		{"read\n", false},    // The $ in the pattern must not match before a final line end.
		{"r\u0435ad", false}, // a Cyrillic letter
		{"read\x00", false},
		{"a/b", false},
		{"mcp:tool", false},
		{"\xff", false}, // invalid UTF-8
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%q", tt.name), func(t *testing.T) {
			if err := tool.ValidName(tt.name); (err == nil) != tt.ok {
				t.Errorf("ValidName(%q) = %v, want ok %t", tt.name, err, tt.ok)
			}
		})
	}
}

func TestFunc(t *testing.T) {
	want := tool.Text("hi")
	f := tool.Func(tool.Descriptor{ID: "greet"}, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		if c.ID != "c1" {
			return nil, errors.New("other call")
		}
		return want, nil
	})
	if id := f.Descriptor().ID; id != "greet" {
		t.Errorf("descriptor id = %q", id)
	}
	if got, err := f.Execute(t.Context(), &tool.Call{ID: "c1"}); got != want || err != nil {
		t.Errorf("Execute = %v, %v", got, err)
	}
}

func TestAsError(t *testing.T) {
	own := tool.Errorf(tool.Denied, "not %s", "you")
	if got := tool.AsError(fmt.Errorf("wrapped: %w", own)); got != own {
		t.Errorf("AsError(wrapped) = %+v, want the error inside", got)
	}
	if own.Error() != "not you" {
		t.Errorf("Error() = %q", own.Error())
	}
	got := tool.AsError(errors.New("disk on fire"))
	if got.Code != tool.ExecutionFailed || got.Message != "disk on fire" {
		t.Errorf("AsError(plain) = %+v", got)
	}
}

func TestArguments(t *testing.T) {
	var none tool.Arguments
	if none.Text() != "{}" || none.Value() != nil || none.String("a") != "" {
		t.Errorf("zero arguments = %q, %v, %q", none.Text(), none.Value(), none.String("a"))
	}
	args := tool.NewArguments(`{"a":"x","b":1}`, map[string]any{"a": "x", "b": 1})
	if args.Text() != `{"a":"x","b":1}` || args.String("a") != "x" || args.String("b") != "" || args.String("A") != "" {
		t.Errorf("arguments = %q, a %q, b %q, A %q", args.Text(), args.String("a"), args.String("b"), args.String("A"))
	}
}
