package files_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/files"
)

func TestThreadMustKnowWhatItChanges(t *testing.T) {
	changes := map[string]object{
		"write":      {"path": "f", "content": "new\n"},
		"edit":       {"path": "f", "old_text": "old", "new_text": "new"},
		"multi_edit": {"path": "f", "edits": []object{{"old_text": "old", "new_text": "new"}}},
	}
	for id, args := range changes {
		t.Run(id, func(t *testing.T) {
			b := newBench(t, files.Config{})
			b.put("f", "old\n")
			b.refused(id, "NOT_READ", args)
			b.ok("grep", object{"pattern": "old"}) // grep shows only a part of the file, so the thread still does not know the file.
			b.refused(id, "NOT_READ", args)
			b.ok("read", object{"path": "./f"})
			b.put("f", "old old\n")
			b.refused(id, "FILE_CHANGED", args)
			b.put("f", "old\n") // The file has a new modification time, but the same hash, so the thread still knows it.
			b.ok(id, args)

			b.put("f", "old\n")
			args["overwrite"] = true
			b.ok(id, args)
			if got := b.content("f"); got != "new\n" {
				t.Errorf("file %q", got)
			}
		})
	}
}

func TestThreadsKnowTheirOwnFiles(t *testing.T) {
	b := newBench(t, files.Config{})
	b.put("f", "old\n")
	b.ok("read", object{"path": "f"})
	other := b.call(object{"path": "f", "content": "new\n"})
	other.Documents = documents{}
	if r := b.execute("write", other); !r.IsError() || r.Error.Reason != "NOT_READ" {
		t.Errorf("a thread that has not read: %+v", r)
	}
}

func TestReadRecordsOnlyNews(t *testing.T) {
	b := newBench(t, files.Config{})
	b.put("f", "old\n")
	first := b.ok("read", object{"path": "f"})
	if len(first.Documents) != 1 {
		t.Fatalf("first read stores %v", first.Documents)
	}
	if c := first.Documents[0]; c.Op != tool.OpSet || c.Scope != tool.ThreadScope || c.Key != "files.read/f" || !strings.Contains(c.Value, `"hash"`) {
		t.Errorf("document %+v", c)
	}
	if again := b.ok("read", object{"path": "f", "limit": 1}); len(again.Documents) != 0 {
		t.Errorf("second read stores %v", again.Documents)
	}
	b.put("f", "new\n")
	if changed := b.ok("read", object{"path": "f"}); len(changed.Documents) != 1 {
		t.Errorf("read of a changed file stores %v", changed.Documents)
	}
	alone := b.call(object{"path": "f"})
	alone.Run.Thread = ""
	if r := b.execute("read", alone); len(r.Documents) != 0 {
		t.Errorf("read without a thread stores %v", r.Documents)
	}
	b.put(strings.Repeat("long/", 120)+"f", "x\n")
	if r := b.ok("read", object{"path": strings.Repeat("long/", 120) + "f"}); len(r.Documents) != 1 || len(r.Documents[0].Key) > 450 {
		t.Errorf("long path stores %v", r.Documents)
	}
}

// resumed returns the call after a decision resumed it. basis is the basis in the ticket.
func resumed(call *tool.Call, basis string) *tool.Call {
	again := *call
	again.Attempt, again.Resume = 2, &tool.ResumeInput{Reason: "approval", Basis: basis}
	return &again
}

