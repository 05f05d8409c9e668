package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHeldCallsAreReported checks the commands on a copied store. Until its calls are released, they report that calls are held, and name the
// command to run.
func TestHeldCallsAreReported(t *testing.T) {
	s := newSite(t, "")
	p := s.start()
	p.ask("write", `{"path":"a.txt","content":"a"}`)
	p.kill()
	must(t, os.Remove(filepath.Join(s.data, "toold.sock")))
	copied := *s
	copied.data = filepath.Join(filepath.Dir(s.data), "copy")
	must(t, os.CopyFS(copied.data, os.DirFS(s.data)))
	copied.start()
	do := func(args ...string) *run { return new(run).do(t, copied.data, args...) }
	const held = "1 call is held, the store was copied or restored; see toold release --help"
	if r := do("info"); r.code != 0 || !strings.Contains(r.out, "1 call is held") {
		t.Errorf("info: %d\n%s%s", r.code, r.out, r.err)
	}
	if r := do("inbox"); r.code != 0 || !strings.Contains(r.out, "a.txt") || !strings.Contains(r.err, held) {
		t.Errorf("inbox: %d\n%s%s", r.code, r.out, r.err)
	}
	x := copied.terminal(t, 80, 24, nil, "inbox")
	x.expect("1 waits", "1 call is held")
	x.press("ay")
	x.expect("an operator releases")
	x.press("q")
	x.end()
	if r := do("release", "--all"); r.code != 0 || !strings.Contains(r.out, "1 calls released, 0 still held") {
		t.Errorf("release: %d\n%s%s", r.code, r.out, r.err)
	}
	for _, command := range []string{"info", "inbox"} {
		if r := do(command); r.code != 0 || strings.Contains(r.out+r.err, "1 call is held") {
			t.Errorf("%s: %d\n%s%s", command, r.code, r.out, r.err)
		}
	}
}
