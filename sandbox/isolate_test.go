package sandbox_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/sandbox/isolation"
)

// confined returns a Spec for a script in a workspace with the default policy.
func confined(dir, script string) sandbox.Spec {
	spec := bash(dir, script)
	spec.Policy = &sandbox.Policy{Workspace: dir}
	return spec
}

func TestIsolatedExit(t *testing.T) {
	r := open(t)
	tests := []struct {
		name, script string
		code         int
		signal       string
		stdout       string
	}{
		{"success", "echo hi", 0, "", "hi\n"},
		{"code", "echo hi; exit 7", 7, "", "hi\n"},
		{"signal", "kill -SEGV $$", -1, "SIGSEGV", ""},
		{"kills its group", "echo hi; kill -KILL 0", -1, "SIGKILL", "hi\n"},
		{"waits for input", "cat; echo end", 0, "", "end\n"}, // T26: the input is empty, so cat ends at once
		{"own session and group", `read -a f < /proc/$$/stat; [ ${f[4]} = $$ ] && [ ${f[5]} = $$ ] && echo own`, 0, "", "own\n"},
		{"process substitution", "echo hi > >(sleep 0.02; cat)", 0, "", "hi\n"},
		{"reads its files", "echo hi > a; cat a; rm a", 0, "", "hi\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			exit, out := run(t, r, confined(t.TempDir(), tt.script))
			if exit.Code != tt.code || exit.Signal != tt.signal || out.read("stdout") != tt.stdout {
				t.Errorf("got code %d, signal %q, output %q, %q", exit.Code, exit.Signal, out.read("stdout"), out.read("stderr"))
			}
			mustBeConfirmed(t, exit)
			if exit.Duration <= 0 || exit.MaxRSS < 1<<20 {
				t.Errorf("duration %v, max RSS %d", exit.Duration, exit.MaxRSS)
			}
		})
	}
}

// A Runner without a helper refuses runs with a policy. Runs without a policy work.
func TestNoHelper(t *testing.T) {
	r := open(t, func(c *sandbox.Config) { c.Helper = sandbox.NoHelper })
	dir := t.TempDir()
	for _, policy := range []sandbox.Policy{{Workspace: dir}, {Workspace: dir, Unsupervised: true}} {
		spec := confined(dir, "touch ran")
		spec.Policy = &policy
		exit, err := r.Run(t.Context(), spec)
		if _, refused := errors.AsType[*sandbox.RefusedError](err); !refused || exit != nil {
			t.Errorf("the isolated run gave %+v, %v; want a refusal", exit, err)
		}
		facts, err := r.Prove(t.Context(), policy)
		if err != nil || slices.ContainsFunc(facts.List(), func(f isolation.NamedFact) bool { return f.Held }) {
			t.Errorf("facts without a helper: %v, %v", facts, err)
		}
	}
	if exit, _ := run(t, r, bash(dir, "[ ! -e ran ]")); exit.Code != 0 {
		t.Errorf("the plain run ended with code %d", exit.Code)
	}
}

func TestFactsAreProven(t *testing.T) {
	facts, err := open(t).Prove(t.Context(), sandbox.Policy{Workspace: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + strings.TrimSpace(facts.String()))
	for _, f := range []isolation.Fact{facts.FSRead, facts.FSWrite, facts.Net, facts.IPC, facts.ProcessesKilled, facts.PidsLimit} {
		if !f.Held {
			t.Errorf("not held: %+v", f)
		}
	}
}
