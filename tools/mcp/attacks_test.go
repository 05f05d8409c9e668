package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/mcp"
)

// The test checks that a tool that changes after it was trusted is not listed until an operator accepts the change (T74). This holds even
// when only a nested description changes. Other changes of the list take effect at once.
func TestT74ChangedWhileItRuns(t *testing.T) {
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			m := newMemory()
			w := connect(t, m, nil, own(t, "w", era)).ready()
			contains(t, w.text("w__echo", `{"text":"hi"}`), "hi")
			contains(t, w.text("w__change", `{}`), "changed")
			w.eventually("the change is seen", func() bool { _, there := w.tools.Lookup("w__echo"); return !there })
			w.eventually("a new tool is there", func() bool { _, there := w.tools.Lookup("w__grown"); return there })
			if _, there := w.tools.Lookup("w__fail"); there {
				t.Error("a tool that is gone is in the list")
			}
			q := w.tools.Quarantined()
			if len(q) != 1 || q[0].Waiting.Descriptor.ID != "w__echo" || strings.Contains(string(q[0].Trusted.Descriptor.Parameters), "id_rsa") || !strings.Contains(string(q[0].Waiting.Descriptor.Parameters), "id_rsa") {
				t.Fatalf("in quarantine is %+v", q)
			}
			contains(t, w.text("w__grown", `{}`), "new")
			_, err := w.tools.Accept(q[0].Source, "w__echo", q[0].Waiting.Digest, "oscar")
			must(t, err)
			contains(t, w.text("w__echo", `{}`), "thanks")
		})
	}
}

// The test checks that tools with invalid names, with ids that are already taken, or with schemas with remote references are refused with a
// reason (T75). The other tools of the server are listed.
func TestT75Names(t *testing.T) {
	w := connect(t, newMemory(), nil, own(t, "a", "names"))
	must(t, w.tools.Register("builtin", tool.Func(tool.Descriptor{ID: "bash"}, nil)))
	w.ready()
	why := map[string]string{}
	for _, r := range w.hub.Sources()[0].Refused {
		why[r.Name] = r.Reason
	}
	for name, reason := range map[string]string{"read": "the name", "r\u0435ad": "the name", "": "the name", "a_b": "a.b already has the id", "deep": "inputSchema"} {
		if name == "deep" {
			reason = "parameters"
		}
		if !strings.Contains(why[name], reason) {
			t.Errorf("%q is refused with %q", name, why[name])
		}
	}
	for _, id := range []string{"a__bash", "a__b__c", "a__a_b", "a__long"} {
		if _, ok := w.tools.Lookup(id); !ok {
			t.Errorf("%s is not there: %v", id, why)
		}
	}
	if e, ok := w.tools.Lookup("bash"); !ok || e.Source != "builtin" {
		t.Error("a server's bash is the daemon's")
	}
	if _, err := mcp.New(mcp.Config{Entries: []mcp.Entry{{Key: "a b", Command: "x"}, {Key: "a_b", Command: "x"}}}); err == nil {
		t.Error("two servers have one prefix")
	}
}

// The test uses servers that send an endless line, forged or duplicate answers, or too many messages (T76). It checks that the daemon ends
// such a server, reads it more slowly or ignores further answers, and that other servers keep working.
func TestT76Floods(t *testing.T) {
	w := connect(t, newMemory(), nil, own(t, "endless", "endless"), own(t, "flood", "flood"), own(t, "foreign", "foreign"), own(t, "other", "good"), own(t, "twice", "twice")).ready()
	for id, want := range map[string]string{
		"endless__long": "error: The connection to the server ended",
		"foreign__long": "error: The connection to the server ended",
		"flood__long":   "done",
	} {
		contains(t, w.text(id, `{}`), want)
		contains(t, w.text("other__echo", `{"text":"here"}`), "here")
	}
	for range 10 {
		contains(t, w.text("twice__long", `{}`), "first")
	}
	w.eventually("all are there again", func() bool {
		ready := 0
		for i, s := range w.hub.Sources() {
			if s.State == tool.SourceReady && s.Starts >= []int{2, 1, 2, 1, 1}[i] { // The state may change only after the call has returned.
				ready++
			}
		}
		return ready == 5
	})
	for i, starts := range []int{2, 1, 2, 1, 1} {
		if s := w.hub.Sources()[i]; s.Starts != starts {
			t.Errorf("%s was started %d times, want %d", s.Name, s.Starts, starts)
		}
	}
}

