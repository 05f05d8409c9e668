package wire_test

import (
	"testing"

	"github.com/toold-dev/toold/daemon/wire"
	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/tool"
)

// When the new id of a tool is taken, only this tool is left out. The other tools of its source are registered.
func TestReplaceLeavesOutTakenIDs(t *testing.T) {
	r := registry.New(registry.Config{})
	named := func(id string) tool.Tool { return tool.Func(tool.Descriptor{ID: id}, nil) }
	if err := r.Rename(map[registry.Origin]registry.Name{{Source: "mcp:a", ID: "search"}: {ID: "read"}}); err != nil {
		t.Fatal(err)
	}
	if err := r.Register("builtin", named("read")); err != nil {
		t.Fatal(err)
	}
	refused := wire.Sourced{Registry: r}.Replace("mcp:a", []tool.Tool{named("search"), named("send")})
	if _, sent := r.Lookup("send"); len(refused) != 1 || refused["search"] == nil || !sent {
		t.Errorf("refused: %v; send is registered: %t", refused, sent)
	}
}