func TestApprovedChangeNeedsTheFileThatWasShown(t *testing.T) {
	for _, thread := range []string{"", "thread"} {
		for _, overwrite := range []bool{false, true} {
			b := newBench(t, files.Config{})
			b.put("f", "old\n")
			b.ok("read", object{"path": "f"})
			call := b.call(object{"path": "f", "old_text": "old", "new_text": "new", "overwrite": overwrite})
			call.Run.Thread = thread
			shown := b.describe("edit", call)
			if !strings.HasPrefix(shown.Basis, "sha256:") {
				t.Fatalf("basis %q", shown.Basis)
			}
			b.put("f", "old, but changed\n")
			if r := b.execute("edit", resumed(call, shown.Basis)); !r.IsError() || r.Error.Reason != "FILE_CHANGED" {
				t.Errorf("thread %q, overwrite %t: %+v", thread, overwrite, r)
			}
			if got := b.content("f"); got != "old, but changed\n" {
				t.Fatalf("thread %q, overwrite %t: refused edit changed the file: %q", thread, overwrite, got)
			}
			if err := os.Remove(filepath.Join(b.dir, "f")); err != nil {
				t.Fatal(err)
			}
			if r := b.execute("edit", resumed(call, shown.Basis)); !r.IsError() || r.Error.Reason != "FILE_CHANGED" {
				t.Errorf("deleted meanwhile: %+v", r)
			}
			b.put("f", "old\n")
			if r := b.execute("edit", resumed(call, shown.Basis)); !r.IsSuccess() {
				t.Errorf("thread %q, overwrite %t: %+v", thread, overwrite, r)
			}
		}
	}
}

func TestApprovedNewFileMustStillBeNew(t *testing.T) {
	b := newBench(t, files.Config{})
	call := b.call(object{"path": "f", "content": "new\n"})
	call.Run.Thread = ""
	shown := b.describe("write", call)
	if !strings.HasPrefix(shown.Basis, "absent ") || shown.Title != "Create f" {
		t.Errorf("description %+v", shown)
	}
	b.put("f", "made meanwhile\n")
	if r := b.execute("write", resumed(call, shown.Basis)); !r.IsError() || r.Error.Reason != "FILE_CHANGED" {
		t.Errorf("%+v", r)
	}
	if got := b.content("f"); got != "made meanwhile\n" {
		t.Errorf("file %q", got)
	}
}

