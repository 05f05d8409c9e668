package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/mcp"
	"github.com/toold-dev/toold/tools/mcp/mcptest"
)

func TestMain(m *testing.M) {
	sandbox.Help()
	if mode := os.Getenv(mcptest.Mode); mode != "" {
		mcptest.Main(mode)
		return
	}
	if os.Getenv(asConformance) != "" {
		if err := conform(os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// When a test ends during a request, a session may remain in the test's SDK server, which cannot close all sessions. The code under
	// test is a client and has no such sessions.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/modelcontextprotocol/go-sdk/mcp.(*streamableServerConn).Read"))
}

// hangs is the time after which a test fails because an event is missing. It is long, because the machine may have a high load.
const hangs = 3 * time.Minute

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a registry with the tools of running servers.
type world struct {
	t       *testing.T
	tools   *registry.Registry
	hub     *mcp.Hub
	dir     string
	runner  *sandbox.Runner
	memory  *memory
	changed chan struct{}
	stop    context.CancelFunc
}

// listing passes the lists of sources to the registry as the daemon does.
type listing struct {
	r    *registry.Registry
	tell chan struct{}
}

func (l listing) Replace(source string, tools []tool.Tool) map[string]error {
	refused := map[string]error{}
	good := slices.DeleteFunc(slices.Clone(tools), func(t tool.Tool) bool {
		_, err := l.r.Declared(source, t)
		if err != nil {
			refused[t.Descriptor().ID] = err
		}
		return err != nil
	})
	if err := l.r.Replace(source, good...); err != nil {
		for _, t := range good {
			refused[t.Descriptor().ID] = err
		}
	}
	select {
	case l.tell <- struct{}{}:
	default:
	}
	return refused
}

// memory is a Memory that also stores the trusted definitions.
type memory struct {
	mu    sync.Mutex
	lists map[string][]byte
	pins  map[string]registry.Pin
}

func (m *memory) Recall(key string) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list, ok := m.lists[key]
	return list, ok
}

func (m *memory) Keep(key string, list []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lists[key] = list
	return nil
}

func (m *memory) Pinned(source, id string) (registry.Pin, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.pins[source+"/"+id]
	return p, ok
}

func (m *memory) Pin(source, id string, p registry.Pin) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pins[source+"/"+id] = p
	return nil
}

func (*memory) Refused(string, string, string) *registry.Refusal { return nil }

func (*memory) Refuse(string, string, registry.Refusal) error { return errors.ErrUnsupported }

func newMemory() *memory { return &memory{lists: map[string][]byte{}, pins: map[string]registry.Pin{}} }

// own returns an entry that starts this test binary as the server.
func own(t *testing.T, key, mode string, change ...func(*mcp.Entry)) mcp.Entry {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	e := mcp.Entry{Key: key, Command: exe, Env: []string{mcptest.Mode + "=" + mode}}
	for _, c := range change {
		c(&e)
	}
	return e
}

func trusting(trust mcp.Trust) func(*mcp.Entry) { return func(e *mcp.Entry) { e.Trust = trust } }

// connect runs servers until the test ends. It does not wait until they are ready.
func connect(t *testing.T, m *memory, change func(*mcp.Config), entries ...mcp.Entry) *world {
	t.Helper()
	dir := t.TempDir()
	runner, err := sandbox.New(sandbox.Config{Owner: "test", StateDir: filepath.Join(dir, "processes")})
	must(t, err)
	t.Cleanup(func() { must(t, runner.Close()) })
	w := &world{t: t, dir: dir, runner: runner, memory: m, changed: make(chan struct{}, 1)}
	w.tools = registry.New(registry.Config{Pins: m, Trusted: []string{"builtin"}})
	for i := range entries {
		entries[i].Env = append(entries[i].Env, mcptest.Journal+"="+filepath.Join(dir, "journal"))
	}
	cfg := mcp.Config{
		Entries: entries, Exec: runner, Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH")},
		Tools: listing{w.tools, w.changed}, Memory: m, Backoff: time.Millisecond,
	}
	if change != nil {
		change(&cfg)
	}
	w.hub, err = mcp.New(cfg)
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	var run sync.WaitGroup
	run.Go(func() { _ = w.hub.Run(ctx) })
	t.Cleanup(func() { stop(); run.Wait() })
	return w
}

