package sandbox_test

import (
	"io"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/toold-dev/toold/sandbox"
)

// BenchmarkRun is compared with BenchmarkPlainExec, the same process with pipes and without anything looked after.
func BenchmarkRun(b *testing.B) {
	r, err := sandbox.New(sandbox.Config{Owner: owner(), StateDir: filepath.Join(b.TempDir(), "state")})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	for b.Loop() {
		exit, err := r.Run(b.Context(), sandbox.Spec{Path: "/bin/true", Dir: "/", Output: func(string, []byte) error { return nil }})
		if err != nil || exit.Code != 0 || len(exit.Unverified) > 0 {
			b.Fatal(exit, err)
		}
	}
}

func BenchmarkPlainExec(b *testing.B) {
	for b.Loop() {
		cmd := exec.Command("/bin/true")
		cmd.Stdout, cmd.Stderr = io.MultiWriter(), io.MultiWriter() // not files: two pipes with a goroutine each
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
	}
}
