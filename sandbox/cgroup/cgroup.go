// Package cgroup creates control groups on machines where this is possible. A control group limits all processes of a run together. A run
// is one execution of a process with its descendants, as in package sandbox.
//
// A [Pool] finds a directory in which it may create groups. With cgroup version 2 this is the parent of this process's group, if the parent
// was delegated. With version 1 it is this process's group of each controller. The Pool reuses groups, because creating one takes longer
// than using one; Close removes them. The Pool may enable controllers in the parent. It changes no other group of another program and never
// moves this process.
package cgroup

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Names of the controllers in use.
const (
	Memory = "memory"
	CPU    = "cpu"
	PIDs   = "pids"
	usage  = "cpuacct" // counts processor time; only version 1 has it as a separate controller
)

const (
	mostFree = 32 // maximum number of free groups, because each keeps some files open
	// mostKept is the maximum memory in bytes that a group may hold and still be reused. This memory is the page cache of files that its
	// last run read. A group that holds more is removed; its pages stay in the kernel's cache.
	mostKept = 8 << 20
	// removeBound is the maximum time to wait for the last processes of a group.
	removeBound = time.Second
)

// Limits bound the processes of a group together. A zero field means no limit.
type Limits struct {
	Memory    int64         // bytes, including swap
	CPUs      float64       // number of processors that the processes may keep busy together; 1.5 means 1.5 s of processor time in each second
	Period    time.Duration // period in which the limit CPUs is enforced; 0 means 100 ms
	Processes int           // number of processes and threads
}

// Usage counts what the processes of a group used since [Pool.Get].
type Usage struct {
	OOMKills  int64         // processes that the kernel killed for lack of memory
	Throttled int64         // number of periods in which the limit CPUs stopped the processes
	Refused   int64         // number of forks that the limit Processes refused
	CPU       time.Duration // processor time of all processes; 0 when no controller counts it
}

func (u Usage) minus(o Usage) Usage {
	return Usage{u.OOMKills - o.OOMKills, u.Throttled - o.Throttled, u.Refused - o.Refused, u.CPU - o.CPU}
}

// Config identifies the process that owns a Pool's groups.
type Config struct {
	Owner string // name that successive processes (daemons) share; part of the groups' names
	PID   int    // PID of this process; PID and Start together identify it
	Start uint64
	// Parent is a version 2 directory for the groups. Empty means that the Pool looks for one.
	Parent string
}

// A Pool creates and reuses groups. Its methods may be called concurrently.
type Pool struct {
	prefix   string // name prefix of all groups of the owner
	mine     string // name prefix of the groups of this process
	id       string // identifies this Pool, because a process may have several
	location location

	mu     sync.Mutex
	closed bool
	made   int
	free   []*Group
	stray  []*Group // groups that could not be removed yet
}

// A Group is a control group. At most one run uses it at a time.
type Group struct {
	name     string
	location *location
	limits   Limits
	files    map[string]*os.File // kept open, because opening a file takes seven times as long as reading it
	before   Usage               // usage of earlier runs
}

// Open finds out which groups this process can create. It never fails: when no directory is usable, the Pool has no controllers, and Has
// returns the reason.
func Open(cfg Config) *Pool {
	p := &Pool{prefix: "toold-" + cfg.Owner + "-", id: rand.Text()[:10]}
	p.mine = fmt.Sprintf("%s%d.%d-", p.prefix, cfg.PID, cfg.Start)
	if len(p.mine) > 200 || strings.ContainsAny(p.mine, "/\n\x00") {
		p.location.why = "the owner's name is not valid for a control group"
		return p
	}
	p.location = find(cfg.Parent, p.mine+p.id+".0")
	return p
}

// Mechanism names the mechanism that enforces limits, such as "cgroup v1". It is empty when there is none.
func (p *Pool) Mechanism() string {
	if len(p.location.dirs) == 0 {
		return ""
	}
	return fmt.Sprintf("cgroup v%d", p.location.version)
}

// Has reports whether a controller is available. If it is not, why contains the reason.
func (p *Pool) Has(controller string) (have bool, why string) {
	if _, ok := p.location.dirs[controller]; ok {
		return true, ""
	}
	return false, cmp.Or(p.location.missing[controller], p.location.why)
}

// Get returns a group with limits. It ignores limits for which there is no controller. Without any controller it returns nil and no error.
func (p *Pool) Get(l Limits) (*Group, error) {
	if len(p.location.dirs) == 0 {
		return nil, nil //nolint:nilnil // there is no group, as Has says
	}
	for {
		g, used, err := p.take(l)
		if err != nil {
			return nil, err
		}
		if err = g.apply(l); err == nil {
			g.before, err = g.read() // This also checks that the group still exists with all its controllers.
		}
		if err == nil {
			return g, nil
		}
		p.discard(g)
		if !used { // For a used group the error is expected: another program removed the group, or it holds more memory than the new limit. Then Get tries another group.
			return nil, err
		}
	}
}

// take returns a free group, preferably one that already has these limits, and used is true. Without a free group it creates one, and used
// is false.
func (p *Pool) take(l Limits) (g *Group, used bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		at := n - 1
		for i, g := range p.free {
			if g.limits == l {
				at = i
			}
		}
		g = p.free[at]
		p.free = append(p.free[:at], p.free[at+1:]...)
		return g, true, nil
	}
	p.made++
	g = &Group{name: p.mine + p.id + "." + strconv.Itoa(p.made), location: &p.location, files: map[string]*os.File{}}
	for _, dir := range p.location.parents {
		if err := os.Mkdir(filepath.Join(dir, g.name), 0o755); err != nil {
			p.discardLocked(g)
			return nil, false, err
		}
	}
	return g, false, nil
}

