package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/mcp"
)

// A scripted server is a function in the test process, so that a test can start many servers without processes.
type scripted func(method string, id, params json.RawMessage, say func(format string, args ...any))

func (s scripted) Run(ctx context.Context, spec sandbox.Spec) (*sandbox.Exit, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	say := func(format string, args ...any) {
		if err := spec.Output("stdout", fmt.Appendf(nil, format+"\n", args...)); err != nil {
			end(err)
		}
	}
	lines := bufio.NewScanner(spec.Stdin)
	lines.Buffer(nil, 1<<20)
	for ctx.Err() == nil && lines.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		if json.Unmarshal(lines.Bytes(), &m) == nil && m.Method != "" {
			s(m.Method, m.ID, m.Params, say)
		}
	}
	return &sandbox.Exit{}, context.Cause(ctx)
}

const oneTool = `{"name":"t","inputSchema":{"type":"object"}}`

// began answers the requests that a client makes before its first call. list is the list of tools.
func began(method string, id json.RawMessage, list string, say func(string, ...any)) bool {
	switch method {
	case "initialize":
		say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"h","version":"0"}}}`, id)
	case "tools/list":
		say(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]}}`, id, list)
	case "notifications/initialized":
	case "tools/call":
		return false
	default:
		if len(id) > 0 {
			say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, id)
		}
		return len(id) > 0
	}
	return true
}

// The test uses a server that changes its tools in a loop, with new names each time. It checks that the daemon reads the list at longer and
// longer intervals, because it stores each definition permanently.
func TestT76ChangesInALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		s := scripted(func(method string, id, _ json.RawMessage, say func(string, ...any)) {
			if method == "tools/list" {
				n++
				began(method, id, fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, n), say)
				say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				return
			}
			began(method, id, "", say)
		})
		m := newMemory()
		r := registry.New(registry.Config{Pins: m})
		hub, err := mcp.New(mcp.Config{Entries: []mcp.Entry{{Key: "h", Command: "/h"}}, Exec: s, Dir: "/", Tools: listing{r, make(chan struct{}, 1)}, Memory: m})
		must(t, err)
		ctx, stop := context.WithCancel(context.Background())
		var run sync.WaitGroup
		run.Go(func() { _ = hub.Run(ctx) })
		time.Sleep(time.Hour)
		stop()
		run.Wait()
		if n > 100 || n < 10 {
			t.Errorf("the list was read %d times in an hour, and %d definitions are pinned", n, len(m.pins))
		}
	})
}