// ready waits for the tools of all servers.
func (w *world) ready() *world {
	w.t.Helper()
	w.eventually("all servers are ready", func() bool {
		return !slices.ContainsFunc(w.hub.Sources(), func(s tool.SourceStatus) bool { return s.State != tool.SourceReady })
	})
	return w
}

func (w *world) eventually(what string, f func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(hangs); !f(); {
		if time.Now().After(deadline) {
			w.t.Fatalf("never: %s\n%+v", what, w.hub.Sources())
		}
		select {
		case <-w.changed:
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// journal returns the content of the journal file, in which the servers record what they do.
func (w *world) journal() string {
	text, _ := os.ReadFile(filepath.Join(w.dir, "journal")) // An error is ignored, because the file may not exist yet.
	return string(text)
}

type reporter struct {
	mu         sync.Mutex
	progress   []tool.Progress
	output     string
	checkpoint []byte
	artifacts  []tool.Artifact
}

func (r *reporter) Progress(p tool.Progress) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress = append(r.progress, p)
	return nil
}
func (r *reporter) Activity(string, string, string) error { return nil }
func (r *reporter) ActivityDelta(string, string) error    { return nil }
func (r *reporter) SaveCheckpoint(b []byte) error         { r.checkpoint = b; return nil }
func (r *reporter) Output(stream string, b []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.output += stream + ":" + string(b)
	return nil
}
func (r *reporter) SaveArtifact(name, mimeType string, b []byte) (tool.Artifact, error) {
	a := tool.Artifact{Name: name, MIMEType: mimeType, Size: int64(len(b))}
	r.artifacts = append(r.artifacts, a)
	return a, nil
}

func (r *reporter) reported() (int, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.progress), r.output
}

func newCall(t *testing.T, args string) (*tool.Call, *reporter) {
	t.Helper()
	var value map[string]any
	must(t, json.Unmarshal([]byte(args), &value))
	r := &reporter{}
	return &tool.Call{Namespace: "default", ID: "call-" + t.Name(), Attempt: 1, Arguments: tool.NewArguments(args, value), Reporter: r}, r
}

// do executes a call of a listed tool.
func (w *world) do(id string, c *tool.Call) (*tool.Result, error) {
	w.t.Helper()
	e, ok := w.tools.Lookup(id)
	if !ok {
		w.t.Fatalf("no tool %s: %+v", id, w.hub.Sources())
	}
	ctx, stop := context.WithTimeout(context.Background(), hangs)
	defer stop()
	return e.Tool.Execute(ctx, c)
}

// stays returns an address on which no other program listens, even while the test's server is stopped. The system never assigns its port
// automatically.
func stays(t *testing.T) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000)))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		must(t, err)
		must(t, l.Close())
		return l.Addr().String()
	}
}

// text makes a call and returns the text that a model reads.
func (w *world) text(id, args string) string {
	w.t.Helper()
	c, _ := newCall(w.t, args)
	r, err := w.do(id, c)
	if err != nil {
		return "error: " + err.Error()
	}
	return r.ModelText()
}

// answered returns the call for the attempt that a decision starts.
func answered(c *tool.Call, r *reporter, asked *tool.Result, result string) *tool.Call {
	next := *c
	next.Attempt++
	next.Checkpoint = r.checkpoint
	next.Resume = &tool.ResumeInput{Reason: asked.Suspension.Action, Result: result}
	return &next
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is not in %q", p, text)
		}
	}
}
