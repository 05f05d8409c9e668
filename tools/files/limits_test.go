package files_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/tools/files"
)

// slow is a workspace in which each Open takes a second.
type slow struct{ files.Workspace }

func (s slow) Open(ctx context.Context, name string) (files.File, error) {
	time.Sleep(time.Second)
	return s.Workspace.Open(ctx, name)
}

func TestSearchTellsHowFarItIsAndEndsInTime(t *testing.T) {
	dir := t.TempDir()
	for i := range 30 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%02d", i)), []byte("needle\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	synctest.Test(t, func(t *testing.T) {
		b := benchAt(t, dir, files.Config{Workspace: slow{&files.Local{Root: root}}})
		start := time.Now()
		r := b.ok("grep", object{"pattern": "needle"})
		if took := time.Since(start); took > 15*time.Second {
			t.Errorf("took %v", took)
		}
		if !strings.Contains(r.Message, "the search ended after 10s") {
			t.Errorf("not reported: %s", r.Message)
		}
		if n := len(b.kept.progress); n < 2 || n > 5 || !strings.Contains(b.kept.progress[n-1].Message, "files searched") {
			t.Errorf("progress %v", b.kept.progress)
		}
	})
}

func TestSearchEndsWhenFoldersBelowUsedTheEntriesUp(t *testing.T) {
	b := newBench(t, files.Config{Limits: files.Limits{Entries: 15}})
	for i := range 10 {
		b.put(fmt.Sprintf("a/f%d", i), "x\n")
		b.put(fmt.Sprintf("f%d", i), "x\n")
	}
	r := b.ok("glob", object{"pattern": "**"})
	if got := data[globResult](t, r); got.Total > 15 || !got.Truncated || !strings.Contains(r.Message, "after 15 entries") {
		t.Errorf("%+v %s", got, r.Message)
	}
}
