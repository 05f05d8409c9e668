package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/sandbox/address"
	"github.com/toold-dev/toold/secret"
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
	ProfileNone     = "none"
)

func ownProfiles() []Profile {
	return []Profile{
		{Name: profileDefault}, {Name: profileReadOnly, ReadOnly: true}, {Name: profileNetwork, Network: string(sandbox.NetworkProxy)},
		{Name: profileLandlock, Landlock: true},
	}
}

// Policy returns the policy of a profile; nil for "none".
func (c *Config) Policy(name, workspace string) (*sandbox.Policy, error) {
	if name == ProfileNone {
		return nil, nil //nolint:nilnil // no isolation is what was asked for
	}
	all := slices.Concat(ownProfiles(), c.Sandbox.Profiles)
	i := slices.IndexFunc(all, func(p Profile) bool { return p.Name == name })
	if i < 0 {
		names := []string{ProfileNone}
		for _, p := range all {
			names = append(names, p.Name)
		}
		return nil, Errorf("profile %q is not one of %s", name, strings.Join(names, ", "))
	}
	p := all[i]
	policy := &sandbox.Policy{
		Workspace: workspace, ReadOnly: p.ReadOnly, NoUnixSockets: p.NoSockets, Unsupervised: p.Landlock,
		Read: p.Read, Hide: slices.Clone(p.Hide),
		Limits: sandbox.Limits{Tmp: p.Tmp, Processes: p.Procs, Memory: p.Memory, FileSize: p.FileSize, OpenFiles: p.Files, CPU: p.CPU, MemoryTotal: p.Total, CPUs: p.CPUs},
	}
	if err := p.network(policy); err != nil {
		return nil, Errorf("profile %q: %w", name, err)
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

// Asked lists what file tools may not change unasked: the own list of the profile of bash, or the usual one.
func (c *Config) Asked(workspace string) []string {
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
	names := map[string]bool{ProfileNone: true}
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
		policy, err := c.Policy(p.Name, "/workspace")
		if err == nil && policy != nil {
			err = policy.Check()
		}
		if err != nil {
			wrong("sandbox.profiles", "%q: %v", p.Name, err)
		}
	}
	if !names[c.Bash.Profile] {
		_, err := c.Policy(c.Bash.Profile, "/workspace")
		wrong("bash.profile", "%v", err)
	}
}

// Homes is the directory of the home directories of processes.
func (c *Config) Homes() string { return cmp.Or(c.Sandbox.Homes, filepath.Join(c.Data, "homes")) }

// A ProxyHeader is added to plain requests of a profile's processes, which do not have its value.
type ProxyHeader struct {
	Host  string `koanf:"host"`  // exactly; required
	Name  string `koanf:"name"`  // of the header; required
	Value string `koanf:"value"` // with references to secrets, which proxy:<profile> must be entitled to; required
}

// Check says what is wrong with a header. The host has its one form after that.
func (h *ProxyHeader) Check() error {
	host, _, err := address.Host(h.Host)
	if err != nil {
		return fmt.Errorf("headers: %q: %w", h.Host, err)
	}
	h.Host = host
	if !plainToken(h.Name) || slices.Contains([]string{"host", "connection", "content-length", "transfer-encoding", "expect"}, strings.ToLower(h.Name)) {
		return fmt.Errorf("headers: %q cannot be added to a request", h.Name)
	}
	if h.Value == "" || strings.ContainsAny(h.Value, "\r\n\x00") {
		return fmt.Errorf("headers: %s has no value of one line", h.Name)
	}
	_, err = secret.References(h.Value)
	return err
}

func plainToken(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

// network puts what a profile says of the network into its policy.
func (p *Profile) network(policy *sandbox.Policy) error {
	policy.Name, policy.Network, policy.Hosts = p.Name, sandbox.Network(p.Network), p.Hosts
	for _, n := range p.Ports {
		if n < 1 || n > 65535 {
			return fmt.Errorf("ports: %d is not between 1 and 65535", n)
		}
		policy.Ports = append(policy.Ports, uint16(n))
	}
	var err error
	if policy.Addresses, err = address.ParsePrefixes(p.Addresses); err != nil {
		return fmt.Errorf("addresses: %w", err)
	}
	if len(p.Headers) > 0 && policy.Network != sandbox.NetworkProxy {
		return fmt.Errorf("headers are of the network %s", sandbox.NetworkProxy)
	}
	for _, h := range p.Headers {
		if err := h.Check(); err != nil {
			return err
		}
	}
	return nil
}
