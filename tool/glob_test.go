package tool_test

import (
	"testing"

	"github.com/toold-dev/toold/tool"
)

func TestGlob(t *testing.T) {
	tests := []struct {
		pattern, name string
		match, valid  bool
	}{
		{"read", "read", true, true},
		{"r*", "read", true, true},
		{"r*", "write", false, true},
		{"r?ad", "read", true, true},
		{"[rw]*", "write", true, true},
		{"", "", true, true},
		{"", "read", false, true},
		{"[", "[", false, false},
		{"read[", "read", false, false},
		{"write[", "read", false, false}, // The first character already differs, but the malformed rest must still be found.
	}
	for _, tt := range tests {
		if got := tool.Glob(tt.pattern, tt.name); got != tt.match {
			t.Errorf("Glob(%q, %q) = %t", tt.pattern, tt.name, got)
		}
		if got := tool.ValidGlob(tt.pattern); got != tt.valid {
			t.Errorf("ValidGlob(%q) = %t", tt.pattern, got)
		}
	}
}

func TestAgentOffers(t *testing.T) {
	d := &tool.Descriptor{ID: "read", Aliases: []string{"cat"}, SourceID: "view"}
	tests := []struct {
		name           string
		allow, exclude []string
		offers         bool
	}{
		{"no globs", nil, nil, true},
		{"allow", []string{"write", "r*"}, nil, true},
		{"another is allowed", []string{"write"}, nil, false},
		{"an alias does not allow", []string{"cat"}, nil, false},
		{"malformed allow", []string{"["}, nil, false},
		{"malformed allow beside a good one", []string{"[", "read"}, nil, true},
		{"exclude wins", []string{"read"}, []string{"r*"}, false},
		{"exclude by an alias", nil, []string{"cat"}, false},
		{"exclude by the id of its source", nil, []string{"view"}, false},
		{"the id of its source does not allow", []string{"view"}, nil, false},
		{"another is excluded", nil, []string{"write"}, true},
		{"malformed exclude", nil, []string{"[rite"}, false},
	}
	for _, tt := range tests {
		a := tool.Agent{Allow: tt.allow, Exclude: tt.exclude}
		if got := a.Offers(d); got != tt.offers {
			t.Errorf("%s: Offers = %t", tt.name, got)
		}
	}
}
