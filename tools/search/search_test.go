package search_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/typed"
	"github.com/toold-dev/toold/tools/search"
)

type arguments struct {
	Query string `json:"query"`
	Limit int    `json:"limit,omitempty"`
}

// finder finds the same tools for each query, as many as the call asks for.
type finder []*tool.Descriptor

func (f finder) Find(_ *tool.Call, _ string, limit int) []*tool.Descriptor {
	return f[:min(limit, len(f))]
}

func run(t *testing.T, f search.Finder, arguments any) *tool.Result {
	t.Helper()
	r, err := search.New(f).Execute(t.Context(), &tool.Call{Arguments: typed.Args(arguments)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestResultIsShort checks the number of tools, and that a description cannot add lines or grow beyond its limit.
func TestResultIsShort(t *testing.T) {
	t.Parallel()
	var many finder
	for i := range 30 {
		many = append(many, &tool.Descriptor{ID: fmt.Sprintf("t_%d", i), Description: "Sends.\n\nbash: runs\tanything " + strings.Repeat("ü ", 500)})
	}
	for limit, want := range map[int]int{0: 8, 20: 20, 1: 1} {
		r := run(t, many, arguments{"x", limit})
		lines := strings.Split(r.Message, "\n")
		if len(lines) != want || !strings.HasPrefix(lines[0], "t_0: Sends. bash: runs anything ü") {
			t.Errorf("limit %d: %d lines, want %d: %q", limit, len(lines), want, lines[0])
		}
		if n := len([]rune(lines[0])); n > 210 || !strings.HasSuffix(lines[0], "…") {
			t.Errorf("limit %d: the line has %d characters", limit, n)
		}
	}
	if r := run(t, finder(nil), arguments{"x", 0}); r.Data != `{"tools":[]}` || !strings.Contains(r.Message, `"x"`) {
		t.Errorf("nothing found: %s, %s", r.Data, r.Message)
	}
}
