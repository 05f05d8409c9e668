package cache_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/plugins/cache"
	"github.com/toold-dev/toold/tool"
)

func made(t testing.TB, cfg cache.Config) *cache.Cache {
	t.Helper()
	c, err := cache.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func rules(r ...cache.Rule) cache.Config { return cache.Config{Rules: r} }

var minute = cache.Rule{Tools: []string{"get*"}, TTL: time.Minute}

// input returns a call by alice. change modifies it.
func input(change ...func(*hook.Input)) *hook.Input {
	in := &hook.Input{
		Namespace: "ns", CallID: "call-1", Caller: tool.Principal{Namespace: "ns", Subject: "alice", Roles: []string{"caller"}},
		Descriptor: &tool.Descriptor{ID: "get"}, ToolDigest: "d1", Arguments: tool.NewArguments(`{"id":1}`, nil),
		Run: tool.Run{ID: "run", Thread: "thread"}, Assessment: tool.Effects{Mutability: tool.ReadOnly}, Attempt: 1,
	}
	for _, f := range change {
		f(in)
	}
	return in
}

func success(text string) hook.Outcome {
	return hook.Outcome{Status: call.Succeeded, Executed: call.Finished, Result: tool.Text(text)}
}

func keep(t testing.TB, c *cache.Cache, in *hook.Input, o hook.Outcome) {
	t.Helper()
	got, err := c.After(context.Background(), in, o)
	if err != nil || got.Result != nil || got.Documents != nil || got.Records != nil {
		t.Fatalf("After = %+v, %v", got, err)
	}
}

// given returns the result from the cache, or nil when the tool must run.
func given(t testing.TB, c *cache.Cache, in *hook.Input) *tool.Result {
	t.Helper()
	v, err := c.Check(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	switch v.Kind() {
	case hook.KindAllow:
		return nil
	case hook.KindSetResult:
		if !strings.Contains(v.Reason(), "from the cache") {
			t.Errorf("reason %q", v.Reason())
		}
		return v.Result()
	}
	t.Fatalf("verdict %s", v.Kind())
	return nil
}

func TestGivesWhatWasKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := made(t, rules(minute))
		began := time.Now()
		if given(t, c, input()) != nil {
			t.Fatal("given before anything was kept")
		}
		first := success("one")
		first.Result.Metadata = map[string]string{"etag": "7"}
		first.Result.Content = []tool.Content{{Type: tool.ContentText, Text: "more"}}
		keep(t, c, input(), first)
		time.Sleep(59 * time.Second)
		later := input(func(in *hook.Input) { in.CallID, in.Run = "call-2", tool.Run{} })
		r := given(t, c, later)
		if r == nil || r.Message != "one" || r.Data != `"one"` || r.Metadata["etag"] != "7" || len(r.Content) != 1 || r.Status != tool.StatusSuccess {
			t.Fatalf("given %+v", r)
		}
		if r.Metadata[cache.MetadataCall] != "call-1" || r.Metadata[cache.MetadataTime] != began.UTC().Format(time.RFC3339) {
			t.Errorf("metadata %v does not say whose it is", r.Metadata)
		}
		r.Metadata["x"], r.Content[0].Text = "changed", "changed" // A hook may change its copy; the stored result must stay the same.
		if r := given(t, c, later); r.Metadata["x"] != "" || r.Content[0].Text != "more" {
			t.Errorf("what was given was kept: %+v", r)
		}
		time.Sleep(time.Second)
		if given(t, c, later) != nil {
			t.Error("given when its time is over")
		}
	})
}