// Put returns a group to the pool after its run has ended. It ignores nil.
func (p *Pool) Put(g *Group) {
	if g == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tidyLocked()
	if !p.closed && len(p.free) < mostFree && g.clean() {
		p.free = append(p.free, g)
		return
	}
	p.discardLocked(g)
}

func (p *Pool) discard(g *Group) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.discardLocked(g)
}

// discardLocked removes a group. When that fails, for example because a process still runs, tidyLocked tries again later.
func (p *Pool) discardLocked(g *Group) {
	if !g.remove() {
		p.stray = append(p.stray, g)
	}
}

// tidyLocked retries the removal of groups that could not be removed.
func (p *Pool) tidyLocked() {
	stray := p.stray
	p.stray = nil
	for _, g := range stray {
		p.discardLocked(g)
	}
}

// Close removes all groups that were put back. A group that still contains a process after a second is not removed; the error names one
// such group. A later process of the owner removes this group with Sweep.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.stray = append(p.stray, p.free...)
	p.free = nil
	for deadline := time.Now().Add(removeBound); ; time.Sleep(5 * time.Millisecond) {
		p.tidyLocked()
		if len(p.stray) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("control group %s still has processes", p.stray[0].name)
		}
	}
}

// Sweep removes the groups of earlier processes of the owner and returns their number. alive reports whether the process with a PID and
// start time still runs. Sweep does not remove a group that contains processes.
func (p *Pool) Sweep(alive func(pid int, start uint64) bool) (removed int) {
	names := p.left(alive)
	for deadline := time.Now().Add(removeBound); len(names) > 0; time.Sleep(5 * time.Millisecond) {
		for name := range names {
			if (&Group{name: name, location: &p.location}).remove() {
				delete(names, name)
				removed++
			}
		}
		if time.Now().After(deadline) {
			break
		}
	}
	return removed
}

// Left returns the PIDs of the processes in groups that earlier processes of the owner made. alive is the same function as for
// [Pool.Sweep].
func (p *Pool) Left(alive func(pid int, start uint64) bool) (pids []int) {
	for name := range p.left(alive) {
		pids = append(pids, (&Group{name: name, location: &p.location}).Members()...)
	}
	return pids
}

func (p *Pool) left(alive func(pid int, start uint64) bool) map[string]bool {
	names := map[string]bool{}
	for _, dir := range p.location.parents {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // In an unreadable directory no group can be found.
		}
		for _, e := range entries {
			if pid, start, ok := p.ofOwner(e.Name()); ok && !strings.HasPrefix(e.Name(), p.mine) && !alive(pid, start) {
				names[e.Name()] = true
			}
		}
	}
	return names
}

// ofOwner parses the name of a group: prefix, PID, start time, pool, number. It returns false for a group of another owner, even when that
// owner's name begins with this owner's name.
func (p *Pool) ofOwner(name string) (pid int, start uint64, ok bool) {
	rest, ok := strings.CutPrefix(name, p.prefix)
	if !ok {
		return 0, 0, false
	}
	process, number, _ := strings.Cut(rest, "-")
	if pool, n, _ := strings.Cut(number, "."); pool == "" || strings.Contains(pool, "-") || strings.Trim(n, "0123456789") != "" || n == "" {
		return 0, 0, false
	}
	first, second, _ := strings.Cut(process, ".")
	id, err := strconv.ParseUint(first, 10, 31)
	if err != nil {
		return 0, 0, false
	}
	start, err = strconv.ParseUint(second, 10, 64)
	return int(id), start, err == nil
}

// Add moves a process into the group. Processes that it starts afterwards are in the group too.
func (g *Group) Add(pid int) error {
	if g == nil {
		return nil
	}
	for _, dir := range g.location.parents {
		file, err := g.open(filepath.Join(dir, g.name, "cgroup.procs"), os.O_WRONLY)
		if err == nil {
			_, err = file.WriteString(strconv.Itoa(pid))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Members returns the processes in the group, or none for a nil Group. A process cannot leave the group by itself.
func (g *Group) Members() (pids []int) {
	if g == nil {
		return nil
	}
	for _, dir := range g.location.parents[:1] {
		text, _ := os.ReadFile(filepath.Join(dir, g.name, "cgroup.procs")) // an unreadable file counts as empty
		for field := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// Usage returns the usage since Get. It is zero for a nil Group.
func (g *Group) Usage() Usage {
	if g == nil {
		return Usage{}
	}
	now, err := g.read()
	if err != nil {
		return Usage{} // Another program has removed the group.
	}
	return now.minus(g.before)
}

// clean reports whether the group can be used again: it contains no process and holds little memory. clean looks for processes only in the
// first hierarchy, because Add puts a process there first.
func (g *Group) clean() bool {
	// The file must be opened again: with version 1, a file that is kept open returns its old list.
	procs, err := os.ReadFile(filepath.Join(g.location.parents[0], g.name, "cgroup.procs"))
	if err != nil || len(procs) > 0 {
		return false
	}
	if _, ok := g.location.dirs[Memory]; !ok {
		return true
	}
	held, err := g.number(Memory, g.location.files().held)
	return err == nil && held <= mostKept
}

// remove removes the group's directories and reports whether none is left.
func (g *Group) remove() bool {
	for _, file := range g.files {
		file.Close()
	}
	clear(g.files)
	all := true
	for _, dir := range g.location.parents {
		if err := os.Remove(filepath.Join(dir, g.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = false
		}
	}
	return all
}

// open returns a file of the group. The file stays open until the group is removed.
func (g *Group) open(path string, flag int) (*os.File, error) {
	if file := g.files[path]; file != nil {
		return file, nil
	}
	file, err := os.OpenFile(path, flag, 0)
	if err == nil {
		g.files[path] = file
	}
	return file, err
}

// write writes a kernel file and never creates one.
func write(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}
