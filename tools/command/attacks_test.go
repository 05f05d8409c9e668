package command_test

import (
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/tool"
)

// show is a script that prints its arguments, each in brackets.
const show = "#!/bin/sh\nfor a in \"$@\"; do printf '[%s]' \"$a\"; done\n"

// TestOptions checks that a program never takes a value for an option (T45). A value that begins with - is rejected in all but two places:
// after the element --, and as the value of an option that the manifest spells out.
func TestOptions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one := newClient(t, s.load(`id: x
parameters:
  properties: {ref: {type: string}, paths: {type: array, items: {type: string}}, format: {type: string}, depth: {type: integer}, all: {type: boolean}, rest: {type: string}}
run:
  program: ./run
  args: [log, {option: --format, value: "{format}"}, "--depth={depth}", "-C{depth}", {flag: --all, if: all}, "{ref}", "{ref}/{ref}", "--", "{paths...}", "{rest:json}"]
`, show))
	for _, bad := range []string{"--output=/x", "-exec", "--pre", "--upload-pack=x", "-c core.pager=x", "-", "-1"} {
		if got := one.text(`{"ref":"` + bad + `"}`); !strings.HasPrefix(got, "error: The program was not run. ref: begins with -, so run would read it as an option") {
			t.Errorf("%s as an operand: %s", bad, got)
		}
	}
	if got := one.text(`{"paths":["--output=/x","-exec"],"rest":"-x","format":"-%h"}`); got != `[log][--format][-%h][--][--output=/x][-exec]["-x"]` {
		t.Errorf("behind --: %s", got)
	}
	if got := one.text(`{"ref":"main","depth":-2,"all":true,"paths":[]}`); got != "[log][--depth=-2][-C-2][--all][main][main/main][--]" {
		t.Errorf("joined to its option: %s", got)
	}
	glued := newClient(t, s.load("id: x\nparameters: {properties: {out: {type: string}, file: {type: string}}}\nrun: {program: ./run, args: ['-o{out}', '{file}']}\n", show))
	if got := glued.text(`{"out":"","file":"a"}`); !strings.Contains(got, "out: must not be empty: run would use the next argument as the value of -o") {
		t.Errorf("an empty value: %s", got)
	}
	path := newClient(t, s.load("id: x\nparameters: {properties: {p: {type: string}}}\nrun: {program: ./run, args: ['{p:path}']}\n", show))
	for _, bad := range []string{"/etc/passwd", "../x", "a/../../x", ""} {
		if got := path.text(`{"p":"` + bad + `"}`); !strings.Contains(got, "p: must be a relative path that stays in the workspace") {
			t.Errorf("%q as a path: %s", bad, got)
		}
	}
}

// The test checks that no shell interprets an argument (T46). It also checks that a value is rejected when it cannot be an element of an
// argument list.
func TestNothingIsInterpreted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one := newClient(t, s.load("id: x\nparameters: {properties: {a: {type: string}}}\nrun: {program: ./run, args: ['{a}']}\n", show))
	for _, text := range []string{"$(touch made)", "`touch made`", "a\nb; touch made", "a && touch made", "{a}", "%s $a \\", "'\"", "ü\u202e"} {
		r, err := one.run(`{"a":` + string(quoted(text)) + `}`)
		if err != nil || r.ModelText() != "["+text+"]" {
			t.Errorf("%q comes as %v, %v", text, r, err)
		}
	}
	if _, err := os.Stat(filepath.Join(s.workspace, "made")); err == nil {
		t.Error("something was run")
	}
	if got := one.text(`{"a":"x\u0000y"}`); !strings.Contains(got, "a: contains a NUL") {
		t.Errorf("a NUL: %s", got)
	}
	if got := one.text(`{"a":"` + strings.Repeat("x", 3<<20) + `"}`); !strings.Contains(got, "a: is longer than 131071 bytes") {
		t.Errorf("3 MB: %.200s", got)
	}
}

