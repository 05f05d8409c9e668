package main

import (
	"strings"
	"testing"
)

func TestLogLevel(t *testing.T) {
	s := newSite(t, "")
	p := s.start()
	const told = `"msg":"request refused"` // on level debug
	refused := func() {
		if r := new(run).do(t, s.data, "calls", "show", "no-such-call-at-all"); r.code != exitNotFound {
			t.Fatalf("exit code %d: %s", r.code, r.err)
		}
	}
	refused()
	new(run).do(t, s.data, "log-level", "debug").expect(t, 0, "info → debug\n")
	if strings.Contains(p.log.String(), told) {
		t.Fatal("logged before the level was changed")
	}
	refused()
	eventually(t, "the refusal in the log", func() bool { return strings.Contains(p.log.String(), told) })
	new(run).do(t, s.data, "log-level", "WARN").expect(t, 0, "debug → warn\n")
	for _, args := range [][]string{{"log-level"}, {"log-level", "loud"}, {"log-level", "debug", "info"}} {
		if r := new(run).do(t, s.data, args...); r.code != exitUsage {
			t.Errorf("%q: exit code %d", args, r.code)
		}
	}
}
