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
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/mcp"
)

// Sandbox is how processes of tools may be isolated.
type Sandbox struct {
	// ControlGroup is a directory of version 2 to make groups of commands in; "": where one was delegated.
	ControlGroup string `koanf:"control_group"`
	// Homes is the directory of the home directories of processes, absolute; "": homes in the data directory.
	Homes    string    `koanf:"homes"`
	Profiles []Profile `koanf:"profiles"` // beside the daemon's own; none: those alone
}

// Profile isolates processes. What it does not say is as in the profile default.
type Profile struct {
	Name    string   `koanf:"name"`    // required, once
	Network string   `koanf:"network"` // none, proxy, open; "": none
	Hosts   []string `koanf:"hosts"`   // of proxy: all that may be reached; a leading dot is all names below too; none: every name of the public network
	Ports   []int    `koanf:"ports"`   // of proxy; none: 80 and 443
	// Addresses are what names may lead to beside the public network, of proxy; none: that alone.
	Addresses []string      `koanf:"addresses"`
	Headers   []ProxyHeader `koanf:"headers"`         // of proxy: added to plain requests; none: nothing
	ReadOnly  bool          `koanf:"read_only"`       // the workspace; false: it may be written
	Read      []string      `koanf:"read"`            // more that is visible, read-only; none: programs and libraries of the system alone
	Hide      []string      `koanf:"hide"`            // what is not visible all the same; none: the data directory
	Protect   []string      `koanf:"protect"`         // in the workspace, read-only; none: what makes others run something later
	NoSockets bool          `koanf:"no_unix_sockets"` // but pairs; false: those that the machine binds in the workspace during a command are in reach
	Landlock  bool          `koanf:"landlock"`        // files and network alone are isolated, not processes, for places without namespaces
	Tmp       int64         `koanf:"tmp"`             // bytes of /tmp; 0: 512 MiB
	Procs     int           `koanf:"processes"`       // and threads, of one command; 0: 4096
	Memory    int64         `koanf:"memory"`          // bytes of data of each process; 0: 4 GiB
	// Total is bytes of all processes of a command together, CPUs their share of the processors; where there are control groups.
	Total    int64         `koanf:"memory_total"` // 0: 8 GiB
	CPUs     float64       `koanf:"cpus"`         // such as 1.5; 0: no limit
	FileSize int64         `koanf:"file_size"`    // bytes of each file that is written; 0: 4 GiB
	Files    int           `koanf:"files"`        // that each process has open; 0: 4096
	CPU      time.Duration `koanf:"cpu"`          // of each process; 0: as long as the command may run
}

// The profiles that are always there.
const (
	profileDefault  = "default"
	profileReadOnly = "readonly"
	profileNetwork  = "network"
	profileLandlock = "landlock"
	profileNone     = "none"
)

func ownProfiles() []Profile {
	return []Profile{
		{Name: profileDefault}, {Name: profileReadOnly, ReadOnly: true}, {Name: profileNetwork, Network: string(sandbox.NetworkProxy)},
		{Name: profileLandlock, Landlock: true},
	}
}

// policy returns the policy of a profile; nil for "none".
func (c *Config) policy(name, workspace string) (*sandbox.Policy, error) {
	if name == profileNone {
		return nil, nil //nolint:nilnil // no isolation is what was asked for
	}
	all := slices.Concat(ownProfiles(), c.Sandbox.Profiles)
	i := slices.IndexFunc(all, func(p Profile) bool { return p.Name == name })
	if i < 0 {
		names := []string{profileNone}
		for _, p := range all {
			names = append(names, p.Name)
		}
		return nil, usagef("profile %q is not one of %s", name, strings.Join(names, ", "))
	}
	p := all[i]
	policy := &sandbox.Policy{
		Workspace: workspace, ReadOnly: p.ReadOnly, NoUnixSockets: p.NoSockets, Unsupervised: p.Landlock,
		Read: p.Read, Hide: slices.Clone(p.Hide),
		Limits: sandbox.Limits{Tmp: p.Tmp, Processes: p.Procs, Memory: p.Memory, FileSize: p.FileSize, OpenFiles: p.Files, CPU: p.CPU, MemoryTotal: p.Total, CPUs: p.CPUs},
	}
	if err := p.network(policy); err != nil {
		return nil, usagef("profile %q: %w", name, err)
	}
	policy.Protect = c.withOwnFiles(p.Protect, sandbox.DefaultProtected(), workspace)
	data, err := filepath.Abs(c.Data)
	if err != nil {
		return nil, err
	}
	policy.Hide = append(policy.Hide, data)
	others, err := c.others(workspace)
	if err != nil {
		return nil, err
	}
	policy.Hide = append(policy.Hide, others...)
	if c.Sandbox.Homes != "" {
		policy.Hide = append(policy.Hide, c.Sandbox.Homes)
	}
	return policy, nil
}