func TestWhatAnAnswerDependsOn(t *testing.T) {
	differs := map[string]func(*hook.Input){
		"namespace":       func(in *hook.Input) { in.Namespace, in.Caller.Namespace = "other", "other" },
		"caller":          func(in *hook.Input) { in.Caller.Subject = "bob" },
		"on behalf of":    func(in *hook.Input) { in.OnBehalfOf = "carol" },
		"roles":           func(in *hook.Input) { in.Caller.Roles = []string{"caller", "operator"} },
		"tool":            func(in *hook.Input) { in.Descriptor = &tool.Descriptor{ID: "get_all"} },
		"tool digest":     func(in *hook.Input) { in.ToolDigest = "d2" },
		"arguments":       func(in *hook.Input) { in.Arguments = tool.NewArguments(`{"id":2}`, nil) },
		"border of parts": func(in *hook.Input) { in.ToolDigest, in.Arguments = `d1{"id"`, tool.NewArguments(`:1}`, nil) },
	}
	for name, change := range differs {
		t.Run(name, func(t *testing.T) {
			c := made(t, rules(minute))
			keep(t, c, input(), success("one"))
			if given(t, c, input()) == nil {
				t.Fatal("not kept")
			}
			if r := given(t, c, input(change)); r != nil {
				t.Errorf("given to another call: %+v", r)
			}
		})
	}
}

func TestShare(t *testing.T) {
	bob := func(in *hook.Input) { in.Caller.Subject = "bob" }
	run := func(in *hook.Input) { in.Run.ID = "other" }
	thread := func(in *hook.Input) { in.Run.Thread = "other" }
	elsewhere := func(in *hook.Input) { in.Namespace = "other" }
	tests := []struct {
		share                       cache.Share
		bob, run, thread, elsewhere bool // whether a call gets alice's result: a call by bob, or a call by alice in another run, thread or namespace
	}{
		{"", false, true, true, false},
		{cache.ShareCaller, false, true, true, false},
		{cache.ShareRun, false, false, true, false},
		{cache.ShareThread, false, true, false, false},
		{cache.ShareNamespace, true, true, true, false},
	}
	for _, tt := range tests {
		t.Run(string(tt.share), func(t *testing.T) {
			r := minute
			r.Share = tt.share
			c := made(t, rules(r))
			keep(t, c, input(), success("one"))
			for name, who := range map[string]struct {
				change func(*hook.Input)
				want   bool
			}{"bob": {bob, tt.bob}, "run": {run, tt.run}, "thread": {thread, tt.thread}, "elsewhere": {elsewhere, tt.elsewhere}} {
				if got := given(t, c, input(who.change)) != nil; got != who.want {
					t.Errorf("%s is given it: %t, want %t", name, got, who.want)
				}
			}
		})
	}
	t.Run("a run that is none", func(t *testing.T) {
		r := minute
		r.Share = cache.ShareRun
		c := made(t, rules(r))
		none := input(func(in *hook.Input) { in.Run.ID = "" })
		keep(t, c, none, success("one"))
		if given(t, c, none) != nil {
			t.Error("calls without a run share one")
		}
	})
}

func TestWhatIsNotKept(t *testing.T) {
	artifact := success("x")
	artifact.Result.Artifacts = []tool.Artifact{{Name: "stdout"}}
	image := success("x")
	image.Result.Content = []tool.Content{{Type: tool.ContentImage, Artifact: "image"}}
	documents := success("x")
	documents.Result.Documents = []tool.Command{{Op: tool.OpSet, Scope: tool.RunScope, Key: "seen"}}
	cut := success("x")
	cut.Result.Truncated = true
	tests := []struct {
		name    string
		change  func(*hook.Input)
		outcome hook.Outcome
	}{
		{"a call that changes something", func(in *hook.Input) { in.Assessment.Mutability = tool.Mutating }, success("x")},
		{"an unassessed call", func(in *hook.Input) { in.Assessment = tool.Effects{} }, success("x")},
		{"another tool", func(in *hook.Input) { in.Descriptor = &tool.Descriptor{ID: "read"} }, success("x")},
		{"the open world", func(in *hook.Input) { in.Assessment.OpenWorld = true }, success("x")},
		{"a further attempt", func(in *hook.Input) { in.Attempt = 2 }, success("x")}, // The result of a further attempt may depend on an answer.
		{"a failure", nil, hook.Outcome{Status: call.Failed, Executed: call.Finished, Result: tool.Fail("no")}},
		{"an answer of a gate", nil, hook.Outcome{Status: call.Succeeded, Executed: call.NotStarted, Result: tool.Text("x")}},
		{"artifacts", nil, artifact}, {"content in an artifact", nil, image}, {"documents", nil, documents}, {"cut output", nil, cut},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := made(t, rules(minute))
			in := input()
			if tt.change != nil {
				tt.change(in)
			}
			keep(t, c, in, tt.outcome)
			if n, _ := c.Size(); n != 0 || given(t, c, in) != nil {
				t.Error("kept")
			}
		})
	}
}

