package mcp_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/mcp"
)

// real returns an entry for a server from npm.
func real(t *testing.T, name string, args ...string) mcp.Entry {
	t.Helper()
	path, err := filepath.Abs("testdata/npm/node_modules/@modelcontextprotocol/server-" + name + "/dist/index.js")
	must(t, err)
	if _, err := exec.LookPath("node"); err != nil {
		t.Skipf("it needs Node 20 or later: %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("it needs servers from npm; run scripts/mcp-servers.sh: %v", err)
	}
	return mcp.Entry{Key: name, Command: "node", Args: append([]string{path}, args...), Trust: mcp.TrustHints}
}

// listening starts server-everything on an address.
func listening(t *testing.T, kind, path string) mcp.Entry {
	t.Helper()
	e := real(t, "everything", kind)
	address := stays(t)
	_, port, _ := net.SplitHostPort(address)
	runner, err := sandbox.New(sandbox.Config{Owner: "test", StateDir: t.TempDir()})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan struct{})
	up := make(chan struct{}, 1)
	go func() {
		defer close(over)
		_, _ = runner.Run(ctx, sandbox.Spec{ // The test ends the server by a cancel, so an error is expected.
			Path: lookPath(t, "node"), Args: e.Args, Dir: t.TempDir(), Env: []string{"PATH=" + os.Getenv("PATH"), "PORT=" + port},
			Output: func(_ string, b []byte) error {
				if strings.Contains(string(b), "port "+port) {
					up <- struct{}{}
				}
				return nil
			},
		})
	}()
	t.Cleanup(func() { stop(); <-over; must(t, runner.Close()) })
	select {
	case <-up:
	case <-over:
		t.Fatal("the server did not start")
	}
	return mcp.Entry{Key: "everything", URL: "http://" + address + path, Events: kind == "sse"}
}

func lookPath(t *testing.T, name string) string {
	t.Helper()
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if path := filepath.Join(dir, name); filepath.IsAbs(path) {
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
	}
	t.Fatalf("%s is not there", name)
	return ""
}

// Tests the reference server of the protocol over each transport.
func TestServerEverything(t *testing.T) {
	for _, way := range []string{"stdio", "streamableHttp", "sse"} {
		t.Run(way, func(t *testing.T) {
			var e mcp.Entry
			switch way {
			case "stdio":
				e = real(t, "everything")
			case "sse":
				e = listening(t, way, "/sse")
			default:
				e = listening(t, way, "/mcp")
			}
			w := connect(t, newMemory(), nil, e).ready()
			if s := w.hub.Sources()[0]; !strings.HasPrefix(s.Server, "mcp-servers/everything") || s.Tools < 12 || len(s.Refused) != 1 || !strings.Contains(s.Refused[0].Reason, "only runs as a task") {
				t.Errorf("the source is %+v", s)
			}
			contains(t, w.text("everything__get-sum", `{"a":2,"b":3}`), "The sum of 2 and 3 is 5.")
			contains(t, w.text("everything__get-tiny-image", `{}`), "[image, image/png, ")
			c, _ := newCall(t, `{"location":"Chicago"}`)
			r, err := w.do("everything__get-structured-content", c)
			must(t, err)
			contains(t, r.Data, `"temperature":`, `"conditions":`)
			c, rep := newCall(t, `{"duration":0.2,"steps":2}`)
			_, err = w.do("everything__trigger-long-running-operation", c)
			must(t, err)
			if n, _ := rep.reported(); n == 0 {
				t.Error("no progress is reported")
			}
			c, rep = newCall(t, `{}`)
			asked, err := w.do("everything__trigger-elicitation-request", c)
			must(t, err)
			contains(t, string(asked.Suspension.ResponseSchema), `"const":"fish-1","title":"Tuna"`, `"required":["name"]`)
			r, err = w.do("everything__trigger-elicitation-request", answered(c, rep, asked, `{"name":"Ada","integer":7}`))
			must(t, err)
			contains(t, r.Message, "- Name: Ada", "- Favorite Integer: 7")
			c, rep = newCall(t, `{"url":"https://login.example/x","errorPath":true}`)
			first, err := w.do("everything__trigger-url-elicitation", c)
			must(t, err)
			contains(t, string(first.Suspension.Parameters), "https://modelcontextprotocol.io")
			visited := answered(c, rep, first, "")
			second, err := w.do("everything__trigger-url-elicitation", visited)
			must(t, err)
			if !second.IsPending() || second.Suspension.Action != "auth" {
				t.Fatalf("the next page is %+v", second)
			}
			contains(t, string(second.Suspension.Parameters), "https://login.example/x")
		})
	}
}

// The test checks that calls change files and memory, and that a refusal of the server becomes an answer for the model.
func TestServerFilesystemAndMemory(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	remembering := real(t, "memory")
	remembering.Env = []string{"MEMORY_FILE_PATH=" + filepath.Join(dir, "memory.jsonl")}
	w := connect(t, newMemory(), nil, real(t, "filesystem", dir), remembering).ready()
	file := filepath.Join(dir, "a.txt")
	contains(t, w.text("filesystem__write_file", `{"path":"`+file+`","content":"héllo"}`), "Successfully wrote")
	contains(t, w.text("filesystem__read_text_file", `{"path":"`+file+`"}`), "héllo")
	c, _ := newCall(t, `{"path":"/etc/passwd"}`)
	r, err := w.do("filesystem__read_text_file", c)
	must(t, err)
	if !r.IsError() || !strings.Contains(r.Error.Message, "Access denied") {
		t.Errorf("a refusal is %+v", r)
	}
	read, _ := w.tools.Lookup("filesystem__read_text_file")
	write, _ := w.tools.Lookup("filesystem__write_file")
	if read.Descriptor.Effects.Mutability != tool.ReadOnly || read.Descriptor.Effects.Tier != tool.Confirm || write.Descriptor.Effects.Safety != tool.SafetyDestructive {
		t.Errorf("effects: %+v, %+v", read.Descriptor.Effects, write.Descriptor.Effects)
	}
	contains(t, w.text("memory__create_entities", `{"entities":[{"name":"Ada","entityType":"person","observations":["counts"]}]}`), "Ada")
	c, _ = newCall(t, `{}`)
	r, err = w.do("memory__read_graph", c)
	must(t, err)
	if e, _ := w.tools.Lookup("memory__read_graph"); e.ValidateResult(r.Data) != nil {
		t.Errorf("the data does not meet the server's own schema: %s", r.Data)
	}
	contains(t, r.Data, `"counts"`)
}
