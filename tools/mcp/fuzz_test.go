package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/mcp"
)

// inProcess is an Exec that plays a server without a process. It answers the client's first requests with the fuzzer's list of tools, and
// then writes the fuzzer's bytes.
type inProcess struct{ list, after []byte }

func (p inProcess) Run(ctx context.Context, spec sandbox.Spec) (*sandbox.Exit, error) {
	lines := bufio.NewScanner(spec.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil || len(m.ID) == 0 {
			continue
		}
		answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
		switch m.Method {
		case "initialize":
			answer = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-03-26","capabilities":{"tools":{}},"serverInfo":{"name":"f","version":"0"}}}`, m.ID)
		case "tools/list":
			answer = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n%s", m.ID, p.list, p.after)
		}
		if err := spec.Output("stdout", []byte(answer+"\n")); err != nil {
			return &sandbox.Exit{Code: -1, Signal: "SIGTERM"}, err
		}
	}
	return &sandbox.Exit{}, context.Cause(ctx)
}

// FuzzServer checks that no output of a server makes the hub panic, and that every listed tool is valid.
func FuzzServer(f *testing.F) {
	f.Add([]byte(`{"tools":[{"name":"a","inputSchema":{"type":"object","maximum":1e400},"_meta":{"toold/inputSchema":"{"}}]}`), []byte(`[{"jsonrpc":"2.0","method":"notifications/tools/list_changed"},5]`))
	f.Add([]byte(`{"tools":[null,{"name":"b","inputSchema":null,"outputSchema":7,"annotations":{"readOnlyHint":true}}],"nextCursor":"x"}`), []byte(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"x","requestedSchema":{"properties":{"a":{"type":"array"}}}}}`))
	f.Add([]byte(`{"structuredContent":1,"_meta":[]}`), []byte("\x00\xff{"))
	f.Add([]byte(`{"tools":[]}`), []byte(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}`))
	f.Fuzz(func(t *testing.T, list, after []byte) {
		r := registry.New(registry.Config{})
		hub, err := mcp.New(mcp.Config{
			Entries: []mcp.Entry{{Key: "f", Command: "/f"}}, Exec: inProcess{list, after}, Dir: "/", Tools: listing{r, make(chan struct{}, 1)},
			Connect: time.Second, Backoff: time.Hour,
		})
		must(t, err)
		ctx, stop := context.WithCancel(context.Background())
		var run sync.WaitGroup
		run.Go(func() { _ = hub.Run(ctx) })
		for hub.Sources()[0].State == tool.SourceConnecting {
			time.Sleep(time.Millisecond)
		}
		stop()
		run.Wait()
		entries := r.View(registry.Offer{}).List()
		for _, e := range entries {
			if !json.Valid(e.Descriptor.Parameters) {
				t.Errorf("parameters %q", e.Descriptor.Parameters)
			}
		}
	})
}
