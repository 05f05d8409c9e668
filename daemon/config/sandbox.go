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

// Sandbox configures how the daemon may isolate the processes of tools.
type Sandbox struct {
	ControlGroup string    `yaml:"control_group" format:"absolute" help:"directory of a cgroup v2 without processes, in which the daemon creates the groups of commands; if empty, the group that is delegated to the daemon" see:"../explanation/isolation.md#control-groups"`
	Homes        string    `yaml:"homes" format:"absolute" help:"directory that contains the home directories of processes; if empty, homes in the data directory" see:"../explanation/isolation.md#home"`
	Profiles     []Profile `yaml:"profiles" reload:"always" help:"additional isolation profiles; a reload adds profiles, but a changed profile needs a restart" see:"../explanation/isolation.md#profiles"`
}

// Profile is an isolation profile. A field that is not set has the value of the profile default.
type Profile struct {
	Name      string        `yaml:"name" required:"true" unique:"true" help:"name of the profile"`
	Network   string        `yaml:"network" oneof:"none proxy open" help:"network that processes can reach; if empty, none"`
	Hosts     []string      `yaml:"hosts" help:"with proxy: hosts that commands may reach; a leading dot includes all names below; an empty list allows every name of the public network"`
	Ports     []int         `yaml:"ports" min:"1" max:"65535" help:"with proxy: ports that commands may reach; an empty list allows 80 and 443"`
	Addresses []string      `yaml:"addresses" help:"with proxy: private addresses to which names may resolve, in addition to public addresses"`
	Headers   []ProxyHeader `yaml:"headers" help:"with proxy: headers that the proxy adds to unencrypted requests"`
	ReadOnly  bool          `yaml:"read_only" help:"make the workspace read-only"`
	Read      []string      `yaml:"read" help:"additional visible paths, read-only"`
	Hide      []string      `yaml:"hide" help:"additional hidden paths; the data directory is always hidden"`
	Protect   []string      `yaml:"protect" help:"paths in the workspace that are read-only; an empty list means the default list: files from which programs run something"`
	NoSockets bool          `yaml:"no_unix_sockets" help:"refuse unix sockets, except connected pairs"`
	Landlock  bool          `yaml:"landlock" help:"isolate only files and network, with Landlock; for machines without user namespaces"`
	Tmp       int64         `yaml:"tmp" default:"0" min:"0" max:"1125899906842624" help:"size of /tmp in bytes; 0 means 512 MiB"`
	Procs     int           `yaml:"processes" default:"0" min:"0" max:"4194304" help:"largest number of processes and threads of one command, at least 310; 0 means 4096"`
	Memory    int64         `yaml:"memory" default:"0" min:"0" max:"1125899906842624" help:"largest data segment of each process, in bytes; 0 means 4 GiB"`
	Total     int64         `yaml:"memory_total" default:"0" min:"0" max:"1125899906842624" help:"memory in bytes of all processes of a command together, at least 16 MiB; needs control groups; 0 means 8 GiB"`
	CPUs      float64       `yaml:"cpus" default:"0" min:"0" max:"1024" help:"number of processors that all processes of a command may use together, such as 1.5; needs control groups; 0 means no limit"`
	FileSize  int64         `yaml:"file_size" default:"0" min:"0" max:"1125899906842624" help:"largest size in bytes of each file that a command writes; 0 means 4 GiB"`
	Files     int           `yaml:"files" default:"0" min:"0" max:"1048576" help:"largest number of open files of each process, at least 256; 0 means 4096"`
	CPU       time.Duration `yaml:"cpu" default:"0" min:"0" max:"365d" help:"largest processor time of each process; 0 means no limit except the time of the command"`
}

// The built-in profiles.
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

// Policy returns the policy of a profile, or nil for the profile "none".
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

// Asked returns the files that file tools change only after asking. It returns the list "protect" of the isolation profile of bash. If that
// list is empty, it returns the built-in list.
func (c *Config) Asked(workspace string) []string {
	var own []string
	for _, p := range c.Sandbox.Profiles {
		if p.Name == c.Bash.Profile {
			own = p.Protect
		}
	}
	return c.withOwnFiles(own, sandbox.DefaultAsked(), workspace)
}

// withOwnFiles returns own, the files that the operator configured, or usual if own is empty. It adds the files in the workspace that
// configure the daemon.
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
	own := append(ownProfiles(), Profile{Name: ProfileNone})
	among := func(list []Profile, name string) bool {
		return slices.ContainsFunc(list, func(p Profile) bool { return p.Name == name })
	}
	if h := c.Sandbox.Homes; h != "" && (filepath.Clean(h) != h || h == "/") {
		wrong("sandbox.homes", "%q must be a clean path and not the root", h)
	}
	for i, p := range c.Sandbox.Profiles {
		key := fmt.Sprintf("sandbox.profiles[%d]", i)
		if among(own, p.Name) {
			wrong(key+".name", "%q is a profile of the daemon", p.Name)
		}
		policy, err := c.Policy(p.Name, "/workspace")
		if err == nil && policy != nil {
			err = policy.Check()
		}
		if err != nil {
			wrong(key, "%v", err)
		}
	}
	if !among(slices.Concat(own, c.Sandbox.Profiles), c.Bash.Profile) {
		_, err := c.Policy(c.Bash.Profile, "/workspace")
		wrong("bash.profile", "%v", err)
	}
}

// Homes returns the directory that holds the home directories of processes.
func (c *Config) Homes() string { return cmp.Or(c.Sandbox.Homes, filepath.Join(c.Data, "homes")) }

// A ProxyHeader is a header that the proxy adds to plain HTTP requests of a profile's processes. The processes do not see its value.
type ProxyHeader struct {
	Host  string `yaml:"host" required:"true" help:"exact host name of the requests that get the header"`
	Name  string `yaml:"name" required:"true" help:"name of the header"`
	Value string `yaml:"value" required:"true" secret:"true" help:"value of the header; it may refer to secrets that allow proxy:<profile>"`
}

// Check validates the header and replaces the host by its normal form.
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
		return fmt.Errorf("headers: %s needs a value of one line", h.Name)
	}
	_, err = secret.References(h.Value)
	return err
}

func plainToken(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

// network copies the network settings of the profile into the policy.
func (p *Profile) network(policy *sandbox.Policy) error {
	policy.Name, policy.Network, policy.Hosts = p.Name, sandbox.Network(p.Network), p.Hosts
	for _, n := range p.Ports {
		policy.Ports = append(policy.Ports, uint16(n))
	}
	var err error
	if policy.Addresses, err = address.ParsePrefixes(p.Addresses); err != nil {
		return fmt.Errorf("addresses: %w", err)
	}
	if len(p.Headers) > 0 && policy.Network != sandbox.NetworkProxy {
		return fmt.Errorf("headers need the network %s", sandbox.NetworkProxy)
	}
	for _, h := range p.Headers {
		if err := h.Check(); err != nil {
			return err
		}
	}
	return nil
}
