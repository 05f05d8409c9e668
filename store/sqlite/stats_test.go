package sqlite_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store/sqlite"
	"github.com/toold-dev/toold/tool"
)

func TestWaiting(t *testing.T) {
	s := open(t, sqlite.Config{Dir: filepath.Join(t.TempDir(), "data")})
	asked := time.Now().Truncate(time.Second).Add(-time.Hour)
	want := map[string]int{}
	for i, action := range []string{"approval", "input", "approval", "tool:x"} {
		c := newCall(fmt.Sprintf("call-%d", i))
		c.Namespace = fmt.Sprintf("ns-%d", i%2)
		c.Status = call.Suspended
		c.Rounds = []call.Round{{Suspension: call.Suspension{ID: "s-" + c.ID, Action: action, Created: call.StampOf(asked.Add(time.Duration(i) * time.Minute)), ResumeMode: tool.ReplayToolCall}}}
		if err := s.Commit(t.Context(), creation(c)); err != nil {
			t.Fatal(err)
		}
		want[action]++
	}
	got, since, err := s.Waiting(t.Context())
	if err != nil || !maps.Equal(got, want) || since != call.StampOf(asked) {
		t.Errorf("%v since %v, %v; want %v since %v", got, since, err, want, asked)
	}
	if free, err := s.Free(); err != nil || free <= 0 {
		t.Errorf("%d bytes free, %v", free, err)
	}
	stats := s.Stats()
	if stats.Groups.Sum != 4 || stats.Syncs.Count() != 4 || stats.Syncs.Sum <= 0 || stats.Waiting != [2]int{} {
		t.Errorf("%+v", stats)
	}
}

func TestNothingWaits(t *testing.T) {
	s := open(t, sqlite.Config{Dir: filepath.Join(t.TempDir(), "data")})
	got, since, err := s.Waiting(t.Context())
	if err != nil || len(got) != 0 || since != 0 {
		t.Errorf("%v since %v, %v", got, since, err)
	}
}
