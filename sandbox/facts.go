package sandbox

// A Fact is one promise of isolation.
type Fact struct {
	Held      bool   `json:"held"`
	Mechanism string `json:"mechanism,omitempty"` // what works towards it, held or not
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

// Facts returns what holds for every process of r. Killing is looked after, but only a pid namespace makes it certain,
// so it is not held.
func (r *Runner) Facts() Facts {
	mechanism := "session, parent links, environment tag"
	if adoptsOrphans() {
		mechanism += ", subreaper"
	}
	return Facts{ProcessesKilled: Fact{Mechanism: mechanism}}
}
