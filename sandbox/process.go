package sandbox

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// process is the content of /proc/<pid>/stat.
type process struct {
	pid, parent, group, session int
	state                       byte
	threads                     int
	start                       uint64
	tag                         string // the Tag of the run's Spec, where it is known; empty means that describe reads the tag from the environment
}

// identity identifies a process until the machine restarts.
type identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

func (p process) identity() identity { return identity{p.pid, p.start} }

// dead reports whether no thread of p runs. The state alone is not enough: when the first thread has ended, the process looks like a
// zombie, but its other threads may still run.
func (p process) dead() bool { return (p.state == 'Z' || p.state == 'X') && p.threads <= 1 }

// census is a list of the machine's processes. It contains every process that lives when the census ends. Each entry shows the state at
// some moment during the census.
type census struct {
	all      map[int]process
	children map[int][]int
	sessions map[int][]int
	listed   map[int]bool // already read, or ended before they could be read
	moving   bool         // a process that may belong to the run ended before it was identified, so its children may be missing
}

func takeCensus() (*census, error) {
	c := &census{all: map[int]process{}, children: map[int][]int{}, sessions: map[int][]int{}, listed: map[int]bool{}}
	// maximum number of times that the list is read again because it contains new processes
	const rounds = 50
	for range rounds {
		if fresh, err := c.extend(); err != nil || fresh == 0 {
			return c, err
		}
	}
	c.moving = true
	return c, nil
}

// extend adds the processes that are not listed yet and returns their number.
func (c *census) extend() (fresh int, err error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || c.listed[pid] {
			continue
		}
		fresh++
		c.listed[pid] = true
		p, err := readProcess(pid)
		if gone(err) {
			continue
		}
		if err != nil {
			return fresh, err
		}
		c.all[pid] = p
		c.children[p.parent] = append(c.children[p.parent], pid)
		c.sessions[p.session] = append(c.sessions[p.session], pid)
	}
	return fresh, nil
}

func readProcess(pid int) (process, error) {
	var buf [1024]byte // the line has at most 52 fields of 20 digits, mostly shorter
	line, err := readOnce("/proc/"+strconv.Itoa(pid)+"/stat", buf[:])
	if err != nil {
		return process{}, err
	}
	return parseStat(line)
}

// parseStat parses "pid (name) state parent group session …". The process chooses its name, which may contain blanks, parentheses and
// line ends. The fields after the name contain none of these.
func parseStat(line []byte) (process, error) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return process{}, fmt.Errorf("stat line %q has no name", line)
	}
	fields := bytes.Fields(line[end+1:])
	if len(fields) < 20 || len(fields[0]) != 1 {
		return process{}, fmt.Errorf("stat line %q is too short", line)
	}
	p := process{state: fields[0][0]}
	var errs [6]error
	p.pid, errs[0] = strconv.Atoi(string(bytes.TrimSpace(line[:open])))
	p.parent, errs[1] = strconv.Atoi(string(fields[1]))
	p.group, errs[2] = strconv.Atoi(string(fields[2]))
	p.session, errs[3] = strconv.Atoi(string(fields[3]))
	p.threads, errs[4] = strconv.Atoi(string(fields[17]))
	p.start, errs[5] = strconv.ParseUint(string(fields[19]), 10, 64)
	return p, errors.Join(errs[:]...)
}

// readOnce reads a small file of /proc. It avoids the fstat and the poller of os.ReadFile, because a census reads one file for each process
// of the machine.
func readOnce(path string, buf []byte) ([]byte, error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	n, err := syscall.Read(fd, buf)
	if err != nil {
		return nil, err
	}
	return buf[:n], nil
}

func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) || errors.Is(err, os.ErrProcessDone)
}

// describe returns p as it appears in a report.
func describe(p process) Process {
	const longest = 200
	d := Process{PID: p.pid, Start: p.start}
	base := "/proc/" + strconv.Itoa(p.pid)
	if line, err := os.ReadFile(base + "/cmdline"); err == nil && len(line) > 0 {
		d.Command = strings.TrimSpace(string(bytes.ReplaceAll(line[:min(len(line), longest)], []byte{0}, []byte{' '})))
	} else if name, err := os.ReadFile(base + "/comm"); err == nil {
		d.Command = "[" + strings.TrimSpace(string(name)) + "]"
	}
	d.Command = strings.ToValidUTF8(d.Command, "\uFFFD")
	if tag, _ := tagOf(p); tag != "" {
		_, _, d.Tag = splitTag(tag)
	}
	d.Tag = cmp.Or(p.tag, d.Tag)
	return d
}

// send signals p and no other process. It opens a file descriptor of the process (a pidfd) first and then compares the start time. So it
// detects when another process has the number now.
func send(p process, sig syscall.Signal) error {
	handle, err := os.FindProcess(p.pid)
	if err != nil {
		return err
	}
	defer handle.Release()
	now, err := readProcess(p.pid)
	if err != nil {
		return err
	}
	if now.start != p.start {
		return os.ErrProcessDone
	}
	return handle.Signal(sig)
}
