package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// tagOfRun returns the value of TagVariable: owner/daemon/run/tag. The part daemon contains the PID and the start time. Only the last part
// may contain a slash.
func tagOfRun(owner string, daemon identity, id, tag string) string {
	return fmt.Sprintf("%s/%d.%d/%s/%s", owner, daemon.PID, daemon.Start, id, tag)
}

// splitTag parses an untrusted value of TagVariable. A value that it cannot parse has an empty owner.
func splitTag(value string) (owner string, daemon identity, tag string) {
	parts := strings.SplitN(value, "/", 4)
	if len(parts) < 4 {
		return "", identity{}, ""
	}
	pid, start, _ := strings.Cut(parts[1], ".")
	var err error
	if daemon.PID, err = strconv.Atoi(pid); err != nil {
		return "", identity{}, ""
	}
	if daemon.Start, err = strconv.ParseUint(start, 10, 64); err != nil {
		return "", identity{}, ""
	}
	return parts[0], daemon, parts[3]
}

// origin identifies this process in tags and records: its owner, its PID and start time, and the boot of the machine.
type origin struct {
	owner  string
	bootID string
	self   process
}

// tag returns the value of TagVariable for a run of this process.
func (o *origin) tag(id, tag string) string { return tagOfRun(o.owner, o.self.identity(), id, tag) }

// foreign reports whether daemon is another living process. Two daemons can have the same owner when a store was copied.
func (o *origin) foreign(daemon identity) bool {
	p, err := readProcess(daemon.PID)
	return err == nil && daemon != o.self.identity() && p.start == daemon.Start && !p.dead()
}

// tagOf returns the value of TagVariable in p's initial environment. there is false when p no longer exists. The value is empty when the
// environment cannot be read or does not contain the variable. Examples are a process of another user, a kernel thread, an ending process,
// one whose first thread has ended, and one that overwrote its environment.
func tagOf(p process) (tag string, there bool) {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/environ")
	if err != nil {
		now, err := readProcess(p.pid)
		return "", err == nil && now.start == p.start
	}
	for pair := range bytes.SplitSeq(env, []byte{0}) {
		if value, ok := bytes.CutPrefix(pair, []byte(TagVariable+"=")); ok {
			return string(value), true
		}
	}
	return "", true
}
