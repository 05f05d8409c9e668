package daemon

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/sandbox/helper"
	"github.com/toold-dev/toold/sandbox/isolation"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/mcp"
)

// helperPath returns the path of the helper program in the directory of this program. It returns "" when there is none; this program is
// then its own helper.
func helperPath() string {
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	path := filepath.Join(filepath.Dir(exe), helper.Name)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return path
}

// A proof holds the isolation facts that a test of the sandbox (a canary) found for commands.
type proof struct {
	done  chan struct{}
	facts isolation.Facts // read only after done is closed
	list  []call.Fact
}

func (p *proof) wait() *proof {
	<-p.done // This wait is short, because the test of the sandbox has a time limit.
	return p
}

// startProof starts to test which isolation works for commands. Only calls that need the result wait for it.
func (d *daemon) startProof(policy *sandbox.Policy) *proof {
	p := &proof{done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.facts = d.prove(policy)
		p.list = factList(p.facts)
	}()
	return p
}

func (d *daemon) prove(policy *sandbox.Policy) isolation.Facts {
	if policy == nil {
		d.log.Warn("commands are not isolated: they have all rights of the daemon's user", zap.String("bash.profile", d.cfg.Bash.Profile))
		return d.runner.Facts()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	facts, err := d.runner.Prove(ctx, *policy)
	if errors.Is(err, sandbox.ErrClosed) {
		return facts // Return no facts: the daemon ends before the test has a result.
	}
	if err != nil {
		d.log.Error("the test of the isolation failed; commands that require isolation will not run", zap.Error(err))
		return facts
	}
	for _, f := range missing(policy, facts) {
		d.log.Warn("isolation is missing", zap.String("fact", f.Name), zap.String("detail", f.Detail))
	}
	return facts
}

// missing returns the facts that a policy needs and that do not hold.
func missing(policy *sandbox.Policy, facts isolation.Facts) (out []isolation.NamedFact) {
	for _, f := range facts.List() {
		needed := map[string]bool{
			"fs_read": true, "fs_write": true, "processes_killed": true, "net": policy.Network != sandbox.NetworkOpen,
			"mem_limit": policy.Limits.MemoryTotal > 0, "cpu_limit": policy.Limits.CPUs > 0,
		}
		if !f.Held && needed[f.Name] {
			out = append(out, f)
		}
	}
	return out
}

func factList(f isolation.Facts) []call.Fact {
	var facts []call.Fact
	for _, n := range f.List() {
		facts = append(facts, call.Fact{Name: n.Name, Held: n.Held})
	}
	slices.SortFunc(facts, func(a, b call.Fact) int { return cmp.Compare(a.Name, b.Name) })
	return facts
}

// ofShell reports whether the commands of a tool use the profile of bash.
func ofShell(t *tool.Descriptor) bool {
	return t.Source == builtin && (t.OwnID() == "bash" || t.OwnID() == "bash_input")
}

// isolation returns a function that returns the isolation facts for the records of a tool's calls.
func (d *daemon) isolation() func(*tool.Descriptor) []call.Fact {
	plain := factList(d.runner.Facts())
	return func(t *tool.Descriptor) []call.Fact {
		switch {
		case ofShell(t):
			return d.proof.Load().wait().list
		case ofManifest(t):
			if p := d.manifestProof(t); p != nil {
				return p.wait().list
			}
			return plain
		case t.RequiredIsolation == tool.IsolationFull && strings.HasPrefix(t.Source, mcp.SourcePrefix):
			return d.mcpProof(t.Source).wait().list
		case mayStartProcesses(t):
			return plain
		default:
			return nil
		}
	}
}
