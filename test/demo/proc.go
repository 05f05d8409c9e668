package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A process is identified by its id and start time. A later process with the same id is therefore recognised as a different one.
type process struct {
	pid     int
	started string // field 22 of /proc/<pid>/stat
	session string
	name    string
}

// processAt looks up a process. A zombie counts as gone, because it no longer runs.
func processAt(pid int) (process, bool) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')') // Search for the last bracket, because the name of the process may contain any character.
	if err != nil || open < 0 || end < open {
		return process{}, false
	}
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return process{}, false
	}
	return process{pid: pid, started: fields[19], session: fields[3], name: string(stat[open+1 : end])}, true
}

func (p process) alive() bool {
	now, found := processAt(p.pid)
	return found && now.started == p.started
}

func (p process) String() string { return fmt.Sprintf("%d (%s)", p.pid, p.name) }

// processesIn finds every process that a command in this directory started. It compares the working directory, and the variables PWD and
// OLDPWD in the initial environment. It reads /proc and does not ask the daemon.
func processesIn(dir string) ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		cwd, _ := os.Readlink(filepath.Join("/proc", e.Name(), "cwd")) // The link is unreadable if the process has just ended.
		environ, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		was := slices.ContainsFunc(bytes.Split(environ, []byte{0}), func(v []byte) bool { return string(v) == "PWD="+dir || string(v) == "OLDPWD="+dir })
		if cwd != dir && !strings.HasPrefix(cwd, dir+"/") && !was {
			continue
		}
		if p, ok := processAt(pid); ok {
			found = append(found, p)
		}
	}
	return found, nil
}

// inside returns the process id within the kernel's PID namespace of an isolated command.
func (p process) inside() string {
	status, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), "status"))
	_, line, _ := strings.Cut(string(status), "NSpid:")
	line, _, _ = strings.Cut(line, "\n")
	return line[strings.LastIndexByte(line, '\t')+1:]
}

// named reads process ids from a file that a command wrote in its directory, one per line, and looks up the processes.
func named(file string) ([]process, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	all, err := processesIn(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	var found []process
	for word := range strings.FieldsSeq(string(text)) {
		i := slices.IndexFunc(all, func(p process) bool { return p.inside() == word })
		if i < 0 {
			return nil, fmt.Errorf("process %s of %s does not run", word, filepath.Base(file))
		}
		found = append(found, all[i])
	}
	return found, nil
}

func living(all []process) []process {
	return slices.DeleteFunc(slices.Clone(all), func(p process) bool { return !p.alive() })
}

// end kills a process and waits until it is gone.
func (p process) end(within time.Duration) error {
	if !p.alive() {
		return nil
	}
	if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill %v: %w", p, err)
	}
	return eventually(within, func() error {
		if p.alive() {
			return fmt.Errorf("%v does not end", p)
		}
		return nil
	})
}

// eventually repeats ask until it returns nil or the time is over. It returns the last error.
func eventually(within time.Duration, ask func() error) error {
	for deadline := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		err := ask()
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