// The test checks that a server cannot ask the client's model (sampling) and learns no directories of the client (roots). It also checks
// that the server's hints about effects count only as far as the operator trusts the server (T77).
func TestT77Asks(t *testing.T) {
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			w := connect(t, newMemory(), nil, own(t, "w", era)).ready()
			for _, name := range []string{"w__sample", "w__roots"} {
				if text := w.text(name, `{}`); strings.Contains(text, "thanks") {
					t.Errorf("%s: %s", name, text)
				}
			}
			if strings.Contains(w.journal(), "got what it wanted") {
				t.Error("the server got it")
			}
		})
	}
	want := map[mcp.Trust]tool.Effects{
		mcp.TrustNone:  {Mutability: tool.Mutating, Safety: tool.SafetyMutating, Tier: tool.Confirm, OpenWorld: true},
		mcp.TrustHints: {Mutability: tool.ReadOnly, Safety: tool.SafetyNetwork, Tier: tool.Confirm, OpenWorld: true, ConcurrencySafe: true},
		mcp.TrustFull:  {Mutability: tool.ReadOnly, Safety: tool.SafetyNetwork, Tier: tool.Observe, OpenWorld: true, ConcurrencySafe: true},
	}
	for trust, effects := range want {
		w := connect(t, newMemory(), nil, own(t, "w", "good", trusting(trust))).ready()
		e, _ := w.tools.Lookup("w__writer")
		if !reflect.DeepEqual(e.Descriptor.Effects, effects) || e.Descriptor.Mildest != nil || e.Descriptor.Idempotent != (trust != mcp.TrustNone) {
			t.Errorf("trust %q: %+v", trust, e.Descriptor)
		}
	}
}

// The test checks that toold tolerates two kinds of servers: those that print lines that are not messages, and those that never answer.
func TestOddServers(t *testing.T) {
	mute := connect(t, newMemory(), func(c *mcp.Config) { c.Connect = 300e6 }, own(t, "mute", "mute"))
	contains(t, connect(t, newMemory(), nil, own(t, "banner", "banner")).ready().text("banner__long", `{}`), "fine")
	mute.eventually("it is given up", func() bool { return strings.Contains(mute.hub.Sources()[0].Error, "not ready within 300ms") })
}

// TestIsolated checks that an isolated server sees only its workspace and the paths that its policy permits it to read.
func TestIsolated(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("s3cret"), 0o644))
	isolated := own(t, "in", "good", func(e *mcp.Entry) {
		e.Dir = t.TempDir()
		e.Policy = &sandbox.Policy{Workspace: e.Dir, Read: []string{e.Command}}
		must(t, os.WriteFile(filepath.Join(e.Dir, "own"), []byte("mine"), 0o644))
	})
	w := connect(t, newMemory(), nil, isolated, own(t, "out", "good")).ready()
	contains(t, w.text("out__peek", `{"path":"`+secret+`"}`), "s3cret")
	contains(t, w.text("in__peek", `{"path":"`+filepath.Join(isolated.Dir, "own")+`"}`), "mine")
	contains(t, w.text("in__peek", `{"path":"`+secret+`"}`), "no such file")
	in, _ := w.tools.Lookup("in__peek")
	out, _ := w.tools.Lookup("out__peek")
	if in.Descriptor.RequiredIsolation != tool.IsolationFull || in.Descriptor.RequiredNetwork != "none" || out.Descriptor.RequiredIsolation != tool.IsolationNone {
		t.Errorf("isolation: %q and %q", in.Descriptor.RequiredIsolation, out.Descriptor.RequiredIsolation)
	}
}

