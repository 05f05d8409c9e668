package tool_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/toold-dev/toold/tool"
)

func TestOverlap(t *testing.T) {
	file := func(id string) []tool.Resource { return []tool.Resource{{Kind: "file", ID: id}} }
	shared := func(id string) []tool.Resource { return []tool.Resource{{Kind: "file", ID: id, Shared: true}} }
	tests := []struct {
		name string
		a, b []tool.Resource
		want bool
	}{
		{"exclusive calls", nil, nil, true},
		{"an exclusive call", nil, file("a"), true},
		{"the same", file("a"), file("a"), true},
		{"different", file("a"), file("b"), false},
		{"the beginning of a name is no folder", file("a"), file("ab"), false},
		{"a folder and a file in it", file("a"), file("a/b/c"), true},
		{"siblings", file("a/b"), file("a/c"), false},
		{"the whole kind", file(""), file("a/b"), true},
		{"another kind", file("a"), []tool.Resource{{Kind: "table", ID: "a"}}, false},
		{"both only read", shared("a"), shared("a/b"), false},
		{"one only reads", shared("a"), file("a/b"), true},
		{"letters of another case", file("a"), file("A"), false},
		{"one of several", slices.Concat(file("a"), shared("b")), slices.Concat(file("c"), file("b/d")), true},
		{"none of several", slices.Concat(file("a"), shared("b")), slices.Concat(file("c"), shared("b/d")), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, back := tool.Overlap(tt.a, tt.b), tool.Overlap(tt.b, tt.a); got != tt.want || back != tt.want {
				t.Errorf("Overlap = %t, the other way round %t, want %t", got, back, tt.want)
			}
		})
	}
}

func TestCheckResources(t *testing.T) {
	tests := []struct {
		name string
		list []tool.Resource
		want string // part of the error; empty means none
	}{
		{"none", nil, ""},
		{"the longest", []tool.Resource{{Kind: "k" + strings.Repeat("x", 31), ID: strings.Repeat("i", 1024)}}, ""},
		{"the whole kind", []tool.Resource{{Kind: "file"}}, ""},
		{"as many as possible", slices.Repeat([]tool.Resource{{Kind: "file", ID: "a"}}, 16), ""},
		{"too many", slices.Repeat([]tool.Resource{{Kind: "file", ID: "a"}}, 17), "at most 16"},
		{"no kind", []tool.Resource{{ID: "a"}}, "kind"},
		{"a long kind", []tool.Resource{{Kind: strings.Repeat("k", 33)}}, "kind"},
		{"a kind with a space", []tool.Resource{{Kind: "a b"}}, "kind"},
		{"a long id", []tool.Resource{{Kind: "file", ID: strings.Repeat("i", 1025)}}, "1025 bytes"},
		{"an id that is not UTF-8", []tool.Resource{{Kind: "file", ID: "\xff"}}, "readable"},
		{"an id with a line break", []tool.Resource{{Kind: "file", ID: "a\nb"}}, "readable"},
		{"an absolute path", []tool.Resource{{Kind: "file", ID: "/a"}}, "slashes"},
		{"a slash at the end", []tool.Resource{{Kind: "file", ID: "a/"}}, "slashes"},
		{"two slashes", []tool.Resource{{Kind: "file", ID: "a//b"}}, "slashes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tool.CheckResources(tt.list)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// TestMildestPermitsResources checks the bound on the resources of an assessment. A descriptor without resources permits none, so a source
// cannot make its calls less exclusive than the descriptor that the operator accepted.
func TestMildestPermitsResources(t *testing.T) {
	names := func(list ...tool.Resource) tool.Effects { return tool.Effects{Resources: list} }
	tests := []struct {
		name     string
		e, bound tool.Effects
		milder   bool
	}{
		{"an exclusive answer", names(), names(tool.Resource{Kind: "file"}), false},
		{"nothing is permitted", names(tool.Resource{Kind: "file", ID: "a"}), names(), true},
		{"the kind is permitted", names(tool.Resource{Kind: "file", ID: "a"}), names(tool.Resource{Kind: "file"}), false},
		{"another kind", names(tool.Resource{Kind: "table", ID: "a"}), names(tool.Resource{Kind: "file"}), true},
		{"one of two", names(tool.Resource{Kind: "file", ID: "a"}, tool.Resource{Kind: "table", ID: "a"}), names(tool.Resource{Kind: "file"}), true},
		{"shared is milder", names(tool.Resource{Kind: "file", ID: "a", Shared: true}), names(tool.Resource{Kind: "file"}), true},
		{"shared is permitted", names(tool.Resource{Kind: "file", ID: "a", Shared: true}), names(tool.Resource{Kind: "file", Shared: true}), false},
		{"below the permitted id", names(tool.Resource{Kind: "file", ID: "a/b"}), names(tool.Resource{Kind: "file", ID: "a"}), false},
		{"above the permitted id", names(tool.Resource{Kind: "file"}), names(tool.Resource{Kind: "file", ID: "a"}), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.e.MilderThan(tt.bound); got != tt.milder {
				t.Errorf("MilderThan = %t, want %t", got, tt.milder)
			}
		})
	}
}
