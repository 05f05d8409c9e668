package tooltest_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/tooltest"
)

func TestRecorderKeepsReports(t *testing.T) {
	r := &tooltest.Recorder{}
	c := &tool.Call{Reporter: r}
	var wg sync.WaitGroup
	for range 10 { // A tool with two pipes reports from two goroutines.
		wg.Go(func() { check(t, c.Output("stdout", []byte("x"))) })
		wg.Go(func() { check(t, c.Output("stderr", []byte("yz"))) })
	}
	wg.Wait()
	check(t, c.Progress(tool.ProgressRunning, 0.5, "half"))
	check(t, c.Activity("a", "plan", 1))
	check(t, c.ActivityDelta("a", []int{}))
	b := []byte("1")
	check(t, c.SaveCheckpoint(b))
	a, err := c.SaveArtifact("p", "image/png", b)
	check(t, err)
	b[0] = '2' // The recorder keeps a copy, so this change does not affect it.

	if a.Name != "p" || a.MIMEType != "image/png" || a.Size != 1 || string(r.Artifact("p")) != "1" || string(r.Checkpoint()) != "1" {
		t.Errorf("artifact %+v %q, checkpoint %q", a, r.Artifact("p"), r.Checkpoint())
	}
	if r.Stream("stdout") != "xxxxxxxxxx" || len(r.Stream("stderr")) != 20 || r.Stream("other") != "" {
		t.Errorf("streams %q, %q, %q", r.Stream("stdout"), r.Stream("stderr"), r.Stream("other"))
	}
	if p := r.ProgressReports(); len(p) != 1 || p[0].Message != "half" {
		t.Errorf("progress %+v", p)
	}
	if got, want := r.ActivityReports(), []string{"a plan 1", "a []"}; !slices.Equal(got, want) {
		t.Errorf("activities %q, want %q", got, want)
	}
}

func TestRecorderOfAnEndedCall(t *testing.T) {
	over := errors.New("call is over")
	r := &tooltest.Recorder{Err: over}
	if err := r.Output("stdout", []byte("x")); !errors.Is(err, over) || r.Stream("stdout") != "" {
		t.Errorf("Output = %v and kept %q", err, r.Stream("stdout"))
	}
}

func TestDocuments(t *testing.T) {
	k := tool.Key[int]{Scope: tool.RunScope, Name: "n"}
	var docs tooltest.Documents
	before := docs.Snapshot()
	if lost := docs.Commit(k.SetAt(1, 0), k.SetAt(2, 0), k.SetAt(3, 1)); len(lost) != 1 || lost[0].Value != "2" {
		t.Errorf("lost %+v, want the second", lost)
	}
	if _, revision, _ := k.Get(&tool.Call{Documents: before}); revision != 0 {
		t.Error("a snapshot changed")
	}
	v, revision, err := k.Get(&tool.Call{Documents: docs.Snapshot()})
	if v != 3 || revision != 2 || err != nil {
		t.Errorf("Get = %d, %d, %v", v, revision, err)
	}
	if lost := docs.Commit(k.Add(4), k.Append(1), k.Merge(map[string]any{"a": 1}), k.Add(1), k.Set(7)); len(lost) != 2 {
		t.Errorf("lost %+v, want an append to a number and an addition to an object", lost)
	}
	if v, revision, err := k.Get(&tool.Call{Documents: docs.Snapshot()}); v != 7 || revision != 5 || err != nil {
		t.Errorf("Get = %d, %d, %v", v, revision, err)
	}
	docs.Commit(k.Delete())
	if _, revision, _ := k.Get(&tool.Call{Documents: docs.Snapshot()}); revision != 0 {
		t.Error("deleted document is there")
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