// The test checks that an operator need not trust a tool again after a change of the operator's settings, but must do so after a change of
// the server's hints.
func TestTrustOfTheOperator(t *testing.T) {
	m := newMemory()
	connect(t, m, nil, own(t, "w", "good")).ready().stop()
	w := connect(t, m, nil, own(t, "w", "good", trusting(mcp.TrustFull))).ready()
	if q := w.tools.Quarantined(); len(q) > 0 {
		t.Errorf("in quarantine: %+v", q)
	}
	if e, ok := w.tools.Lookup("w__writer"); !ok || e.Descriptor.Effects.Tier != tool.Observe {
		t.Error("the operator's word does not count")
	}
	list, _ := m.Recall("w")
	must(t, m.Keep("w", []byte(strings.ReplaceAll(string(list), `"readOnlyHint":true`, `"readOnlyHint":false`))))
	w = connect(t, m, func(c *mcp.Config) { c.Exec = nowhere{} }, own(t, "w", "good"))
	if q := w.tools.Quarantined(); len(q) != 1 || q[0].Waiting.Descriptor.ID != "w__writer" {
		t.Errorf("in quarantine: %+v", q)
	}
}

// nowhere is an Exec that starts nothing.
type nowhere struct{}

func (nowhere) Run(context.Context, sandbox.Spec) (*sandbox.Exit, error) {
	return nil, errors.New("nowhere")
}

// The test checks that when the kernel kills a server for its memory use, the error of the current call says so (T27).
func TestT27OutOfMemory(t *testing.T) {
	hungry := own(t, "in", "good", func(e *mcp.Entry) {
		e.Dir = t.TempDir()
		e.Policy = &sandbox.Policy{Workspace: e.Dir, Read: []string{e.Command}, Limits: sandbox.Limits{Memory: 1 << 50, MemoryTotal: 256 << 20}}
	})
	w := connect(t, newMemory(), nil, hungry).ready()
	facts, err := w.runner.Prove(t.Context(), *hungry.Policy)
	must(t, err)
	t.Logf("mem_limit: %+v", facts.MemLimit)
	if !facts.MemLimit.Held {
		if facts.MemLimit.Detail == "" {
			t.Error("there is no reason why not")
		}
		return
	}
	c, _ := newCall(t, `{"path":"/dev/zero"}`)
	r, err := w.do("in__peek", c)
	if e := tool.AsError(err); err == nil || e.Reason != sandbox.ReasonOOM || !strings.Contains(e.Message, "memory") {
		t.Errorf("%+v, %v", r, err)
	}
}

// The test checks calls with the same id in two namespaces. Reports of a server about one of them must not reach the other.
func TestSameIDInTwoNamespaces(t *testing.T) {
	type asked struct {
		id    json.RawMessage
		token string
	}
	var first *asked
	received := make(chan struct{})
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
		if first == nil {
			first = &asked{slices.Clone(id), p.Meta.Token}
			close(received)
			return
		}
		say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%q,"progress":1,"message":"private"}}`, first.token)
		say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, first.id)
		say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, id)
	}).ready()
	e, _ := w.tools.Lookup("h__t")
	c, rep := newCall(t, `{}`)
	done := make(chan error, 1)
	go func() {
		_, err := e.Tool.Execute(context.Background(), c)
		done <- err
	}()
	<-received
	other, theirs := newCall(t, `{}`)
	other.Namespace = "other"
	_, err := w.do("h__t", other)
	must(t, err)
	must(t, <-done)
	if n, _ := theirs.reported(); n != 0 {
		t.Errorf("the other call got %d progress reports", n)
	}
	if n, _ := rep.reported(); n != 1 {
		t.Errorf("the call got %d progress reports", n)
	}
}
