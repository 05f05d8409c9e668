// Package cgroup makes control groups, which bound all processes of a run together, where the machine lets it.
//
// A [Pool] finds a place for groups: with version 2 the parent of this process's own group, when that was delegated; with
// version 1 this process's own groups of the controllers. It makes groups below that place, hands them out and takes them
// back, because to make one costs more than to use one, and removes them at its end. It touches no group that bears another
// name than its own, and never moves this process.
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

// The controllers that are used.
const (
	Memory = "memory"
	CPU    = "cpu"
	PIDs   = "pids"
	usage  = "cpuacct" // counts processor time; version 1 alone has it apart
)

const (
	mostFree = 32 // each has some files open
	// mostKept is what a group may hold when it is used again: pages of files that its last run read. What holds more is
	// removed; the pages stay for the next reader.
	mostKept = 8 << 20
	// removeBound is for the last processes of a group to be gone.
	removeBound = time.Second
)

// Limits bound the processes of a group together. The zero value of each is no limit.
type Limits struct {
	Memory    int64         // bytes, swap included
	CPUs      float64       // processors' worth of time
	Period    time.Duration // in which they get that; 0: 100 ms
	Processes int           // and threads
}

// Usage is what the processes of a group did since [Pool.Get].
type Usage struct {
	OOMKills  int64         // processes that the kernel killed for memory
	Throttled int64         // periods in which they were held back for CPUs
	Refused   int64         // processes that were not made for Processes
	CPU       time.Duration // all of theirs; 0 when nothing counts it
}

func (u Usage) minus(o Usage) Usage {
	return Usage{u.OOMKills - o.OOMKills, u.Throttled - o.Throttled, u.Refused - o.Refused, u.CPU - o.CPU}
}

// Config says whose groups a Pool makes.
type Config struct {
	Owner string // of more than one process in turn; part of the groups' names
	PID   int    // of this process, with its start time
	Start uint64
	// Parent is a directory of version 2 to make groups in; empty: it is looked for.
	Parent string
}

// A Pool makes and keeps groups. Its methods may be called concurrently.
type Pool struct {
	prefix string // of all of the owner's
	mine   string // of those of this process
	id     string // of this Pool: a process may have more than one
	place  place

	mu     sync.Mutex
	closed bool
	made   int
	free   []*Group
	stray  []*Group // could not be removed yet
}

// A Group is a control group for one run at a time.
type Group struct {
	name   string
	place  *place
	limits Limits
	files  map[string]*os.File // to open one takes seven times as long as to read it
	before Usage               // of earlier runs
}

// Open finds out what groups can be had. It never fails: a Pool without a place has no controllers, and says why.
func Open(cfg Config) *Pool {
	p := &Pool{prefix: "toold-" + cfg.Owner + "-", id: rand.Text()[:10]}
	p.mine = fmt.Sprintf("%s%d.%d-", p.prefix, cfg.PID, cfg.Start)
	if len(p.mine) > 200 || strings.ContainsAny(p.mine, "/\n\x00") {
		p.place.why = "the owner's name is none for a control group"
		return p
	}
	p.place = find(cfg.Parent, p.mine+p.id+".0")
	return p
}

// Mechanism names what bounds, such as "cgroup v1"; empty when nothing does.
func (p *Pool) Mechanism() string {
	if len(p.place.dirs) == 0 {
		return ""
	}
	return fmt.Sprintf("cgroup v%d", p.place.version)
}

// Has reports whether a controller can be had, and else why not.
func (p *Pool) Has(controller string) (have bool, why string) {
	if _, ok := p.place.dirs[controller]; ok {
		return true, ""
	}
	return false, cmp.Or(p.place.missing[controller], p.place.why)
}

// Get returns a group with limits, nil without error when there are no controllers. Limits that no controller holds are
// passed over.
func (p *Pool) Get(l Limits) (*Group, error) {
	if len(p.place.dirs) == 0 {
		return nil, nil //nolint:nilnil // there is no group, as Has says
	}
	for {
		g, used, err := p.take(l)
		if err != nil {
			return nil, err
		}
		if err = g.apply(l); err == nil {
			g.before, err = g.read() // and so it is still there, with all its controllers
		}
		if err == nil {
			return g, nil
		}
		p.discard(g)
		if !used { // else somebody may have removed it, or it holds more than the new limit
			return nil, err
		}
	}
}