// TestVariables checks that an argument cannot set a variable that programs interpret (T47).
func TestVariables(t *testing.T) {
	t.Setenv("COMMAND_TEST_SECRET", "leaked")
	t.Setenv("COMMAND_TEST_PASSED", "yes")
	s := newSite(t)
	for _, name := range []string{"LD_PRELOAD", "GIT_SSH_COMMAND", "BASH_ENV", "PATH", "IFS", "PYTHONPATH", "arg_x", "TOOLD_RESUME"} {
		got := s.problem("id: x\nparameters: {properties: {v: {type: string}}}\nrun: {program: /bin/echo, environment: {" + name + ": '{v}'}}\n")
		if !strings.Contains(got, "tool.yaml:3:") || !strings.Contains(got, "run.environment."+name+": ") {
			t.Errorf("%s is reported as %q", name, got)
		}
	}
	one := newClient(t, s.load(`id: x
parameters: {properties: {v: {type: string}}}
run:
  program: ./run
  environment: {ARG_V: "v={v}", PATH: /usr/bin, LANG: "{{}}"}
  pass: [COMMAND_TEST_PASSED, COMMAND_TEST_MISSING]
`, "#!/bin/sh\nexec /usr/bin/env\n"))
	got := one.text(`{"v":"LD_PRELOAD=/x\nBASH_ENV=/y"}`)
	for _, want := range []string{"ARG_V=v=LD_PRELOAD=/x\nBASH_ENV=/y\n", "PATH=/usr/bin\n", "LANG={}\n", "TOOLD_CALL_ID=call-00000000000001\n", "TOOLD_ATTEMPT=1\n", "COMMAND_TEST_PASSED=yes\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Contains(got, "leaked") || strings.Contains(got, "COMMAND_TEST_MISSING") || strings.Contains(got, "HOME="+s.workspace) {
		t.Errorf("more than the expected output:\n%s", got)
	}
	if got := one.text(`{}`); strings.Contains(got, "ARG_V") {
		t.Errorf("a variable without its argument:\n%s", got)
	}
}

// TestPinnedPrograms checks that a program does not start when the program or one of its files differs from its pin (T96). The changed file
// may have the same size and modification time.
func TestPinnedPrograms(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, manifest string }{
		{"when it was read", "run: {program: ./run, digest: load}\n"},
		{"in the manifest", "run: {program: ./run, digest: 'sha256:DIGEST'}\n"},
		{"after a while", "run: {program: ./run, digest: load}\n"},
		{"a file of it", "run: {program: /bin/sh, args: [DIR/run], files: [{path: ./run, digest: load}]}\n"},
		{"persistent", "run: {program: ./run, digest: load, output: lines, persistent: {}}\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			script := "#!/bin/sh\necho right\n"
			if tt.name == "persistent" {
				script = "#!/bin/sh\nwhile read -r l; do id=${l#*'\"id\":\"'}; printf '{\"id\":\"%s\",\"result\":\"right\"}\\n' \"${id%%'\"'*}\"; done\n"
			}
			path := s.write("run", script)
			old := time.Now().Add(-time.Hour)
			must(t, os.Chtimes(path, old, old))
			sum, err := exec.Command("sha256sum", path).Output()
			must(t, err)
			one := newClient(t, s.load("id: x\n"+strings.NewReplacer("DIGEST", strings.Fields(string(sum))[0], "DIR", s.dir).Replace(tt.manifest), ""))
			for range 2 {
				if got := one.text("{}"); strings.TrimSpace(got) != "right" {
					t.Fatalf("the pinned program: %s", got)
				}
				if tt.name == "after a while" { // The test cannot set the change time of an inode, so it waits until the time is old enough to be trusted.
					time.Sleep(2100 * time.Millisecond)
				}
			}
			must(t, os.WriteFile(path, []byte(strings.Replace(script, "right", "wrong", 1)), 0o755))
			must(t, os.Chtimes(path, old, old))
			r, err := one.run("{}")
			e := tool.AsError(err)
			if err == nil || e.Reason != "PROGRAM_CHANGED" || !errors.Is(err, tool.ErrNotRun) {
				t.Errorf("a swapped program: %v, %v", r, err)
			}
			must(t, os.WriteFile(path, []byte(script), 0o755))
			if got := one.text("{}"); strings.TrimSpace(got) != "right" {
				t.Errorf("the pinned program is back: %s", got)
			}
		})
	}
}