// asked lists what file tools may not change unasked: the own list of the profile of bash, or the usual one.
func (c *Config) asked(workspace string) []string {
	var own []string
	for _, p := range c.Sandbox.Profiles {
		if p.Name == c.Bash.Profile {
			own = p.Protect
		}
	}
	return c.withOwnFiles(own, sandbox.DefaultAsked(), workspace)
}

// withOwnFiles returns an operator's list or the usual one, and the files of the workspace that configure the daemon.
func (c *Config) withOwnFiles(own, usual []string, workspace string) []string {
	list := slices.Clone(own)
	if len(list) == 0 {
		list = usual
	}
	for _, file := range []string{c.Rules, c.loaded.file} {
		if path, err := filepath.Abs(file); file != "" && err == nil {
			if inside, err := filepath.Rel(workspace, path); err == nil && filepath.IsLocal(inside) {
				list = append(list, inside)
			}
		}
	}
	return list
}

func (c *Config) validateProfiles(wrong complaint) {
	names := map[string]bool{profileNone: true}
	for _, p := range ownProfiles() {
		names[p.Name] = true
	}
	if g := c.Sandbox.ControlGroup; g != "" && !filepath.IsAbs(g) {
		wrong("sandbox.control_group", "%q is no absolute path", g)
	}
	if h := c.Sandbox.Homes; h != "" {
		if filepath.Clean(h) != h || !filepath.IsAbs(h) || h == "/" {
			wrong("sandbox.homes", "%q is no absolute path, or not a clean one", h)
		}
	}
	for i, p := range c.Sandbox.Profiles {
		switch {
		case p.Name == "":
			wrong("sandbox.profiles", "entry %d has no name", i+1)
		case names[p.Name]:
			wrong("sandbox.profiles", "%q is there already", p.Name)
		}
		names[p.Name] = true
		policy, err := c.policy(p.Name, "/workspace")
		if err == nil && policy != nil {
			err = policy.Check()
		}
		if err != nil {
			wrong("sandbox.profiles", "%q: %v", p.Name, err)
		}
	}
	if !names[c.Bash.Profile] {
		_, err := c.policy(c.Bash.Profile, "/workspace")
		wrong("bash.profile", "%v", err)
	}
}

// homes is the directory of the home directories of processes.
func (c *Config) homes() string { return cmp.Or(c.Sandbox.Homes, filepath.Join(c.Data, "homes")) }

// helperPath returns the small helper beside this program; empty when it is not there, and this program is it.
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

// A proof is what a canary has shown of the isolation of commands.
type proof struct {
	done  chan struct{}
	facts sandbox.Facts // read after done
	list  []call.Fact
}

func (p *proof) wait() *proof {
	<-p.done // a canary's run has a bound
	return p
}

// startProof begins to find out what isolation holds around commands. Only calls that need to know wait for it.
func (d *daemon) startProof(policy *sandbox.Policy) *proof {
	p := &proof{done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.facts = d.prove(policy)
		p.list = factList(p.facts)
	}()
	return p
}

func (d *daemon) prove(policy *sandbox.Policy) sandbox.Facts {
	if policy == nil {
		d.log.Warn("commands are not isolated: they have all rights of the daemon's user", zap.String("bash.profile", d.cfg.Bash.Profile))
		return d.runner.Facts()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	facts, err := d.runner.Prove(ctx, *policy)
	if errors.Is(err, sandbox.ErrClosed) {
		return facts // the daemon ends: nothing was found out
	}
	if err != nil {
		d.log.Error("it is not known what isolation holds; commands that need one will not run", zap.Error(err))
		return facts
	}
	for _, f := range facts.List() {
		if !f.Held && (f.Name == "fs_read" || f.Name == "fs_write" || f.Name == "net" && policy.Network != sandbox.NetworkOpen || f.Name == "processes_killed") {
			d.log.Warn("isolation is not held", zap.String("fact", f.Name), zap.String("detail", f.Detail))
		}
		if !f.Held && (f.Name == "mem_limit" && policy.Limits.MemoryTotal > 0 || f.Name == "cpu_limit" && policy.Limits.CPUs > 0) {
			d.log.Warn("a limit of the profile is not held", zap.String("fact", f.Name), zap.String("detail", f.Detail))
		}
	}
	return facts
}

func factList(f sandbox.Facts) []call.Fact {
	var facts []call.Fact
	for _, n := range f.List() {
		facts = append(facts, call.Fact{Name: n.Name, Held: n.Held})
	}
	slices.SortFunc(facts, func(a, b call.Fact) int { return cmp.Compare(a.Name, b.Name) })
	return facts
}

// ofShell reports whether a tool's commands have the profile of bash.
func ofShell(t *tool.Descriptor) bool {
	return t.Source == builtin && (t.ID == "bash" || t.ID == "bash_input")
}

// isolation returns the facts for the records of a tool's calls.
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
