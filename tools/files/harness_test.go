package files_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/files"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// documents simulates the THREAD documents of one thread.
type documents map[string]tool.Document

func (d documents) Get(scope tool.Scope, key string) (tool.Document, bool, error) {
	doc, ok := d[string(scope)+" "+key]
	return doc, ok, nil
}

func (d documents) apply(commands []tool.Command) {
	for _, c := range commands {
		id := string(c.Scope) + " " + c.Key
		if c.Op == tool.OpDelete {
			delete(d, id)
			continue
		}
		d[id] = tool.Document{Scope: c.Scope, Key: c.Key, Value: c.Value, Revision: d[id].Revision + 1}
	}
}

type artifacts struct {
	saved      map[string][]byte
	checkpoint []byte
	progress   []tool.Progress
}

func (a *artifacts) Progress(p tool.Progress) error        { a.progress = append(a.progress, p); return nil }
func (a *artifacts) Activity(string, string, string) error { return nil }
func (a *artifacts) ActivityDelta(string, string) error    { return nil }
func (a *artifacts) Output(string, []byte) error           { return nil }
func (a *artifacts) SaveCheckpoint(b []byte) error         { a.checkpoint = b; return nil }
func (a *artifacts) SaveArtifact(name, mime string, b []byte) (tool.Artifact, error) {
	if a.saved == nil {
		a.saved = map[string][]byte{}
	}
	a.saved[name] = bytes.Clone(b)
	return tool.Artifact{Name: name, MIMEType: mime, Size: int64(len(b))}, nil
}

// bench is a workspace on disk, the six tools, and one thread that calls them.
type bench struct {
	t     testing.TB
	dir   string
	tools map[string]tool.Tool
	docs  documents
	kept  *artifacts
}

func newBench(t testing.TB, cfg files.Config) *bench {
	t.Helper()
	return benchAt(t, filepath.Join(t.TempDir(), "ws"), cfg)
}

func benchAt(t testing.TB, dir string, cfg files.Config) *bench {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	if cfg.Workspace == nil {
		cfg.Workspace = &files.Local{Root: root}
	}
	b := &bench{t: t, dir: dir, tools: map[string]tool.Tool{}, docs: documents{}, kept: &artifacts{}}
	for _, tl := range files.New(cfg) {
		b.tools[tl.Descriptor().ID] = tl
	}
	return b
}

func (b *bench) put(name, content string) {
	b.t.Helper()
	p := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) content(name string) string {
	b.t.Helper()
	c, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(c)
}

func (b *bench) link(target, name string) {
	b.t.Helper()
	if err := os.Symlink(target, filepath.Join(b.dir, name)); err != nil {
		b.t.Fatal(err)
	}
}

type object = map[string]any

func arguments(t testing.TB, v object) tool.Arguments {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var parsed map[string]any
	if err := dec.Decode(&parsed); err != nil {
		t.Fatal(err)
	}
	return tool.NewArguments(string(text), parsed)
}

func (b *bench) call(args object) *tool.Call {
	b.t.Helper()
	return &tool.Call{
		Run: tool.Run{ID: "run", Thread: "thread"}, Arguments: arguments(b.t, args), Documents: b.docs, Reporter: b.kept,
		Deadline: time.Now().Add(time.Minute),
	}
}

// run executes a call as the engine does, but without gates. When Validate returns an error, run returns it as a result.
func (b *bench) run(id string, args object) *tool.Result {
	b.t.Helper()
	return b.execute(id, b.call(args))
}

func (b *bench) execute(id string, call *tool.Call) *tool.Result {
	b.t.Helper()
	if err := b.tools[id].(tool.Validator).Validate(call.Arguments); err != nil {
		return &tool.Result{Status: tool.StatusError, Error: tool.AsError(err)}
	}
	r, err := b.tools[id].Execute(context.Background(), call)
	if err != nil {
		b.t.Fatalf("%s %s: %v", id, call.Arguments.Text(), err)
	}
	b.docs.apply(r.Documents)
	b.check(id, r)
	return r
}

// check fails the test when a result violates a rule for all results.
func (b *bench) check(id string, r *tool.Result) {
	b.t.Helper()
	text := r.ModelText()
	if !utf8.ValidString(text) || r.Data != "" && !json.Valid([]byte(r.Data)) {
		b.t.Errorf("%s: result is no valid text or JSON: %q %q", id, text, r.Data)
	}
	if strings.Contains(text, b.dir) || strings.Contains(r.Data, b.dir) {
		b.t.Errorf("%s: result names the host path: %s %s", id, text, r.Data)
	}
	if budget := b.tools[id].Descriptor().OutputBudget; budget > 0 && len(text)+len(r.Data) > budget {
		b.t.Errorf("%s: result has %d bytes, over its budget of %d", id, len(text)+len(r.Data), budget)
	}
}

func (b *bench) ok(id string, args object) *tool.Result {
	b.t.Helper()
	r := b.run(id, args)
	if !r.IsSuccess() {
		b.t.Fatalf("%s %v: %s %s", id, args, r.Error.Reason, r.ModelText())
	}
	return r
}

func (b *bench) refused(id, reason string, args object) *tool.Result {
	b.t.Helper()
	r := b.run(id, args)
	if !r.IsError() || r.Error.Reason != reason {
		b.t.Fatalf("%s %v: got %+v, want a refusal with reason %s", id, args, r, reason)
	}
	return r
}

func (b *bench) describe(id string, call *tool.Call) tool.Description {
	b.t.Helper()
	d, err := b.tools[id].(tool.Describer).Describe(context.Background(), call)
	if err != nil {
		b.t.Fatal(err)
	}
	return d
}

func data[T any](t testing.TB, r *tool.Result) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(r.Data), &v); err != nil {
		t.Fatalf("%v in %s", err, r.Data)
	}
	return v
}
