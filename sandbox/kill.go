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

// terminate sends SIGTERM to the run's session and waits for the end of the session, for the time Grace at most. It does not wait for
// processes that have moved to another session.
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
				_ = send(p, syscall.SIGTERM) // An error is ignored, because a process that does not end is killed later.
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

// end kills the processes that find selects, until a census contains none. It returns the processes that are left after killBound and
// confirmBound. It adds the PIDs of the processes that it has signalled to killed. group is the process group of a main process that is not
// reaped yet, or 0.
//
// end first stops the processes. It kills them only when a census contains no new process. A stopped process cannot fork, and it still
// shows which processes are its children.
func (f *family) end(group int, killed map[int]bool, find finder) []process {
	const (
		freezes = 16                     // number of rounds after which processes are killed without being stopped first
		settle  = 100 * time.Millisecond // time after which it is clear whether doubtful processes belong to the run, and init has reaped dead ones
	)
	deadline, struck := time.Now().Add(killBound), false
	stopped := map[int]bool{}
	var calm time.Time // start of the time without living processes; zero while a process lives
	pause := time.Millisecond
	for round := 0; ; round++ {
		c, err := takeCensus()
		if err != nil {
			if group != 0 {
				syscall.Kill(-group, syscall.SIGKILL)
			}
			return []process{{pid: group}} // unverified, because no census is possible
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
			strike(living, group, killed) // Some of these processes may be stopped and not killed yet. They are killed now, so that they do not stay stopped.
			if struck {
				if len(left) == 0 && c.moving {
					left = append(left, process{}) // New processes still appear, but each census comes too late to identify one.
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

// sort returns the living processes. It reaps dead children of this process, and counts the dead processes that another parent must reap.
// It does not reap main, because the run does that.
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

// reap reaps a dead child that no run waits for.
func reap(pid int) bool {
	got, err := syscall.Wait4(pid, nil, syscall.WNOHANG|syscall.WALL, nil)
	return got == pid || errors.Is(err, syscall.ECHILD)
}

// freeze stops the running processes, then those that were born meanwhile, and so on. It reports whether there were any. It reads only the
// new processes in each round. So it is fast enough for a chain in which each process forks the next one and exits.
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

// stop stops the processes that are not in stopped yet and reports whether there were any.
func stop(living []process, group int, stopped map[int]bool) bool {
	fresh := false
	for _, p := range living {
		if stopped[p.pid] {
			continue
		}
		fresh, stopped[p.pid] = true, true
		if p.group != group {
			_ = send(p, syscall.SIGSTOP) // An error is ignored, because a process that cannot be stopped is still killed later.
		}
	}
	if fresh && group != 0 {
		syscall.Kill(-group, syscall.SIGSTOP)
	}
	return fresh
}

// strike kills the processes. powerless reports that this process has no permission to kill any of them.
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

// noOrphans reports whether every living descendant of a run still has a running main process above it. If so, no process of an ended run
// still lives. The caller then needs no census, whose cost grows with the number of processes on the machine. Without a subreaper, which
// adopts all orphans, the answer is not known, and noOrphans returns false.
func (f *family) noOrphans() bool {
	if !adoptsOrphans() {
		return false
	}
	for range 2 { // Two reads, because the kernel may omit a child while another one ends.
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

// adopted returns the children of the first thread. The kernel gives orphans to that thread as long as it lives, and in a Go program it
// never ends. The list may also contain children that the thread forked.
func (f *family) adopted() ([]int, error) {
	if f.children == nil {
		return nil, errors.ErrUnsupported // The kernel does not list children, for example because it was built without CONFIG_PROC_CHILDREN.
	}
	var buf [4096]byte
	n, err := f.children.ReadAt(buf[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	list := buf[:n]
	if n > len(buf)-16 { // The buffer is nearly full, so the kernel may have omitted further numbers.
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