// The test checks that a manifest is rejected when the path of one of its files leads through the workspace. Callers could redirect such a
// path.
func TestWayThroughTheWorkspace(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("run", show)
	link := func(to, at string) { must(t, os.Symlink(to, at)) }
	out, work := filepath.Join(s.dir, "run"), s.workspace
	must(t, os.Mkdir(filepath.Join(work, "sub"), 0o755))
	link(out, filepath.Join(work, "file"))
	link(s.dir, filepath.Join(work, "dir"))
	link(filepath.Join(work, "file"), filepath.Join(s.dir, "there-and-back"))
	link("../"+filepath.Base(work)+"/dir", filepath.Join(s.dir, "relative"))
	link("../"+filepath.Base(work)+"/sub/../../tools", filepath.Join(s.dir, "dots"))
	link(work, filepath.Join(s.dir, "workspace"))
	link("run", filepath.Join(s.dir, "honest"))
	link(s.dir, filepath.Join(s.dir, "self"))
	for _, tt := range []struct {
		path string
		bad  bool
	}{
		{work + "/file", true}, {work + "/dir/run", true}, {"./there-and-back", true}, {"./relative/run", true}, {"./dots/run", true}, {"./workspace/file", true},
		{"./self/workspace/dir/run", true}, {"./run", false}, {"./honest", false}, {"./self/self/honest", false},
	} {
		for _, m := range []string{"run: {program: PATH}", "run: {program: /bin/sh, args: [PATH], files: [{path: PATH}]}"} {
			got := s.problem("id: x\n" + strings.ReplaceAll(m, "PATH", tt.path) + "\n")
			if bad := strings.Contains(got, "is in the workspace, where callers can change it"); bad != tt.bad || !bad && got != "" {
				t.Errorf("%s of %s is reported as %q", tt.path, m, got)
			}
		}
	}
	// The workspace may be configured as a symbolic link. The check must also find a program whose path leads through the target of this
	// link.
	s.cfg.Workspace = filepath.Join(s.dir, "workspace")
	if got := s.problem("id: x\nrun: {program: " + work + "/file}\n"); !strings.Contains(got, "is in the workspace") {
		t.Errorf("a workspace that is a link: %q", got)
	}
}

// The test checks that a program finds in its home directory only what the same tool wrote in the same thread (T116). A program that gets a
// secret finds an empty home directory.
func TestT116HomeOfAProgram(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"default", "none"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.cfg.Secrets = &vault{values: map[string]string{"key": "s3cret"}}
			const script = "#!/bin/sh\nls -A ~\necho x > ~/$TOOLD_CALL_ID\ncase $HOME in $PWD*) echo in the workspace ;; esac\n"
			plain := "run: {program: ./run, profile: " + profile + "}\n"
			t1, t2 := rand.Text(), rand.Text() // random ids of two threads; fixed ids would find the home directories of an earlier run of this test
			thread := tool.Run{Thread: t1, ID: "r1"}
			in := func(manifest, id string, run tool.Run) string {
				one := newClient(t, s.load(manifest, script))
				one.call.ID, one.call.Run = id, run
				return one.text("{}")
			}
			for _, step := range []struct {
				name, manifest, id string
				run                tool.Run
				want               string
			}{
				{"first", "id: x\n" + plain, "call-1", thread, "(no output)"},
				{"same thread, another run", "id: x\n" + plain, "call-2", tool.Run{Thread: t1, ID: "r2"}, "call-1\n"},
				{"another tool", "id: y\n" + plain, "call-3", thread, "(no output)"},
				{"another thread", "id: x\n" + plain, "call-4", tool.Run{Thread: t2}, "(no output)"},
				{"a run without thread", "id: x\n" + plain, "call-5", tool.Run{ID: t1}, "(no output)"},
				{"no thread", "id: x\n" + plain, "call-6", tool.Run{}, "(no output)"},
				{"no thread again", "id: x\n" + plain, "call-7", tool.Run{}, "(no output)"},
				{"a secret", "id: x\nrun: {program: ./run, profile: " + profile + ", secrets: {KEY: 'secret://key'}}\n", "call-8", thread, "(no output)"},
				{"and not kept", "id: x\n" + plain, "call-9", thread, "call-1\ncall-2\n"},
			} {
				if got := in(step.manifest, step.id, step.run); got != step.want {
					t.Errorf("%s: %q", step.name, got)
				}
			}
		})
	}
}
