package daemon

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/toold-dev/toold/cli"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func TestLogLevel(t *testing.T) {
	s := newSite(t, "")
	p := s.start()
	const refusal = `"msg":"request refused"` // logged at level debug
	refused := func() {
		if r := new(run).do(t, s.data, "calls", "show", "no-such-call-at-all"); r.code != cli.ExitNotFound {
			t.Fatalf("exit code %d: %s", r.code, r.err)
		}
	}
	refused()
	new(run).do(t, s.data, "log-level", "debug").expect(t, 0, "info → debug\n")
	if strings.Contains(p.log.String(), refusal) {
		t.Fatal("logged before the level was changed")
	}
	refused()
	eventually(t, "the refusal in the log", func() bool { return strings.Contains(p.log.String(), refusal) })
	new(run).do(t, s.data, "log-level", "WARN").expect(t, 0, "debug → warn\n")
	for _, args := range [][]string{{"log-level"}, {"log-level", "loud"}, {"log-level", "debug", "info"}} {
		if r := new(run).do(t, s.data, args...); r.code != cli.ExitUsage {
			t.Errorf("%q: exit code %d", args, r.code)
		}
	}
}

// A reload applies the level of the file whenever the file changed, also when it changes back to the level of the start.
func TestReloadLogLevel(t *testing.T) {
	s := newSite(t, "")
	config := s.rules + ".config"
	write := func(level string) { must(t, os.WriteFile(config, []byte("log: {level: "+level+"}\n"), 0o600)) }
	write("info")
	p := s.start("--config", config)
	for _, level := range []string{"debug", "info", "warn"} {
		write(level)
		resp, err := p.admin.Reload(within(t), &tooldv1.ReloadRequest{})
		must(t, err)
		if !slices.Equal(resp.GetChanged(), []string{"log.level"}) {
			t.Errorf("%s: changed %q", level, resp.GetChanged())
		}
	}
	new(run).do(t, s.data, "log-level", "error").expect(t, 0, "warn → error\n")
}
