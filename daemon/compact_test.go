package daemon

import (
	"strings"
	"testing"

	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/plugins/compact"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func TestCompact(t *testing.T) {
	p := newPluginSite(t, "compact: {tools: [bash], from: 1000}\n")
	run := func(id, command string) *tooldv1.ToolResult {
		t.Helper()
		return lastFinished(execute(t, p.p, bash(id, command)).last(t)).GetResult()
	}
	const command = `printf '\033[1mbegins\033[0m\n'; for i in $(seq 100); do echo the same line; done; for i in $(seq 100); do printf "%d of 100\r" $i; done; echo`
	r := run("compact", command)
	if m := r.GetMessage(); !strings.HasPrefix(m, "begins\nthe same line\n… 99 more lines like this\n100 of 100\n[Compacted: 2 escape sequences removed, 99 overwritten states of lines left out, 99 repeated lines folded;") {
		t.Errorf("the model reads %q", m)
	}
	for _, name := range []string{"result.message", "stdout"} {
		part, err := p.p.calls.ReadArtifact(within(t), &tooldv1.ReadArtifactRequest{CallId: "serve-tests-call-compact", Name: name})
		must(t, err)
		if b := string(part.GetData()); !strings.HasPrefix(b, "\x1b[1mbegins\x1b[0m\nthe same line\nthe same line\n") || !strings.Contains(b, "\r99 of 100\r") {
			t.Errorf("%s is %q", name, b)
		}
	}
	p.reload("compact: {tools: [other], from: 1000}\n", "[compact] []")
	if m := run("raw", command).GetMessage(); !strings.Contains(m, "\x1b[1mbegins\x1b[0m\nthe same line\nthe same line") {
		t.Errorf("a tool that is not meant any more: %q", m)
	}
	if _, err := newPlugins(&config.Config{Compact: compact.Config{Tools: []string{"["}}}, nil); err == nil {
		t.Error("a broken pattern is accepted")
	}
}
