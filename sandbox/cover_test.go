package sandbox_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toold-dev/toold/sandbox"
)

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// git can be made to read other configuration and hooks: by .git/commondir, which names another directory, or by the file .git of another
// work tree. The test checks that a command cannot change these files or create them, and that git still works (T12).
func TestGitCannotBeTurned(t *testing.T) {
	r := open(t)
	dir := t.TempDir()
	git(t, dir, "init", "-q")
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "first")
	for _, path := range []string{".git/hooks", ".git/config.worktree"} {
		if err := os.RemoveAll(filepath.Join(dir, path)); err != nil {
			t.Fatal(err)
		}
	}
	before := listing(t, filepath.Join(dir, ".git"))
	_, out := run(t, r, confined(dir, `
		mkdir .git/hooks && echo hooks
		echo ../evil > .git/commondir && echo commondir
		rm -f .git/commondir && echo removed
		echo evil > x && mv -f x .git/config.worktree && echo worktree
		git status -s | grep -v '^?? x$'; git -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m second && git log --oneline | wc -l; rm -f x`))
	if got := out.read("stdout"); got != "2\n" {
		t.Errorf("got %q, %q", got, out.read("stderr"))
	}
	if after := listing(t, filepath.Join(dir, ".git")); !slices.Equal(after, before) {
		t.Errorf("left: %q, was %q", after, before)
	}
	tree := filepath.Join(t.TempDir(), "tree")
	git(t, dir, "worktree", "add", "-q", tree)
	if _, out := run(t, r, confined(tree, `echo evil > .git && echo written; mv .git x && echo moved`)); out.read("stdout") != "" {
		t.Errorf("another work tree: %q", out.read("stdout"))
	}
}

func listing(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// T12: a protected link and its target cannot be changed, even when the target does not exist.
func TestLinksToProtectedFiles(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, "settings/env"), "x")
	write(t, filepath.Join(dir, "tools/hooks/pre-commit"), "x")
	write(t, filepath.Join(dir, ".git/HEAD"), "x")
	for link, to := range map[string]string{
		".env": "settings/env", ".bashrc": "settings/rc", ".profile": filepath.Join(elsewhere, "none"), ".git/hooks": "../tools/hooks", ".zshrc": ".bashrc",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	_, out := run(t, open(t), confined(dir, `
		echo evil > .env && echo env; echo evil > settings/env && echo env; mv settings s && echo settings; rm -f .env .bashrc && echo removed
		echo evil > settings/rc && echo rc; rm -f settings/rc && echo rc; echo evil > .zshrc && echo zshrc
		echo evil > tools/hooks/pre-commit && echo hook; echo evil > .git/hooks/post-commit && echo hook; mv tools t && echo tools
		ln -sf x .profile && echo profile; echo fine > settings/other; cat settings/other`))
	if got := out.read("stdout"); got != "fine\n" {
		t.Errorf("got %q, %q", got, out.read("stderr"))
	}
	if got := strings.Join(listing(t, filepath.Join(dir, "settings")), " "); got != "env other" {
		t.Errorf("left in settings: %q", got)
	}
}

// The test checks that hidden files and sockets are covered under every name, also when the path of the workspace or of the hidden file
// contains a link (T02, T35).
func TestHiddenByAnyName(t *testing.T) {
	r := open(t)
	at := t.TempDir()
	real, link := filepath.Join(at, "real"), filepath.Join(at, "link")
	write(t, filepath.Join(real, "data/store"), "secret")
	write(t, filepath.Join(real, "conf/token"), "secret")
	for to, from := range map[string]string{"real": link, "real/data": filepath.Join(at, "data")} {
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	for i, workspace := range []string{real, link} {
		lis, err := net.Listen("unix", filepath.Join([]string{link, real}[i], "s"))
		if err != nil {
			t.Fatal(err)
		}
		defer lis.Close()
		spec := attacker(t, workspace, "dial", filepath.Join(workspace, "s"))
		if _, out := run(t, r, spec); !strings.HasPrefix(out.read("stdout"), "dial dial unix") {
			t.Errorf("%s: socket: %q %q", workspace, out.read("stdout"), out.read("stderr"))
		}
		lis.Close()
		spec = confined(workspace, `cat data/store conf/token; cat `+real+`/data/store; ls data`)
		spec.Policy.Hide = []string{filepath.Join(at, "data"), filepath.Join(real, "conf/token")}
		if _, out := run(t, r, spec); out.read("stdout") != "" {
			t.Errorf("%s: %q", workspace, out.read("stdout"))
		}
	}
}

// The test checks that a command cannot rename a parent of a hidden file (T02). Otherwise the next command would find the file under the
// new name.
func TestHiddenStaysHidden(t *testing.T) {
	r := open(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "var/lib/token"), "secret")
	write(t, filepath.Join(dir, "var/data/store"), "secret")
	for range 2 {
		spec := confined(dir, `mv var rav && echo moved; mv var/lib var/bil && echo moved; cat */*/token */*/store; echo fine > var/other; cat var/other`)
		spec.Policy.Hide = []string{filepath.Join(dir, "var/lib/token"), filepath.Join(dir, "var/data")}
		if _, out := run(t, r, spec); out.read("stdout") != "fine\n" {
			t.Errorf("got %q, %q", out.read("stdout"), out.read("stderr"))
		}
	}
}

// The test checks that a policy may protect any number of paths.
func TestManyProtectedPaths(t *testing.T) {
	const many = 1000
	dir := t.TempDir()
	spec := confined(dir, `for i in */*/f; do (echo x > $i) 2>/dev/null && echo $i; done; echo end`)
	spec.Policy.Protect = []string{}
	for i := range many {
		path := fmt.Sprintf("d%d/e/f", i)
		write(t, filepath.Join(dir, path), "x")
		spec.Policy.Protect = append(spec.Policy.Protect, path)
	}
	if _, out := run(t, open(t), spec); out.read("stdout") != "end\n" {
		t.Errorf("got %.200q, %.200q", out.read("stdout"), out.read("stderr"))
	}
}

// The state directory is relative, and the policy shows it. The test checks that the canary can read its file there, so the fact fs_read is
// not held (P12).
func TestCanaryChecksTheRightPath(t *testing.T) {
	t.Chdir(t.TempDir())
	r := openIn(t, "state")
	facts, err := r.Prove(t.Context(), sandbox.Policy{Workspace: t.TempDir(), Unsupervised: true, Read: []string{mustAbs(t, "state")}})
	if err != nil || facts.FSRead.Held {
		t.Errorf("a canary that could read its file: %+v, %v", facts.FSRead, err)
	}
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	whole, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return whole
}
