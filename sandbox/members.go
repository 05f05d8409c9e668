package sandbox

import (
	"maps"
	"os"
	"strings"
	"sync"
)

// pack remembers processes, by pid with start time, over several censuses: a link from parent to child is gone when the
// parent is.
type pack struct {
	mu    sync.Mutex
	known map[int]uint64
}

// remember forgets those that c no longer has and adds those of found that live.
func (k *pack) remember(c *census, found map[int]process) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil {
		k.known = map[int]uint64{}
	}
	maps.DeleteFunc(k.known, func(pid int, start uint64) bool {
		p, ok := c.all[pid]
		return !ok || p.start != start
	})
	for pid, p := range found {
		if !p.dead() {
			k.known[pid] = p.start
		}
	}
}

func (k *pack) seeds(c *census) []int {
	k.mu.Lock()
	defer k.mu.Unlock()
	var pids []int
	for pid, start := range k.known {
		if p, ok := c.all[pid]; ok && p.start == start {
			pids = append(pids, pid)
		}
	}
	return pids
}

// A finder picks out of a census the processes that are to end, dead ones that wait to be reaped among them, and those
// that may belong to the run or to another one.
type finder func(*census) (mine, doubtful map[int]process)

// spread adds to found the seeds, their children and all who share a session with one of them, and so on. A session is
// entered by birth only, so every process in a session of a run belongs to the run. Nothing that may refuses is added.
func (c *census) spread(found map[int]process, seeds []int, may func(process) bool) {
	entered := map[int]bool{} // sessions: to add all who share one for each of them takes as many steps as there are pairs
	for len(seeds) > 0 {
		pid := seeds[len(seeds)-1]
		seeds = seeds[:len(seeds)-1]
		p, ok := c.all[pid]
		if _, have := found[pid]; !ok || have || !may(p) {
			continue
		}
		found[pid] = p
		seeds = append(seeds, c.children[pid]...)
		if !entered[p.session] {
			entered[p.session] = true
			seeds = append(seeds, c.sessions[p.session]...)
		}
	}
}

// active are the runs that last.
type active struct {
	// starting is held for writing from before a fork until its run has the pid, and for reading by goroutines that judge
	// children of this process: a main process must never be taken for an orphan.
	starting sync.RWMutex

	mu     sync.Mutex
	closed bool
	count  sync.WaitGroup  // of entered runs
	runs   map[string]*run // from before the start of the process until all of it is dead
}

// enter adds a run, unless close was called.
func (a *active) enter(run *run) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return ErrClosed
	}
	a.count.Add(1)
	a.runs[run.id] = run
	return nil
}

func (a *active) leave(run *run) {
	a.remove(run)
	a.count.Done()
}

// add adds the run of a helper, which nobody waits for.
func (a *active) add(run *run) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs[run.id] = run
}

func (a *active) remove(run *run) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.runs, run.id)
}

// close refuses further runs, and reports whether it is the first call.
func (a *active) close() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	first := !a.closed
	a.closed = true
	return first
}

// A family finds the processes of each run, and ends them.
type family struct {
	*origin
	active   *active
	children *os.File // of the first thread; nil where the kernel does not list them
}

// linked returns what the session, links and earlier censuses say is of run, and the test for who may be.
func (f *family) linked(run *run, c *census) (map[int]process, func(process) bool) {
	may := func(p process) bool {
		return p.start >= run.main.start && p.session != f.self.session && p.pid != f.self.pid
	}
	found := map[int]process{}
	seeds := append(run.seeds(c), c.sessions[run.main.pid]...)
	if main := c.all[run.main.pid]; main.pid != 0 && main.start == run.main.start {
		if main.session != main.pid { // process 1 is in the helper's at first, as those of other runs are
			return map[int]process{main.pid: main}, may
		}
		seeds = append(seeds, main.pid)
	}
	if !run.supervised() { // else the namespace says the same
		seeds = append(seeds, run.group.Members()...)
	}
	c.spread(found, seeds, may)
	return found, may
}

// finder returns the finder for run.
func (f *family) finder(run *run) finder {
	return func(c *census) (mine, doubtful map[int]process) {
		others := f.active.others(run)
		mine, may := f.linked(run, c)
		doubtful = map[int]process{}
		theirs, unborn := map[int]bool{}, helpers(others)
		for _, o := range others {
			theirs[o.main.pid] = true
		}
		var seeds, orphans []int
		for pid, p := range c.all {
			if _, have := mine[pid]; have || p.dead() || theirs[pid] || unborn[p.session] || !may(p) {
				continue
			}
			switch tag, there := tagOf(p); {
			case !there:
				c.miss(p, f.self.pid)
			case tag == run.tag:
				seeds = append(seeds, pid)
			case p.parent == f.self.pid && !strings.HasPrefix(tag, f.owner+"/"):
				orphans = append(orphans, pid)
			}
		}
		c.spread(mine, seeds, may)
		if len(orphans) > 0 && adoptsOrphans() {
			f.claim(c, orphans, others, mine, doubtful, may)
		}
		run.remember(c, mine)
		return mine, doubtful
	}
}

// miss notes that p was gone before its tag could be read. It may have been of a run when it was the child of this
// process, or of one that is gone too.
func (c *census) miss(p process, self int) {
	if _, ok := c.all[p.parent]; !ok || p.parent == self || p.parent == 1 {
		c.moving = true
	}
}

// claim deals with orphans that bear no mark: they descend from a run, and when only one was there at their birth, from
// that one.
func (f *family) claim(c *census, orphans []int, others []*run, mine, doubtful map[int]process, may func(process) bool) {
	known := map[int]process{}
	for _, o := range others {
		of, _ := f.linked(o, c)
		maps.Copy(known, of)
	}
	for _, pid := range orphans {
		p := c.all[pid]
		_, claimed := known[pid]
		for _, o := range others {
			if !claimed && o.main.start <= p.start && !o.supervised() {
				doubtful[pid], claimed = p, true
			}
		}
		if !claimed {
			c.spread(mine, []int{pid}, may)
		}
	}
}

// helpers returns the sessions of the helpers among runs. A process in one is the helper, or a process 1 that has not begun:
// of no run, or the main process of one.
func helpers(runs []*run) map[int]bool {
	sessions := map[int]bool{}
	for _, o := range runs {
		if o.ofHelper {
			sessions[o.main.pid] = true
		}
	}
	return sessions
}

// others returns the runs besides but that have a process; all whose process can be in a census taken before the call, but
// for those that were in the session of a helper then.
func (a *active) others(but *run) []*run {
	a.starting.RLock()
	defer a.starting.RUnlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	others := make([]*run, 0, len(a.runs))
	for _, o := range a.runs {
		if o != but && o.main.pid != 0 {
			others = append(others, o)
		}
	}
	return others
}
