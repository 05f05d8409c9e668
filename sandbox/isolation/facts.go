// Package isolation defines the types that describe how processes are isolated. It starts no process, so servers may import it too.
package isolation

import (
	"fmt"
	"strings"
)

// A Fact says whether one promise of isolation holds.
type Fact struct {
	Held      bool   `json:"held"`
	Mechanism string `json:"mechanism,omitempty"` // mechanism that enforces the promise, at least partly
	Detail    string `json:"detail,omitempty"`    // reason why the promise does not hold
}

// Facts are the isolation promises for processes on this machine. A promise that was not proven does not hold.
type Facts struct {
	FSRead          Fact `json:"fs_read"`
	FSWrite         Fact `json:"fs_write"`
	Net             Fact `json:"net"`
	IPC             Fact `json:"ipc"`
	ProcessesKilled Fact `json:"processes_killed"`
	MemLimit        Fact `json:"mem_limit"`
	PidsLimit       Fact `json:"pids_limit"`
	CPULimit        Fact `json:"cpu_limit"`
	DiskLimit       Fact `json:"disk_limit"`
	SeparateKernel  Fact `json:"separate_kernel"`
}

// A NamedFact is a Fact with its name.
type NamedFact struct {
	Name string
	Fact
}

// List returns the facts sorted by name.
func (f Facts) List() []NamedFact {
	return []NamedFact{
		{"cpu_limit", f.CPULimit}, {"disk_limit", f.DiskLimit}, {"fs_read", f.FSRead}, {"fs_write", f.FSWrite}, {"ipc", f.IPC},
		{"mem_limit", f.MemLimit}, {"net", f.Net}, {"pids_limit", f.PidsLimit}, {"processes_killed", f.ProcessesKilled}, {"separate_kernel", f.SeparateKernel},
	}
}

// String lists the facts as text for people.
func (f Facts) String() string {
	var b strings.Builder
	for _, n := range f.List() {
		mark := "no "
		if n.Held {
			mark = "yes"
		}
		fmt.Fprintf(&b, "%-17s %s  %s", n.Name, mark, n.Mechanism)
		if n.Detail != "" {
			if n.Mechanism != "" {
				b.WriteString("; ")
			}
			b.WriteString(n.Detail)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
