package sandbox_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/toold-dev/toold/sandbox"
)

func benchmark(b *testing.B, helper string, policy func(dir string) *sandbox.Policy) {
	dir := b.TempDir()
	r, err := sandbox.New(sandbox.Config{Owner: owner(), StateDir: filepath.Join(b.TempDir(), "state"), Helper: helper})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	heap := make([]byte, 1<<30) // A realistic daemon uses this much memory. A fork that copies the page tables would be slow here.
	for i := 0; i < len(heap); i += os.Getpagesize() {
		heap[i] = 1
	}
	spec := sandbox.Spec{Path: "/bin/true", Dir: dir, Home: "bench", Policy: policy(dir), Output: func(string, []byte) error { return nil }}
	for b.Loop() {
		exit, err := r.Run(b.Context(), spec)
		if err != nil || exit.Code != 0 || len(exit.Unverified) > 0 {
			b.Fatal(exit, err)
		}
	}
	_ = heap[len(heap)-1]
}

// BenchmarkRun measures a run without isolation. Compare it with BenchmarkPlainExec, which runs the same process with pipes and no
// supervision.
func BenchmarkRun(b *testing.B) {
	benchmark(b, "", func(string) *sandbox.Policy { return nil })
}

// BenchmarkIsolated measures a fully isolated run with the small helper.
func BenchmarkIsolated(b *testing.B) {
	helper := filepath.Join(b.TempDir(), "toold-sandbox")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", helper, "../cmd/toold-sandbox")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	benchmark(b, helper, func(dir string) *sandbox.Policy { return &sandbox.Policy{Workspace: dir} })
}

// BenchmarkLandlock measures a run that isolates only files and network.
func BenchmarkLandlock(b *testing.B) {
	benchmark(b, "", func(dir string) *sandbox.Policy { return &sandbox.Policy{Workspace: dir, Unsupervised: true} })
}

func BenchmarkPlainExec(b *testing.B) {
	for b.Loop() {
		cmd := exec.Command("/bin/true")
		cmd.Stdout, cmd.Stderr = io.MultiWriter(), io.MultiWriter() // The writers are not files, so exec makes two pipes with a goroutine each, as the sandbox does.
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
	}
}