func TestDescribe(t *testing.T) {
	b := newBench(t, files.Config{})
	b.put("f", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
	b.put("read", "a\n")
	b.put("binary", "\x00")
	b.put(".git/hooks/post-commit", "a\n")
	b.ok("read", object{"path": "read"})
	b.put("read", "a b\n")
	tests := []struct {
		id          string
		args        object
		title       string
		line        int
		diff, notes string
	}{
		{"edit", object{"path": "f", "old_text": "5", "new_text": "five", "overwrite": true}, "Edit f", 5,
			"--- a/f\n+++ b/f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n", "overwrites a file that this thread has not read"},
		{"edit", object{"path": "f", "old_text": "5", "new_text": "five"}, "Edit f", 5, "+five\n", "will be refused: f exists and has not been read"},
		{"edit", object{"path": "f", "old_text": "0", "new_text": "five", "overwrite": true}, "Edit f", 0, "", "will be refused: old_text was not found"},
		{"edit", object{"path": "read", "old_text": "a", "new_text": "c", "overwrite": true}, "Edit read", 1, "+c b\n", "overwrites a file that changed since this thread read it"},
		{"multi_edit", object{"path": "f", "edits": []object{{"old_text": "1", "new_text": "0"}, {"old_text": "9\n", "new_text": ""}}, "overwrite": true}, "Edit f", 1,
			"@@ -1,4 +1,4 @@\n-1\n+0\n 2\n 3\n 4\n@@ -6,4 +6,3 @@\n 6\n 7\n 8\n-9\n", ""},
		{"write", object{"path": "new", "content": "a\nb"}, "Create new", 1, "--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n", "does not exist yet"},
		{"write", object{"path": "read", "content": "", "overwrite": true}, "Write read", 1, "@@ -1,1 +0,0 @@\n-a b\n", ""},
		{"write", object{"path": "binary", "content": "x", "overwrite": true}, "Write binary", 0, "", "replaces a binary file of 1 bytes"},
		{"write", object{"path": ".git/hooks/post-commit", "content": "x", "overwrite": true}, "Write .git/hooks/post-commit", 1, "+x\n", "changes a protected file"},
		{"write", object{"path": "big", "content": strings.Repeat("line\n", 30_000)}, "Create big", 1, "+line\n", "the diff is shortened: the full change adds 30000 lines and removes 0"},
	}
	for _, tt := range tests {
		d := b.describe(tt.id, b.call(tt.args))
		if d.Kind != tool.KindEdit || d.Title != tt.title || len(d.Locations) != 1 || d.Locations[0].Line != tt.line || d.Basis == "" {
			t.Errorf("%s %.100v: %.300v", tt.id, tt.args, d)
		}
		var diff string
		for _, c := range d.Preview {
			diff += c.Text
		}
		if !strings.Contains(diff, tt.diff) || (diff == "") != (tt.diff == "") || len(diff) > 70_000 {
			t.Errorf("%s %.100v: diff\n%.500s", tt.id, tt.args, diff)
		}
		if notes := strings.Join(d.Notes, "\n"); !strings.Contains(notes, tt.notes) {
			t.Errorf("%s %.100v: notes %q", tt.id, tt.args, notes)
		}
	}
	for id, want := range map[string]string{"read": "Read f", "glob": "Find * in f", "grep": "Search f for ."} {
		if d := b.describe(id, b.call(everyTool("f")[id])); d.Title != want || d.Kind == "" || d.Locations[0].Path != "f" {
			t.Errorf("%s: %+v", id, d)
		}
	}
}

func TestEffects(t *testing.T) {
	b := newBench(t, files.Config{})
	var ids []string
	for id, tl := range b.tools {
		ids = append(ids, id)
		d := tl.Descriptor()
		if err := tool.ValidName(d.ID); err != nil || d.Description == "" || d.RequiredIsolation != tool.IsolationNone {
			t.Errorf("%s: descriptor %+v, %v", id, d, err)
		}
		if _, err := d.Digest(); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		assessor, mutates := tl.(tool.Assessor)
		if !mutates {
			if d.Effects.Mutability != tool.ReadOnly || d.Effects.Tier != tool.Observe || !d.Effects.ConcurrencySafe || !d.Idempotent || d.MaxArguments != 64<<10 {
				t.Errorf("%s: %+v", id, d)
			}
			continue
		}
		if d.Effects.Mutability != tool.Mutating || d.Effects.Tier != tool.Confirm || d.MaxArguments != 1<<20 || d.Idempotent {
			t.Errorf("%s: %+v", id, d)
		}
		careful, blind := assessor.Assess(arguments(t, object{})), assessor.Assess(arguments(t, object{"overwrite": true}))
		if careful.Safety != tool.SafetyMutating || blind.Safety != tool.SafetyDestructive {
			t.Errorf("%s: assessed %v, with overwrite %v", id, careful, blind)
		}
		if careful.MilderThan(d.MildestEffects()) || blind.MilderThan(d.Effects) {
			t.Errorf("%s: assessed milder than declared", id)
		}
	}
	slices.Sort(ids)
	if want := []string{"edit", "glob", "grep", "multi_edit", "read", "write"}; !slices.Equal(ids, want) {
		t.Errorf("tools %v", ids)
	}
}

func TestReconcile(t *testing.T) {
	b := newBench(t, files.Config{})
	b.put("f", "old\n")
	call := b.call(object{"path": "f", "old_text": "old", "new_text": "new", "overwrite": true})
	notRun := false
	ask := func() *tool.Result {
		t.Helper()
		r, err := b.tools["edit"].(tool.Reconciler).Reconcile(context.Background(), call)
		if err != nil && !errors.Is(err, tool.ErrNotRun) {
			t.Fatal(err)
		}
		notRun = err != nil
		return r
	}
	if r := ask(); r != nil {
		t.Errorf("without a checkpoint: %+v", r)
	}
	b.execute("edit", call)
	call.Checkpoint = b.kept.checkpoint
	if r := ask(); !r.IsSuccess() || len(r.Documents) != 0 {
		t.Errorf("after the file was changed: %+v", r)
	}
	b.docs = documents{}
	call.Documents = b.docs
	if r := ask(); !r.IsSuccess() || len(r.Documents) != 1 {
		t.Errorf("after the file was changed, and the record lost: %+v", r)
	}
	b.put("f", "old\n")
	if r := ask(); r != nil || !notRun {
		t.Errorf("before the file was changed: %+v, it may run again: %t", r, notRun)
	}
	b.put("f", "somebody else\n")
	if r := ask(); r != nil || notRun {
		t.Errorf("with another file: %+v, it may run again: %t", r, notRun)
	}
}
