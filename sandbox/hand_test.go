package sandbox_test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/toold-dev/toold/sandbox"
)

// handing runs a test once for each way of starting processes.
func handing(t *testing.T, do func(t *testing.T, r *sandbox.Runner, spec func(script string, texts ...string) sandbox.Spec)) {
	t.Helper()
	r := open(t)
	for name, policy := range map[string]*sandbox.Policy{
		"none": nil, "landlock": {Unsupervised: true}, "isolated": {}, "proxy": {Network: sandbox.NetworkProxy}, "own helper": {},
	} {
		t.Run(name, func(t *testing.T) {
			r := r
			switch name {
			case "proxy":
				r = open(t, func(c *sandbox.Config) { c.Gateway = gateway(func(net.Conn) {}) })
			case "own helper":
				r = open(t, func(c *sandbox.Config) { c.Helper = "" })
			}
			do(t, r, func(script string, texts ...string) sandbox.Spec {
				spec := bash(t.TempDir(), script)
				spec.Handed = texts
				if policy != nil {
					own := *policy
					own.Workspace, spec.Policy = spec.Dir, &own
				}
				return spec
			})
		})
	}
}

// TestHanded checks that a process can read each text once, up to end of file, by file descriptor or by path, and that it has no other file
// descriptor.
func TestHanded(t *testing.T) {
	handing(t, func(t *testing.T, r *sandbox.Runner, spec func(string, ...string) sandbox.Spec) {
		var texts []string
		for i := range sandbox.MostHanded {
			texts = append(texts, fmt.Sprintf("text-%d", i))
		}
		_, out := run(t, r, spec(`ls -xv /proc/self/fd; for i in {3..10}; do echo "$(cat <&$i),$(cat <&$i),$(cat /dev/fd/$i)"; done`, texts...))
		want := []string{"0 1 2 3 4 5 6 7 8 9 10 11"} // File descriptor 11 is the directory that ls reads.
		for _, text := range texts {
			want = append(want, text+",,")
		}
		lines := strings.Split(strings.TrimSpace(out.read("stdout")), "\n")
		lines[0] = strings.Join(strings.Fields(lines[0]), " ")
		if got := strings.Join(lines, "\n"); got != strings.Join(want, "\n") || out.read("stderr") != "" {
			t.Errorf("got %s\n%s", got, out.read("stderr"))
		}
		_, out = run(t, r, spec(`echo $(cat /dev/fd/3)`, "by its name"))
		if got := out.read("stdout"); got != "by its name\n" {
			t.Errorf("by its name: %q", got)
		}
	})
	exit, err := open(t).Run(t.Context(), sandbox.Spec{Path: "/bin/true", Dir: "/", Handed: make([]string, sandbox.MostHanded+1)})
	if exit != nil || err == nil || !strings.Contains(err.Error(), "limit of 8") {
		t.Errorf("nine texts: %v, %v", exit, err)
	}
}

// TestHandedUnread checks that a process that does not read its texts blocks no goroutine, whatever their length. It also checks that no
// end of a pipe remains open in the daemon or in the next process.
func TestHandedUnread(t *testing.T) {
	handing(t, func(t *testing.T, r *sandbox.Runner, spec func(string, ...string) sandbox.Spec) {
		run(t, r, spec("exit 0")) // This starts the helper, whose file descriptors stay open and must not count below.
		before := descriptors(t)
		for _, text := range []string{"", "short", strings.Repeat("x", 1<<20)} {
			exit, _ := run(t, r, spec("exit 7", text))
			if exit.Code != 7 {
				t.Errorf("%d bytes: %+v", len(text), exit)
			}
			mustBeConfirmed(t, exit)
		}
		until(t, "the ends of the pipes to be closed", func() bool { return descriptors(t) <= before })
		if _, out := run(t, r, spec("ls /proc/self/fd | wc -l")); out.read("stdout") != "4\n" {
			t.Errorf("the next process has %s descriptors", out.read("stdout"))
		}
	})
}

// descriptors returns the number of open file descriptors of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// A text longer than a pipe's buffer arrives complete.
func TestHandedAtLength(t *testing.T) {
	handing(t, func(t *testing.T, r *sandbox.Runner, spec func(string, ...string) sandbox.Spec) {
		_, out := run(t, r, spec("wc -c <&3; wc -c <&4; wc -c <&3", strings.Repeat("x", 1<<20), "text"))
		if got := out.read("stdout"); got != "1048576\n4\n0\n" {
			t.Errorf("%q", got)
		}
	})
}

// The test checks that a text is read only once: a later process that inherits the file descriptor finds it empty. Processes that do not
// inherit it cannot find the text in /proc of the reader or of process 1.
func TestHandedIsForOne(t *testing.T) {
	handing(t, func(t *testing.T, r *sandbox.Runner, spec func(string, ...string) sandbox.Spec) {
		const text = "handed-to-one-process"
		s := spec(`while IFS= read -r line || [ "$line" ]; do got=$got$line; done <&3
echo "read ${#got}"
bash -c 'echo "child $(cat <&3)."'
bash -c '[ -e /proc/self/fd/3 ] || echo closed
cat /proc/'$$'/fd/3 /proc/'$$'/environ /proc/'$$'/cmdline | grep -ac hand""ed-to
grep -ra hand""ed-to . $OWN' 3<&-`, text)
		if s.Policy != nil && !s.Policy.Unsupervised { // Without a PID namespace, the process sees the /proc of the machine.
			s.Env = append(s.Env, "OWN=/proc/1/fd/0 /proc/1/fd/3 /tmp /dev/shm")
		}
		_, out := run(t, r, s)
		if got, want := out.read("stdout"), fmt.Sprintf("read %d\nchild .\nclosed\n0\n", len(text)); got != want {
			t.Errorf("got %q, want %q; %s", got, want, out.read("stderr"))
		}
	})
}

// The test checks that when a process forks, the first reader gets the text and the other one gets end of file.
func TestHandedAndForked(t *testing.T) {
	handing(t, func(t *testing.T, r *sandbox.Runner, spec func(string, ...string) sandbox.Spec) {
		_, out := run(t, r, spec(`(cat <&3 > mine); cat <&3; echo "/$(cat mine)"`, "text"))
		if got := out.read("stdout"); got != "/text\n" {
			t.Errorf("%q", got)
		}
	})
}
