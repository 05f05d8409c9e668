package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// tagOfRun is the value of TagVariable: owner/daemon/run/tag, the daemon by pid and start time. None but the last holds
// a slash.
func tagOfRun(owner string, daemon identity, id, tag string) string {
	return fmt.Sprintf("%s/%d.%d/%s/%s", owner, daemon.PID, daemon.Start, id, tag)
}

// splitTag takes foreign text. What it cannot read has no owner.
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

// origin identifies this process as the one that starts runs: for one owner, since one boot of the machine.
type origin struct {
	owner  string
	bootID string
	self   process
}

// tag returns the value of TagVariable for a run of this process.
func (o *origin) tag(id, tag string) string { return tagOfRun(o.owner, o.self.identity(), id, tag) }

// foreign reports whether daemon is another process than this one, and alive: two daemons can have one owner when a
// store was copied.
func (o *origin) foreign(daemon identity) bool {
	p, err := readProcess(daemon.PID)
	return err == nil && daemon != o.self.identity() && p.start == daemon.Start && !p.dead()
}

// tagOf returns the value of TagVariable in the environment that p was started with, and false when there is no such
// process any more. The value is empty for a process of another user, one without memory of its own (of the kernel, or
// ending, or without its first thread), and one that overwrote or cleared its environment.
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