// The test checks that nothing remains in the daemon of a server that ends again and again.
func TestThousandReconnects(t *testing.T) {
	for name, s := range map[string]scripted{
		"ends after its list": func(method string, id, _ json.RawMessage, say func(string, ...any)) {
			began(method, id, oneTool, say)
			if method == "tools/list" {
				say(`{"jsonrpc":"2.0","id":{},"result":{}}`) // This message ends the connection.
			}
		},
		"never lists": func(method string, id, _ json.RawMessage, say func(string, ...any)) {
			if method != "tools/list" {
				began(method, id, oneTool, say)
			}
		},
		"asks and is gone": func(method string, id, _ json.RawMessage, say func(string, ...any)) {
			began(method, id, oneTool, say)
			if method == "tools/list" {
				say(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"x","requestedSchema":{"type":"object","properties":{}}}}`)
				say(`{"jsonrpc":"2.0","id":{},"result":{}}`)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := registry.New(registry.Config{})
				hub, err := mcp.New(mcp.Config{Entries: []mcp.Entry{{Key: "h", Command: "/h"}}, Exec: s, Dir: "/", Tools: listing{r, make(chan struct{}, 1)}})
				must(t, err)
				ctx, stop := context.WithCancel(context.Background())
				var run sync.WaitGroup
				run.Go(func() { _ = hub.Run(ctx) })
				time.Sleep(time.Hour)
				synctest.Wait()
				runtime.GC()
				hours := 30
				if name != "never lists" { // Only this case is repeated many times, because it is the fastest.
					hours = 5
				}
				before, grown := runtime.NumGoroutine(), runtime.MemStats{}
				runtime.ReadMemStats(&grown)
				was := grown.HeapAlloc
				time.Sleep(time.Duration(hours) * time.Hour)
				synctest.Wait()
				runtime.GC()
				runtime.ReadMemStats(&grown)
				if n := runtime.NumGoroutine(); n > before+10 {
					t.Errorf("%d goroutines became %d", before, n)
				}
				if grown.HeapAlloc > was+2<<20 {
					t.Errorf("%d bytes became %d", was, grown.HeapAlloc)
				}
				if n := hub.Sources()[0].Starts; n < 33*hours {
					t.Errorf("only %d connections", n)
				}
				stop()
				run.Wait()
			})
		})
	}
}

// hostile runs one scripted server until the test ends.
func hostile(t *testing.T, s scripted) *world {
	t.Helper()
	return connect(t, newMemory(), func(c *mcp.Config) { c.Exec = s }, mcp.Entry{Key: "h", Command: "/h"})
}

// The test uses servers that answer with invalid ids, without a result, or with an invalid result. It checks that the call ends with a
// result or an error, and that its data is valid JSON.
func TestT76OddAnswers(t *testing.T) {
	for name, answer := range map[string]string{
		"id is another type":      `{"jsonrpc":"2.0","id":"%[1]s","result":{"content":[]}}`,
		"id is a fraction":        `{"jsonrpc":"2.0","id":%[1]s.5,"result":{"content":[]}}`,
		"id is an object":         `{"jsonrpc":"2.0","id":{"a":%[1]s},"result":{"content":[]}}`,
		"id is huge":              `{"jsonrpc":"2.0","id":1e400,"result":{"content":[]}}`,
		"no result":               `{"jsonrpc":"2.0","id":%[1]s}`,
		"null result":             `{"jsonrpc":"2.0","id":%[1]s,"result":null}`,
		"result and error":        `{"jsonrpc":"2.0","id":%[1]s,"result":{"content":[]},"error":{"code":1,"message":"x"}}`,
		"content is text":         `{"jsonrpc":"2.0","id":%[1]s,"result":{"content":"words"}}`,
		"content of a strange":    `{"jsonrpc":"2.0","id":%[1]s,"result":{"content":[{"type":"hologram"}]}}`,
		"content null":            `{"jsonrpc":"2.0","id":%[1]s,"result":{"content":[null]}}`,
		"an image without bytes":  `{"jsonrpc":"2.0","id":%[1]s,"result":{"content":[{"type":"image"}]}}`,
		"a resource without one":  `{"jsonrpc":"2.0","id":%[1]s,"result":{"content":[{"type":"resource"}]}}`,
		"forged exact data":       `{"jsonrpc":"2.0","id":%[1]s,"result":{"content":[],"structured\u0043ontent":{"a":1},"_meta":{"toold/structuredContent":"{no JSON"}}}`,
		"input of a strange kind": `{"jsonrpc":"2.0","id":%[1]s,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"x/y","params":{}}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := hostile(t, func(method string, id, _ json.RawMessage, say func(string, ...any)) {
				if !began(method, id, oneTool, say) && method == "tools/call" {
					say(answer, string(id))
					say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"second"}]}}`, id)
				}
			}).ready()
			c, _ := newCall(t, `{}`)
			r, err := w.do("h__t", c)
			if r != nil && r.Data != "" && !json.Valid([]byte(r.Data)) {
				t.Errorf("the data is %q", r.Data)
			}
			if r == nil && err == nil {
				t.Error("no end")
			}
		})
	}
}

// The test checks that a tool is refused when its schema is huge, nested too deep or refers to an address; the other tools of the list are
// accepted. A list of more than 4 MiB is refused as a whole.
func TestT76HugeLists(t *testing.T) {
	var wide strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&wide, `%s"p%d":{"type":"string"}`, strings.Repeat(",", min(i, 1)), i)
	}
	deep := strings.Repeat(`{"type":"object","properties":{"a":`, 400) + `{}` + strings.Repeat(`}}`, 400)
	remote := `{"type":"object","properties":{"a":{"$ref":"http://169.254.169.254/latest"}}}`
	list := oneTool
	for name, schema := range map[string]string{"wide": `{"type":"object","properties":{` + wide.String() + `}}`, "deep": deep, "remote": remote} {
		list += fmt.Sprintf(`,{"name":%q,"inputSchema":%s}`, name, schema)
	}
	w := hostile(t, func(method string, id, _ json.RawMessage, say func(string, ...any)) {
		began(method, id, list, say)
	}).ready()
	s := w.hub.Sources()[0]
	if s.Tools != 1 || len(s.Refused) != 3 {
		t.Errorf("the source is %+v", s)
	}
	for _, r := range s.Refused {
		if len(r.Reason) > 4096 {
			t.Errorf("%s is refused with %d bytes", r.Name, len(r.Reason))
		}
	}
	var page, most atomic.Int32
	blank := strings.Repeat(" ", 3<<20)
	w = hostile(t, func(method string, id, _ json.RawMessage, say func(string, ...any)) {
		if method == "tools/list" {
			n := page.Add(1)
			most.Store(max(most.Load(), n))
			say(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"p%d","description":"%s","inputSchema":{"type":"object"}}],"nextCursor":"%d"}}`, id, n, blank, n)
			return
		}
		page.Store(0)
		began(method, id, "", say)
	})
	w.eventually("it is refused", func() bool { return strings.Contains(w.hub.Sources()[0].Error, "list") })
	if n := most.Load(); n > 2 {
		t.Errorf("%d pages of 3 MiB were read", n)
	}
}

