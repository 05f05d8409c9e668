package sandbox

// A Fact is one promise of isolation.
type Fact struct {
	Held      bool   `json:"held"`
	Mechanism string `json:"mechanism,omitempty"` // what works towards it, held or not
	Detail    string `json:"detail,omitempty"`    // why it is not held
}

// Facts says what a process started here is kept from. What is not proven on this machine is not held.
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

// List returns the facts in the order of their names.
func (f Facts) List() []NamedFact {
	return []NamedFact{
		{"cpu_limit", f.CPULimit}, {"disk_limit", f.DiskLimit}, {"fs_read", f.FSRead}, {"fs_write", f.FSWrite}, {"ipc", f.IPC},
		{"mem_limit", f.MemLimit}, {"net", f.Net}, {"pids_limit", f.PidsLimit}, {"processes_killed", f.ProcessesKilled}, {"separate_kernel", f.SeparateKernel},
	}
}

// Facts returns what holds for the processes of r that have no Policy. Killing is looked after, but only a namespace of
// processes makes it certain, so it is not held.
func (r *Runner) Facts() Facts {
	mechanism := "session, parent links, environment tag"
	if adoptsOrphans() {
		mechanism += ", subreaper"
	}
	return Facts{ProcessesKilled: Fact{Mechanism: mechanism}}
}
