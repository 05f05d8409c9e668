package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toold-dev/toold/sandbox"
)

// The test replaces the directory of a process by a symbolic link to a place outside of Within, before and during the start. The process
// must not start there. Links that stay inside Within are accepted.
func TestT131NoLinkLeadsOutOfWithin(t *testing.T) {
	r := open(t)
	for name, policy := range map[string]*sandbox.Policy{"none": nil, "landlock": {Unsupervised: true}, "isolated": {}} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			within, outside := filepath.Join(root, "workspace"), filepath.Join(root, "outside")
			for _, dir := range []string{"workspace/sub", "workspace/other", "outside"} {
				must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
			}
			must(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600))
			must(t, os.WriteFile(filepath.Join(within, "other", "mine"), []byte("mine"), 0o600))
			must(t, os.Symlink("other", filepath.Join(within, "near")))
			must(t, os.Symlink(filepath.Join(within, "other"), filepath.Join(within, "named")))
			must(t, os.Symlink(outside, filepath.Join(within, "away")))
			must(t, os.Symlink("../outside", filepath.Join(within, "up")))
			spec := func(dir string) sandbox.Spec {
				s := bash(filepath.Join(within, dir), "ls; cat secret 2>/dev/null")
				s.Within = within
				if policy != nil {
					own := *policy
					own.Workspace, s.Policy = s.Dir, &own
				}
				return s
			}
			for _, dir := range []string{"near", "named", "other"} {
				if _, out := run(t, r, spec(dir)); out.read("stdout") != "mine\n" {
					t.Errorf("%s: %q, %q", dir, out.read("stdout"), out.read("stderr"))
				}
			}
			for _, dir := range []string{"away", "up"} {
				exit, err := r.Run(t.Context(), spec(dir))
				if exit != nil || err == nil || !strings.Contains(err.Error(), "directory "+filepath.Join(within, dir)+": a symbolic link leads out of "+within) {
					t.Errorf("%s: %+v, %v", dir, exit, err)
				}
			}
			if policy == nil {
				return // A process without isolation can leave the directory anyway.
			}
			before, err := os.Stat(outside)
			must(t, err)
			leadAway(t, filepath.Join(within, "sub"), filepath.Join(within, "away"))
			for range 40 {
				s, out := spec("sub"), &screen{}
				s.Output = out.output
				_, _ = r.Run(t.Context(), s) // Both outcomes are correct: the run is refused, or runs in sub.
				if got := out.read("stdout"); strings.Contains(got, "secret") {
					t.Fatalf("it read %q", got)
				}
			}
			after, err := os.Stat(outside)
			must(t, err)
			if !after.ModTime().Equal(before.ModTime()) {
				t.Error("files were made outside")
			}
		})
	}
}

// leadAway swaps two paths repeatedly until the test ends.
func leadAway(t *testing.T, one, other string) {
	t.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, one, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
