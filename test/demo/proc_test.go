package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestProcessesAreFoundAndSeenToEnd checks the search in /proc, on which the demo's claims about processes depend. The search must find an
// orphan with its own session, a different name and a different working directory.
func TestProcessesAreFoundAndSeenToEnd(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-c", `(setsid bash -c 'echo $$ > o; mv o orphan; cd /; exec sleep 60' >/dev/null 2>&1 &); exec sleep 60`)
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	var orphan, all []process
	err = eventually(10*time.Second, func() (err error) {
		orphan, err = named(filepath.Join(dir, "orphan"))
		return err
	})
	if err == nil {
		all, err = processesIn(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, p := range all {
			_ = p.end(5 * time.Second)
		}
	})
	if len(orphan) != 1 || len(all) != 2 || len(living(all)) != 2 {
		t.Fatalf("found %v and the orphan %v, want two processes and one of them the orphan", all, orphan)
	}
	for _, p := range all {
		if err := p.end(5 * time.Second); err != nil {
			t.Error(err)
		}
	}
	<-ended
	if left := living(all); len(left) != 0 {
		t.Errorf("%v are seen as living after their end", left)
	}
	if again, err := processesIn(dir); err != nil || len(again) != 0 {
		t.Errorf("found %v, %v after the end", again, err)
	}
	if _, err := named(filepath.Join(dir, "orphan")); err == nil {
		t.Error("a process that has ended was looked up")
	}
}

func TestAnotherProcessUnderTheSameIDIsNotTheSame(t *testing.T) {
	self, ok := processAt(os.Getpid())
	if !ok || !self.alive() {
		t.Fatalf("own process not found: %v", self)
	}
	self.started = "1"
	if self.alive() {
		t.Error("a process with another start was taken for the same")
	}
}

func TestCommandsAreShownAsTheyAreTyped(t *testing.T) {
	tests := []struct {
		want string
		args []string
	}{
		{"toold call grep pattern=TODO path=src", []string{"call", "grep", "pattern=TODO", "path=src"}},
		{`toold call bash command='echo "$HOME"'`, []string{"call", "bash", `command=echo "$HOME"`}},
		{`toold call edit --json '{"a": "it'\''s"}'`, []string{"call", "edit", "--json", `{"a": "it's"}`}},
	}
	for _, tt := range tests {
		if got := typed(tt.args); got != tt.want {
			t.Errorf("typed = %s, want %s", got, tt.want)
		}
	}
}
