package sandbox

import (
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// terminate asks the run's session to end and waits until it has or Grace is over. What left the session gets no time:
// nobody waits for a daemon.
func (run *run) terminate() {
	grace := run.spec.Grace
	if grace == 0 {
		grace = defaultGrace
	}
	if grace < 0 {
		return
	}
	deadline := time.NewTimer(grace)
	defer deadline.Stop()
	if c, err := takeCensus(); err == nil {
		for pid, p := range run.inSession(c) {
			run.killed[pid] = true
			if p.group != run.main.pid {
				_ = send(p, syscall.SIGTERM) // a process that stays is killed later
			}
		}
	}
	if run.inner != nil {
		_ = run.inner.signal(false, syscall.SIGTERM)
	} else {
		syscall.Kill(-run.main.pid, syscall.SIGTERM)
	}
	select {
	case <-run.ended:
	case <-deadline.C:
		return
	}
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if c, err := takeCensus(); err != nil || len(run.inSession(c)) == 0 {
			return
		}
		select {
		case <-deadline.C:
			return
		case <-time.After(pause):
		}
	}
}

func (run *run) inSession(c *census) map[int]process {
	living := map[int]process{}
	for _, pid := range c.sessions[run.main.pid] {
		if p := c.all[pid]; !p.dead() {
			living[pid] = p
		}
	}
	return living
}

// end kills what find finds until a census shows nothing of it, and returns what is left after killBound and confirmBound. The pids that
// it signalled are added to killed. group is the process group of a main process that is not reaped yet, or 0.
//
// A new process is first stopped, and killed when a further census finds no newer one: a stopped process has no
// more children, and its links still show those that it has.
func (f *family) end(group int, killed map[int]bool, find finder) []process {
	const (
		freezes = 16                     // then it is killed as it comes
		settle  = 100 * time.Millisecond // for doubts to clear and for init to reap
	)
	deadline, struck := time.Now().Add(killBound), false
	stopped := map[int]bool{}
	var calm time.Time // since when nobody lives
	pause := time.Millisecond
	for round := 0; ; round++ {
		c, err := takeCensus()
		if err != nil {
			if group != 0 {
				syscall.Kill(-group, syscall.SIGKILL)
			}
			return []process{{pid: group}} // not verified
		}
		mine, doubtful := find(c)
		living, zombies := f.sort(mine, group)
		switch {
		case len(living) > 0 || c.moving:
			calm = time.Time{}
		case len(doubtful) == 0 && zombies == 0:
			return nil
		case calm.IsZero():
			calm = time.Now()
		}
		left := slices.AppendSeq(living, maps.Values(doubtful))
		if !calm.IsZero() && time.Since(calm) > settle {
			return left
		}
		if time.Now().After(deadline) {
			strike(living, group, killed) // there was time to stop them only; left stopped they would stay for ever
			if struck {
				if len(left) == 0 && c.moving {
					left = append(left, process{}) // processes still appear, but none could be caught
				}
				return left
			}
			struck, deadline = true, time.Now().Add(confirmBound)
			continue
		}
		if !struck && round < freezes && f.freeze(c, living, group, stopped, find) || c.moving && len(living) == 0 {
			continue
		}
		if strike(living, group, killed) {
			return left
		}
		time.Sleep(pause)
		pause = min(2*pause, 20*time.Millisecond)
	}
}

// sort parts the living from the dead, reaps the latter where they are ours to reap, and counts those that wait for
// another parent. The process main is left to its run.
func (f *family) sort(mine map[int]process, main int) (living []process, zombies int) {
	for pid, p := range mine {
		switch {
		case !p.dead():
			living = append(living, p)
		case pid == main:
		case p.parent != f.self.pid || !reap(pid):
			zombies++
		}
	}
	return living, zombies
}

// reap waits for a dead child that no run waits for.
func reap(pid int) bool {
	got, err := syscall.Wait4(pid, nil, syscall.WNOHANG|syscall.WALL, nil)
	return got == pid || errors.Is(err, syscall.ECHILD)
}

// freeze stops those that are not stopped yet, then those that were born meanwhile, and so on. It reports whether there
// were any. Looking at the newborn alone is what catches a chain of processes that each fork the next and end.
func (f *family) freeze(c *census, living []process, group int, stopped map[int]bool, find finder) bool {
	const chases = 100
	found := false
	for range chases {
		if !stop(living, group, stopped) {
			break
		}
		found = true
		if fresh, err := c.extend(); err != nil || fresh == 0 {
			break
		}
		mine, _ := find(c)
		living, _ = f.sort(mine, group)
	}
	return found
}

// stop stops those of living that are not in stopped and reports whether there were any.
func stop(living []process, group int, stopped map[int]bool) bool {
	fresh := false
	for _, p := range living {
		if stopped[p.pid] {
			continue
		}
		fresh, stopped[p.pid] = true, true
		if p.group != group {
			_ = send(p, syscall.SIGSTOP) // a process that cannot be stopped is killed anyway
		}
	}
	if fresh && group != 0 {
		syscall.Kill(-group, syscall.SIGSTOP)
	}
	return fresh
}

// strike kills and reports whether it may kill none of them.
func strike(living []process, group int, killed map[int]bool) (powerless bool) {
	if group != 0 {
		syscall.Kill(-group, syscall.SIGKILL)
	}
	refused := 0
	for _, p := range living {
		var err error
		if p.group != group || group == 0 {
			err = send(p, syscall.SIGKILL)
		}
		switch {
		case err == nil:
			killed[p.pid] = true
		case errors.Is(err, os.ErrPermission):
			refused++
		}
	}
	return refused > 0 && refused == len(living)
}

// noOrphans reports that no process lives that descends from a run but through a main process that still runs. It
// spares the end of an ordinary run the census, whose cost grows with the machine's processes. It is an answer only to
// a subreaper, whose children all orphans become; false otherwise.
func (f *family) noOrphans() bool {
	if !adoptsOrphans() {
		return false
	}
	for range 2 { // the kernel may skip a child in the list while another one ends
		children, err := f.adopted()
		if err != nil {
			return false
		}
		if len(children) == 0 {
			continue
		}
		all := f.active.others(nil)
		mains, unborn := map[int]bool{}, helpers(all)
		for _, o := range all {
			mains[o.main.pid] = true
		}
		for _, pid := range children {
			if mains[pid] {
				continue
			}
			if p, err := readProcess(pid); err == nil && p.session != f.self.session && !unborn[p.session] || err != nil && !gone(err) {
				return false
			}
		}
	}
	return true
}

// adopted returns the children of the first thread, which the kernel makes the parent of orphans as long as it lives; that
// of a Go program never ends. It may have forked some of them itself.
func (f *family) adopted() ([]int, error) {
	if f.children == nil {
		return nil, errors.ErrUnsupported // such as a kernel without CONFIG_PROC_CHILDREN
	}
	var buf [4096]byte
	n, err := f.children.ReadAt(buf[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	list := buf[:n]
	if n > len(buf)-16 { // the kernel gives whole numbers only, so there may be more
		return nil, errors.New("more children than fit")
	}
	var children []int
	for field := range strings.FieldsSeq(string(list)) {
		child, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		children = append(children, child)
	}
	return children, nil
}