func TestOpenWorldOnlyByName(t *testing.T) {
	open := input(func(in *hook.Input) { in.Assessment.OpenWorld = true })
	c := made(t, rules(cache.Rule{Tools: []string{"get"}, TTL: time.Minute, OpenWorld: true}))
	keep(t, c, open, success("x"))
	if given(t, c, open) == nil {
		t.Error("a tool that was named is not kept")
	}
	if _, err := cache.New(rules(cache.Rule{Tools: []string{"get*"}, TTL: time.Minute, OpenWorld: true})); err == nil {
		t.Error("a pattern was taken")
	}
}

type documents map[string]int64

func (d documents) Get(s tool.Scope, key string) (tool.Document, bool, error) {
	if key == "unreadable" {
		return tool.Document{}, false, errors.New("journal is closed")
	}
	revision, ok := d[string(s)+"/"+key]
	return tool.Document{Revision: revision}, ok, nil
}

func TestDocumentRevisions(t *testing.T) {
	r := minute
	r.Documents = []cache.Document{{Scope: tool.ThreadScope, Key: "todo"}}
	c := made(t, rules(r))
	at := func(revision int64, thread string) *hook.Input {
		return input(func(in *hook.Input) { in.Documents, in.Run.Thread = documents{"THREAD/todo": revision}, thread })
	}
	keep(t, c, at(3, "thread"), success("three"))
	if given(t, c, at(3, "thread")) == nil {
		t.Error("not given at the same revision")
	}
	if given(t, c, at(4, "thread")) != nil || given(t, c, input()) != nil {
		t.Error("given though the document has changed")
	}
	if given(t, c, at(3, "other")) != nil {
		t.Error("given for a document of another thread, which happens to have the same revision")
	}

	r.Documents[0].Key = "unreadable"
	c = made(t, rules(r))
	if given(t, c, at(3, "thread")) != nil {
		t.Error("given though a document cannot be read")
	}
	if _, err := c.After(t.Context(), at(3, "thread"), success("x")); err == nil {
		t.Error("it is not reported that the journal cannot be read")
	}
}

// The test checks that asking the gate changes neither the stored results nor the order in which they are removed.
func TestAskingChangesNothing(t *testing.T) {
	id := func(n int) func(*hook.Input) {
		return func(in *hook.Input) { in.Arguments = tool.NewArguments(fmt.Sprint(n), nil) }
	}
	cfg := rules(minute)
	cfg.Entries = 3
	c := made(t, cfg)
	for n := range 3 {
		keep(t, c, input(id(n)), success("x"))
	}
	before, bytes := c.Size()
	for range 1000 {
		given(t, c, input(id(0)))
		given(t, c, input(id(99)))
	}
	if n, b := c.Size(); n != before || b != bytes {
		t.Errorf("%d results, %d bytes; had %d, %d", n, b, before, bytes)
	}
	keep(t, c, input(id(3)), success("x"))
	if given(t, c, input(id(0))) != nil || given(t, c, input(id(1))) == nil {
		t.Error("what was asked for often outlives what is younger: asking left a mark")
	}
}

func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := rules(minute)
		cfg.Entries, cfg.Bytes = 50, 100<<10
		c := made(t, cfg)
		for n := range 1000 {
			in := input(func(in *hook.Input) { in.Arguments = tool.NewArguments(fmt.Sprint(n), nil) })
			keep(t, c, in, success(strings.Repeat("x", n*4)))
			if entries, bytes := c.Size(); entries > 50 || bytes > 100<<10 {
				t.Fatalf("%d results, %d bytes", entries, bytes)
			}
		}
		before, _ := c.Size()
		keep(t, c, input(), success(strings.Repeat("x", 30<<10)))
		if n, _ := c.Size(); n != before || given(t, c, input()) != nil {
			t.Error("a result of more than a quarter drove others out")
		}
		time.Sleep(time.Minute)
		keep(t, c, input(), success("x"))
		keep(t, c, input(), success("y")) // replaces the first result
		if n, _ := c.Size(); n != 1 || given(t, c, input()).Message != "y" {
			t.Errorf("%d results; those whose time is over go", n)
		}
	})
}