// take returns a free group that was used before, one with these limits if there is one, or a new one.
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
	g = &Group{name: p.mine + p.id + "." + strconv.Itoa(p.made), place: &p.place, files: map[string]*os.File{}}
	for _, dir := range p.place.parents {
		if err := os.Mkdir(filepath.Join(dir, g.name), 0o755); err != nil {
			p.discardLocked(g)
			return nil, false, err
		}
	}
	return g, false, nil
}

// Put takes a group back whose run is over. A nil Group is none.
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

// discardLocked removes a group, now or when its last process has ended.
func (p *Pool) discardLocked(g *Group) {
	if !g.remove() {
		p.stray = append(p.stray, g)
	}
}

// tidyLocked tries again to remove what could not be.
func (p *Pool) tidyLocked() {
	stray := p.stray
	p.stray = nil
	for _, g := range stray {
		p.discardLocked(g)
	}
}

// Close removes all groups that were put back. Those that still have a process after a second are left, for the Sweep of a
// later process of the owner, and named in the error.
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

// Sweep removes the groups of earlier processes of the owner, and returns how many there were. lives says which of them
// still run. A group that has processes stays.
func (p *Pool) Sweep(lives func(pid int, start uint64) bool) (removed int) {
	names := p.left(lives)
	for deadline := time.Now().Add(removeBound); len(names) > 0; time.Sleep(5 * time.Millisecond) {
		for name := range names {
			if (&Group{name: name, place: &p.place}).remove() {
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

// Left returns the processes in groups of earlier processes of the owner, as [Pool.Sweep] means them.
func (p *Pool) Left(lives func(pid int, start uint64) bool) (pids []int) {
	for name := range p.left(lives) {
		pids = append(pids, (&Group{name: name, place: &p.place}).Members()...)
	}
	return pids
}

func (p *Pool) left(lives func(pid int, start uint64) bool) map[string]bool {
	names := map[string]bool{}
	for _, dir := range p.place.parents {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // nothing can be removed there
		}
		for _, e := range entries {
			if pid, start, ok := p.ofOwner(e.Name()); ok && !strings.HasPrefix(e.Name(), p.mine) && !lives(pid, start) {
				names[e.Name()] = true
			}
		}
	}
	return names
}

// ofOwner reads the name of a group: prefix, pid, start, number. Those of an owner with a longer name are not
// meant.
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

// Add moves a process into the group. What it starts from then on is in it too.
func (g *Group) Add(pid int) error {
	if g == nil {
		return nil
	}
	for _, dir := range g.place.parents {
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

// Members returns the processes in the group; none for a nil Group. None of them can leave it by itself.
func (g *Group) Members() (pids []int) {
	if g == nil {
		return nil
	}
	for _, dir := range g.place.parents[:1] {
		text, _ := os.ReadFile(filepath.Join(dir, g.name, "cgroup.procs")) // without it there are none
		for field := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// Usage returns what the group's processes did since the group was taken; nothing for a nil Group.
func (g *Group) Usage() Usage {
	if g == nil {
		return Usage{}
	}
	now, err := g.read()
	if err != nil {
		return Usage{} // somebody removed it
	}
	return now.minus(g.before)
}

// clean reports whether nothing is in the group: whatever is in another hierarchy is in the first, which Add begins with.
func (g *Group) clean() bool {
	// Not by a file that is kept open: version 1 continues with the list that it made before.
	procs, err := os.ReadFile(filepath.Join(g.place.parents[0], g.name, "cgroup.procs"))
	if err != nil || len(procs) > 0 {
		return false
	}
	if _, ok := g.place.dirs[Memory]; !ok {
		return true
	}
	held, err := g.number(Memory, g.place.files().held)
	return err == nil && held <= mostKept
}

// remove reports whether nothing is left of the group.
func (g *Group) remove() bool {
	for _, file := range g.files {
		file.Close()
	}
	clear(g.files)
	all := true
	for _, dir := range g.place.parents {
		if err := os.Remove(filepath.Join(dir, g.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = false
		}
	}
	return all
}

// open returns a file of the group, which stays open until the group is removed.
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

// write writes a file of the kernel's, which is never made.
func write(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}