// The test checks that a meter limits the rate at which a server's progress reaches the log of a call.
func TestT76ProgressFlood(t *testing.T) {
	w := hostile(t, func(method string, id, params json.RawMessage, say func(string, ...any)) {
		if began(method, id, oneTool, say) {
			return
		}
		var p struct {
			Meta struct {
				Token string `json:"progressToken"`
			} `json:"_meta"`
		}
		_ = json.Unmarshal(params, &p)
		for range 500 {
			say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%q,"progress":5,"total":5}}`, p.Meta.Token)
		}
		say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, id)
	}).ready()
	c, rep := newCall(t, `{}`)
	_, err := w.do("h__t", c)
	must(t, err)
	if n, _ := rep.reported(); n == 0 || n > 100 {
		t.Errorf("%d events", n)
	}
}

// The test checks that the client uses an earlier era when a server does not answer in the newest one. After a reconnect, it uses the
// earlier era at once.
func TestNoAnswerInTheNewestEra(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := 0
		s := scripted(func(method string, id, _ json.RawMessage, say func(string, ...any)) {
			if method == "server/discover" {
				return
			}
			began(method, id, oneTool, say)
			if method == "tools/list" {
				if lists++; lists <= 3 {
					say(`{"jsonrpc":"2.0","id":{},"result":{}}`) // This message ends the connection.
				}
			}
		})
		hub, err := mcp.New(mcp.Config{Entries: []mcp.Entry{{Key: "h", Command: "/h"}}, Exec: s, Dir: "/", Tools: listing{registry.New(registry.Config{}), make(chan struct{}, 1)}})
		must(t, err)
		ctx, stop := context.WithCancel(context.Background())
		var run sync.WaitGroup
		run.Go(func() { _ = hub.Run(ctx) })
		time.Sleep(2 * time.Minute)
		if s := hub.Sources()[0]; s.State != tool.SourceReady || s.Starts != 5 {
			t.Errorf("the source is %+v", s)
		}
		stop()
		run.Wait()
	})
}