// The test checks that the results of an ended run are removed. A later run with its name may have new documents with the same revision
// numbers.
func TestEndedRunsAreForgotten(t *testing.T) {
	shared, noted := minute, minute
	shared.Share = cache.ShareRun
	noted.Documents = []cache.Document{{Scope: tool.RunScope, Key: "plan"}}
	of := func(in *hook.Input) { in.Documents = documents{"RUN/plan": 1} }
	for name, r := range map[string]cache.Rule{"shared in the run": shared, "by a document of the run": noted} {
		c := made(t, rules(r))
		keep(t, c, input(of), success("of the first run"))
		c.EndRun("other", "run")
		c.EndRun("ns", "another")
		if given(t, c, input(of)) == nil {
			t.Errorf("%s: forgotten with another run", name)
		}
		c.EndRun("ns", "run")
		if n, _ := c.Size(); n != 0 || given(t, c, input(of)) != nil {
			t.Errorf("%s: given to a run that only has the same name", name)
		}
	}
	c := made(t, rules(minute))
	keep(t, c, input(), success("of the caller"))
	c.EndRun("ns", "run")
	if given(t, c, input()) == nil {
		t.Error("what belongs to no run is forgotten with one")
	}
}

func TestPurgedCallsAreForgotten(t *testing.T) {
	c := made(t, rules(minute))
	keep(t, c, input(), success("secret"))
	c.PurgeCalls("other", []string{"call-1"})
	if given(t, c, input()) == nil {
		t.Error("forgotten for a call of another namespace")
	}
	c.PurgeCalls("ns", []string{"call-0", "call-1"})
	if n, bytes := c.Size(); n != 0 || bytes != 0 || given(t, c, input()) != nil {
		t.Errorf("%d results, %d bytes", n, bytes)
	}
}

func TestSwapForgets(t *testing.T) {
	c := made(t, rules(minute))
	keep(t, c, input(), success("x"))
	if err := c.Swap(rules(cache.Rule{})); err == nil {
		t.Fatal("a wrong configuration was taken")
	}
	if given(t, c, input()) == nil {
		t.Error("a wrong configuration changed something")
	}
	if err := c.Swap(rules(minute)); err != nil {
		t.Fatal(err)
	}
	if given(t, c, input()) != nil {
		t.Error("given by other rules than those it was kept by")
	}
}

func TestConfig(t *testing.T) {
	for want, r := range map[string]cache.Rule{
		"rules[0].tools: is required: ":     {TTL: time.Minute},
		`tools: "[" is not a pattern`:       {Tools: []string{"["}, TTL: time.Minute},
		"ttl: 0s is not between":            {Tools: []string{"x"}},
		"ttl: 25h is not between 1s and 1d": {Tools: []string{"x"}, TTL: 25 * time.Hour},
		`share: "all" is not one of run`:    {Tools: []string{"x"}, TTL: time.Minute, Share: "all"},
		`documents: "/k" is not RUN/key`:    {Tools: []string{"x"}, TTL: time.Minute, Documents: []cache.Document{{Key: "k"}}},
		`tools: "x*" is a pattern; with`:    {Tools: []string{"x*"}, TTL: time.Minute, OpenWorld: true},
	} {
		if _, err := cache.New(rules(r)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", r, err, want)
		}
	}
	for want, cfg := range map[string]cache.Config{"entries: -1": {Entries: -1}, "bytes: -1": {Bytes: -1}} {
		if _, err := cache.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", cfg, err, want)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	c := made(b, rules(minute))
	other := input(func(in *hook.Input) { in.Descriptor = &tool.Descriptor{ID: "read"} })
	missed := input(func(in *hook.Input) { in.Arguments = tool.NewArguments(`{"id":2}`, nil) })
	keep(b, c, input(), success("one"))
	for name, in := range map[string]*hook.Input{"another tool": other, "not kept": missed, "kept": input()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Check(b.Context(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAfter(b *testing.B) {
	c := made(b, rules(minute))
	in, o := input(), success("one")
	b.ReportAllocs()
	for b.Loop() {
		_, _ = c.After(b.Context(), in, o)
	}
}
