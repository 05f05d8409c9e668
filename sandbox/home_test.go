package sandbox_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/sandbox"
)

// at runs a script with a home and returns its output.
func at(t *testing.T, r *sandbox.Runner, home string, policy *sandbox.Policy, dir, script string) string {
	t.Helper()
	spec := bash(dir, script)
	spec.Policy, spec.Home = policy, home
	exit, out := run(t, r, spec)
	if exit.Code != 0 {
		t.Fatalf("%q: %+v, %q", script, exit, out.read("stderr"))
	}
	return out.read("stdout")
}

// plant writes files that programs load from HOME. show runs those programs.
const (
	plant = `export GIT_CONFIG_NOSYSTEM=1; p=$HOME/.local/lib/python$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')/site-packages; mkdir -p $p
		echo 'print("loaded .pth")' > $p/usercustomize.py; git config --global alias.planted '!echo loaded .gitconfig'
		echo 'echo loaded .profile' > $HOME/.profile`
	show = `export GIT_CONFIG_NOSYSTEM=1; python3 -c ''; git config --global alias.planted; bash -lc ''; true`
)

// The test checks that programs load the files in a home only for the same tool, thread and level of isolation (T116).
func TestT116HomeIsPrivate(t *testing.T) {
	r := open(t)
	dir := t.TempDir()
	isolated := &sandbox.Policy{Workspace: dir}
	landlock := &sandbox.Policy{Workspace: dir, Unsupervised: true}
	for name, policy := range map[string]*sandbox.Policy{"none": nil, "isolated": isolated, "landlock": landlock} {
		at(t, r, "thread 1", policy, dir, plant)
		if got := at(t, r, "thread 1", policy, dir, show); strings.Count(got, "loaded") != 3 {
			t.Errorf("%s: the home is not kept, or nothing is tested: %q", name, got)
		}
		at(t, r, sandbox.FreshHome, policy, dir, plant)
	}
	for name, policy := range map[string]*sandbox.Policy{"none": nil, "isolated": isolated, "landlock": landlock} {
		for _, home := range []string{"thread 2", sandbox.FreshHome} {
			if got := at(t, r, home, policy, dir, show+`; ls -A ~`); got != "" {
				t.Errorf("%s, %s: %q", name, home, got)
			}
		}
	}
	if entries := listing(t, dir); len(entries) != 0 {
		t.Errorf("in the workspace: %q", entries)
	}
}

// T116: each level of isolation has a separate home.
func TestT116IsolationsShareNoHome(t *testing.T) {
	r := open(t)
	dir := t.TempDir()
	at(t, r, "one", &sandbox.Policy{Workspace: dir}, dir, `echo evil > ~/.gitconfig`)
	for _, policy := range []*sandbox.Policy{nil, {Workspace: dir, Unsupervised: true}} {
		if got := at(t, r, "one", policy, dir, `ls -A ~`); got != "" {
			t.Errorf("%+v: %q", policy, got)
		}
	}
}

// T116: an isolated process sees only its home and nothing around it. A home in memory has a size limit.
func TestT116NothingBesideTheHome(t *testing.T) {
	r := open(t)
	dir := t.TempDir()
	for _, home := range []string{"one", sandbox.FreshHome} {
		policy := &sandbox.Policy{Workspace: dir, Limits: sandbox.Limits{Tmp: 1 << 20}}
		got := at(t, r, home, policy, dir, `cd ~ && echo fine > f && cat f; pwd; stat -c %a .; ls -A ~`)
		if got != "fine\n/toold-home\n700\nf\n" {
			t.Errorf("%s: %q", home, got)
		}
	}
	spec := confined(dir, `head -c 3M /dev/zero > ~/x`)
	spec.Home, spec.Policy.Limits.Tmp = sandbox.FreshHome, 1<<20
	if exit, out := run(t, r, spec); exit.Code == 0 {
		t.Errorf("T28: a home in memory has no size: %q", out.read("stderr"))
	}
}

// A HOME that the operator sets is kept.
func TestHomeOfTheEnvironment(t *testing.T) {
	spec := bash(t.TempDir(), `echo $HOME`)
	spec.Env, spec.Home = append(spec.Env, "HOME=/srv/own"), "one"
	if _, out := run(t, open(t), spec); out.read("stdout") != "/srv/own\n" {
		t.Errorf("got %q", out.read("stdout"))
	}
}

// Fresh homes are removed with their run, other homes when they are old or too many. A sweep also removes the fresh homes of a killed
// daemon.
func TestHomesAreRemoved(t *testing.T) {
	homes := filepath.Join(t.TempDir(), "homes")
	with := func(c *sandbox.Config) { c.Homes = homes }
	long := time.Now().Add(-25 * time.Hour)
	for _, left := range []string{"fresh-left", "removed-left", "old", "young"} {
		write(t, filepath.Join(homes, left, "mod/cache/f"), "x")
		for _, cache := range []string{"mod/cache", "mod"} {
			if left == "young" {
				break
			}
			if err := os.Chmod(filepath.Join(homes, left, cache), 0o555); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Chtimes(filepath.Join(homes, "old"), long, long); err != nil {
		t.Fatal(err)
	}
	r := open(t, with)
	if _, err := r.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "the old homes to go", func() bool { return slices.Equal(listing(t, homes), []string{"young"}) })
	for i := range 300 {
		path := filepath.Join(homes, fmt.Sprintf("many-%d", i))
		if err := errors.Join(os.Mkdir(path, 0o700), os.Chtimes(path, long.Add(2*time.Hour), long.Add(2*time.Hour))); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the homes to go", func() bool {
		_, err := r.Sweep(t.Context()) // The sweep is repeated, because the removal that the previous one started may still run.
		return err == nil && len(listing(t, homes)) == 256
	})
	if _, err := os.Stat(filepath.Join(homes, "young/mod/cache/f")); err != nil {
		t.Error(err)
	}
	at(t, r, sandbox.FreshHome, nil, t.TempDir(), `mkdir -p ~/a/b && chmod 555 ~/a`)
	until(t, "the fresh home to go", func() bool { return len(listing(t, homes)) == 256 })
}

// A home in use is never removed, whatever its age.
func TestUsedHomesStay(t *testing.T) {
	homes := filepath.Join(t.TempDir(), "homes")
	r := open(t, func(c *sandbox.Config) { c.Homes = homes })
	spec := bash(t.TempDir(), `echo x > ~/f; touch -d '2 days ago' ~; echo ready; read; cat ~/f`)
	spec.Home = "one"
	in, end, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	spec.Stdin = in
	var out screen
	spec.Output = func(stream string, chunk []byte) error {
		out.output(stream, chunk)
		if string(chunk) != "ready\n" {
			return nil
		}
		defer end.Close()
		write(t, filepath.Join(homes, "fresh-marker/f"), "x")
		if _, err := r.Sweep(t.Context()); err != nil {
			return err
		}
		until(t, "the sweep", func() bool { return len(listing(t, homes)) <= 1 })
		return nil
	}
	if _, err := r.Run(t.Context(), spec); err != nil || out.read("stdout") != "ready\nx\n" {
		t.Errorf("%v, %q, %q", err, out.read("stdout"), out.read("stderr"))
	}
}
