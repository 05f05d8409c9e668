package sandbox

import (
	"cmp"
	"fmt"
	"time"

	"github.com/toold-dev/toold/sandbox/cgroup"
	"github.com/toold-dev/toold/sandbox/isolation"
)

const (
	defaultMemoryTotal = 8 << 30
	leastMemoryTotal   = 16 << 20 // Process 1 needs this memory before it starts the command.
	leastCPUs          = 0.01
	mostCPUs           = 10_000

	// CPU limit of a canary in a control group, instead of the policy's limit. It is small, so that the canary exceeds it quickly.
	canaryCPUs      = 0.2
	canaryPeriod    = 10 * time.Millisecond
	canaryProcesses = 20
	hungryMemory    = 24 << 20
)

// ceiling returns the limits for all processes of a policy together.
func (l *Limits) ceiling() cgroup.Limits {
	return cgroup.Limits{
		Memory: cmp.Or(l.MemoryTotal, defaultMemoryTotal), CPUs: l.CPUs,
		Processes: cmp.Or(l.Processes, defaultProcesses) + 1, // one more for process 1
	}
}

// group gets a control group for a run. It does nothing where the machine offers none.
func (r *Runner) group(run *run) error {
	limits := run.spec.Policy.Limits.ceiling()
	if run.ceiling != nil {
		limits = *run.ceiling
	}
	g, err := r.groups.Get(limits)
	if err != nil {
		return ungrouped(err)
	}
	run.group = g
	return nil
}

func ungrouped(err error) error {
	return &RefusedError{Fact: "mem_limit", Step: "control group", Err: err}
}

// accountGroup records the resource usage of all processes of a run. The main process must have been reaped.
func (run *run) accountGroup(exit *Exit) {
	run.spent = run.group.Usage()
	exit.OOMKills = int(run.spent.OOMKills)
	exit.CPU = max(exit.CPU, run.spent.CPU)
}

// ReasonOOM is the reason of a result when the kernel killed a process of the run for lack of memory.
const ReasonOOM = "OOM"

// OutOfMemory returns a sentence about the processes that the kernel killed for lack of memory. It is empty when there were none.
func (e *Exit) OutOfMemory() string {
	switch e.OOMKills {
	case 0:
		return ""
	case 1:
		return "The kernel killed one of its processes: together they exceeded the memory limit."
	}
	return fmt.Sprintf("The kernel killed %d of its processes: together they exceeded the memory limit.", e.OOMKills)
}

// shares decides which limits of control groups hold. hungry is the canary that tried to exceed its memory and CPU limits. It is nil when
// there are no control groups or when no group can have these limits.
func (r *Runner) shares(f *isolation.Facts, p *Policy, hungry *trial) {
	mechanism := r.groups.Mechanism()
	f.MemLimit = isolation.Fact{Mechanism: "data size of each process", Detail: "no limit for all of them together: "}
	switch have, why := r.groups.Has(cgroup.Memory); {
	case !have:
		f.MemLimit.Detail += why
	case hungry == nil || hungry.spent.OOMKills == 0:
		f.MemLimit.Detail += "a canary got more memory than its control group permits"
	default:
		f.MemLimit = isolation.Fact{Held: true, Mechanism: mechanism + ", data size of each process"}
	}
	f.CPULimit = isolation.Fact{Mechanism: "time of the call", Detail: "CPU time is not limited: "}
	switch have, why := r.groups.Has(cgroup.CPU); {
	case !have:
		f.CPULimit.Detail += why
	case hungry == nil || hungry.spent.Throttled == 0:
		f.CPULimit.Detail += "the control group of a canary did not limit its CPU use"
	case p.Limits.CPUs == 0:
		f.CPULimit.Detail += mechanism + " supports a limit, but the profile does not set cpus"
	default:
		f.CPULimit = isolation.Fact{Held: true, Mechanism: mechanism}
	}
}

// keepShort gives the control group of a canary tighter limits than its policy. So the control group stops the canary before another limit
// does.
func (r *Runner) keepShort(run *run, hungry bool) {
	switch {
	case hungry:
		run.canary.Forks, run.canary.Ask, run.canary.Fill = 0, "", 2*hungryMemory
		run.ceiling = &cgroup.Limits{Memory: hungryMemory, CPUs: canaryCPUs, Period: canaryPeriod}
		return
	case run.spec.Policy.Unsupervised:
		run.ceiling = &cgroup.Limits{Processes: canaryProcesses}
		if have, _ := r.groups.Has(cgroup.PIDs); have {
			run.canary.Forks = 2 * canaryProcesses
		}
	default:
		run.ceiling = &cgroup.Limits{Processes: run.spec.Policy.Limits.Processes - canaryProcesses}
	}
}

// otherDaemon reports whether a control group belongs to another daemon that still runs. pid and start identify the process that made the
// group.
func (r *Runner) otherDaemon(pid int, start uint64) bool {
	return r.origin.foreign(identity{PID: pid, Start: start})
}
