package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/cli"
)

// A user remembers an answer, is not asked again, revokes the answer and is asked again.
func TestRememberedAnswers(t *testing.T) {
	s := newSite(t, "rules: []\n")
	first := s.start()
	do := func(args ...string) *run { return (&run{clock: time.Now}).do(t, s.data, args...) }
	write := func(path, run string) *run { return do("call", "write", "path="+path, "content=x", "--run", run) }
	want := func(r *run, code int, texts ...string) {
		t.Helper()
		if r.code != code {
			t.Errorf("exit code %d, want %d: %s", r.code, code, r.err)
		}
		for _, text := range texts {
			if !strings.Contains(r.out+r.err, text) {
				t.Errorf("no %q in\n%s%s", text, r.out, r.err)
			}
		}
	}
	want(do("rules"), 0, "no answers are remembered")
	want(write("src/a.txt", "r"), cli.ExitSuspended)
	want(do("inbox", "s-"), 0, "Offers to remember the approval", "1  calls with exactly these arguments", "2  calls for anything in src")
	want(do("describe", "--suspension", "s-", "path=src/b.txt", "content=y"), 0, "src/b.txt", "ALLOW, answered")
	want(do("describe", "--suspension", "s-", "--json", `{"path":1}`), cli.ExitUsage, "content: is required")
	want(do("describe", "--suspension", "s-"), cli.ExitUsage, "needs the edited arguments")
	want(do("describe", "--suspension", "nothing", "--json", "{}"), cli.ExitNotFound)
	want(do("describe", "--suspension", "s-", "--json", "{}", "--run", "r"), cli.ExitUsage, "has its run")
	want(do("approve", "s-", "--remember", "3"), cli.ExitUsage, "offers 1 to 2")
	want(do("approve", "s-", "--remember", "2", "--for", "721h"), cli.ExitUsage, "more than 30 days")
	want(do("approve", "s-", "--remember", "2", "--for", "8h"), 0, "succeeded")
	want(write("src/b.txt", "r"), 0)
	want(write("other/b.txt", "r"), cli.ExitSuspended)
	want(write("src/c.txt", "r2"), cli.ExitSuspended)
	want(do("rules"), 0, "r-", "write", "calls for anything in src", "of local, in the run r", "by local", "ends in ")
	want(do("rules", "--tool", "bash", "-o", "json"), 0, "[]")
	want(do("rules", "-o", "jsonl"), 0, `"option":"path \"src\""`, `"scope":"REMEMBER_SCOPE_RUN"`)
	first.kill()
	s.start()
	want(write("src/d.txt", "r"), 0)
	want(do("rules", "revoke", "r-nobody"), cli.ExitNotFound, "toold rules lists")
	want(do("rules", "revoke", "r-"), 0, "calls for anything in src")
	want(write("src/e.txt", "r"), cli.ExitSuspended)
	want(do("mode", "plan", "--run", "r"), 0, "plan, was default")
	want(do("runs", "show", "r"), 0, "plan")
	want(write("src/f.txt", "r"), cli.ExitFailed, "plan")
	want(do("mode", "nonsense", "--run", "r"), cli.ExitUsage, "no permission mode")
	want(do("mode", "plan"), cli.ExitUsage, "--run RUN or --thread THREAD")
}
