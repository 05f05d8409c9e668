package sandbox

import (
	"maps"
	"os"
	"strings"
	"sync"
)

// pack remembers processes by PID and start time over several censuses, because the link from parent to child is lost when the parent ends.
type pack struct {
	mu    sync.Mutex
	known map[int]uint64
}

// remember removes processes that are no longer in c and adds the living processes in found.
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

// A finder selects processes from a census. mine are processes that must be ended, and dead ones that are not reaped yet. doubtful are
// processes that may belong to this run or to another one.
type finder func(*census) (mine, doubtful map[int]process)

// spread adds the seeds to found, then repeatedly their children and the members of their sessions. A process gets into a session of other
// processes only by birth, so every process in a run's session belongs to the run. spread adds only processes for which may returns true.
func (c *census) spread(found map[int]process, seeds []int, may func(process) bool) {
	entered := map[int]bool{} // sessions whose members were added; without it, the work would grow with the square of a session's size
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

// active holds the runs that have not ended.
type active struct {
	// The lock starting keeps main processes from being mistaken for orphans. A goroutine that forks holds it for writing until its run has
	// the PID. A goroutine that judges children of this process holds it for reading.
	starting sync.RWMutex

	mu     sync.Mutex
	closed bool
	count  sync.WaitGroup  // counts entered runs
	runs   map[string]*run // contains a run from before its process starts until every process of the run is dead
}

// enter adds a run. It returns ErrClosed after close.
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

// add adds the run of a helper. Runner.Close does not wait for this run as it does for others.
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

// close refuses further runs and reports whether this is the first call.
func (a *active) close() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	first := !a.closed
	a.closed = true
	return first
}

// A family finds and ends the processes of each run.
type family struct {
	*origin
	active   *active
	children *os.File // children of the first thread; nil where the kernel does not list them
}

// linked returns the processes of run that its session, parent links or earlier censuses identify. It also returns a function that reports
// whether a process may belong to the run.
func (f *family) linked(run *run, c *census) (map[int]process, func(process) bool) {
	may := func(p process) bool {
		return p.start >= run.main.start && p.session != f.self.session && p.pid != f.self.pid
	}
	found := map[int]process{}
	seeds := append(run.seeds(c), c.sessions[run.main.pid]...)
	if main := c.all[run.main.pid]; main.pid != 0 && main.start == run.main.start {
		if main.session != main.pid { // At first, process 1 is in the helper's session, which it shares with other runs.
			return map[int]process{main.pid: main}, may
		}
		seeds = append(seeds, main.pid)
	}
	if !run.supervised() { // A supervised run does not need the group: in its PID namespace, every process is a descendant of process 1.
		seeds = append(seeds, run.group.Members()...)
	}
	c.spread(found, seeds, may)
	return found, may
}

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

// miss records that p ended before its tag could be read. p may have belonged to a run if its parent is this process, init or unknown.
func (c *census) miss(p process, self int) {
	if _, ok := c.all[p.parent]; !ok || p.parent == self || p.parent == 1 {
		c.moving = true
	}
}

// claim decides to which run orphans without a tag belong. When an orphan may also belong to another run, claim adds it to doubtful,
// otherwise to mine.
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

// helpers returns the sessions of the helpers among runs. A process in such a session is the helper or a process 1 that has not started its
// command.
func helpers(runs []*run) map[int]bool {
	sessions := map[int]bool{}
	for _, o := range runs {
		if o.ofHelper {
			sessions[o.main.pid] = true
		}
	}
	return sessions
}

// others returns the runs that have a process, except the run in the parameter but. It includes every run whose process can be in an
// earlier census, unless that process was still in a helper's session.
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
