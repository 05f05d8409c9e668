package cli

import (
	"testing"
)

func TestParseBatch(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       int // number of calls; 0 means that the input is refused
	}{
		{"list", `[{"tool":"a"},{"tool":"b","arguments":{"x":1},"call_id":"c","model_call_id":"m"}]`, 2},
		{"lines", "{\"tool\":\"a\",\"arguments\":{\"x\":1}}\n{\"tool\":\"b\"}\n", 2},
		{"side by side", ` {"tool":"a"} {"tool":"b"} {"tool":"c"}`, 3},
		{"arguments as text", `{"tool":"a","arguments":"{\"x\":1}"}`, 1},
		{"nothing", "  \n", 0},
		{"empty list", "[]", 0},
		{"list without end", `[{"tool":"a"}`, 0},
		{"list with more behind it", `[{"tool":"a"}] x`, 0},
		{"unknown member", `{"tool":"a","argument":{}}`, 0}, // a misspelled "arguments" must not start a call without arguments
		{"no object", `7`, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls, err := parseBatch(tt.text)
			if len(calls) != tt.want || (err == nil) != (tt.want > 0) {
				t.Errorf("parseBatch = %v, %v; want %d calls", calls, err, tt.want)
			}
			for _, c := range calls {
				if a := c.GetArguments(); a != "" && a != `{"x":1}` {
					t.Errorf("arguments %q", a)
				}
			}
		})
	}
}
