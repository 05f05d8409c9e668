package daemon

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/cli"
)

// run is one execution of the command line in a test, with its output.
type run struct {
	code        int
	out, err    string
	in          string
	name        string // name by which toold was started
	environ     []string
	terminal    bool
	errTerminal bool
	clock       func() time.Time // nil means a clock that does not advance
}

func (r *run) do(t *testing.T, dir string, args ...string) *run {
	t.Helper()
	var out, errOut bytes.Buffer
	a := &cli.App{
		Name: r.name, Version: "test",
		In: strings.NewReader(r.in), Out: &out, Err: &errOut, Environ: append([]string{"TOOLD_DATA=" + dir, "PATH=" + os.Getenv("PATH")}, r.environ...),
		Now:         func() time.Time { return time.Date(2027, 3, 14, 15, 9, 26, 0, time.UTC) },
		OutTerminal: r.terminal, ErrTerminal: r.terminal || r.errTerminal, InTerminal: r.terminal,
	}
	addCommands(a, newOptions(helperPath(), nil))
	if r.clock != nil {
		a.Now = r.clock
	}
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	r.code = a.Run(ctx, args)
	r.out, r.err = out.String(), errOut.String()
	return r
}

func (r *run) expect(t *testing.T, code int, out string, inErr ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	if r.out != out {
		t.Errorf("standard output %q, want %q", r.out, out)
	}
	for _, want := range inErr {
		if !strings.Contains(r.err, want) {
			t.Errorf("standard error has no %q", want)
		}
	}
	if t.Failed() {
		t.Logf("standard error:\n%s", r.err)
	}
}
