package sandbox

import (
	"slices"
	"time"
)

// watchLoop records the process tree of the active runs and reaps orphans that have ended.
func (r *Runner) watchLoop() {
	// A census reads one file for each process of the machine, so it may use at most 2 % (1/share) of one core. While the runs' processes
	// do not change, for example with servers that idle for days, the interval grows up to the constant longest.
	const shortest, longest, share = 250 * time.Millisecond, 4 * time.Second, 50
	pause := time.NewTimer(shortest)
	defer pause.Stop()
	for {
		select {
		case <-r.life.Done():
			return
		case <-r.wake:
		}
		for wait, least := shortest, shortest; len(r.watched()) > 0; {
			wake := r.wake
			if wait <= least {
				wake = nil // A run that begins now need not wake the loop, because the next census comes soon enough.
			}
			pause.Reset(wait)
			select {
			case <-r.life.Done():
				return
			case <-wake: // a run began
				wait = least
				continue
			case <-pause.C:
			}
			began := time.Now()
			changed := r.observe()
			least = max(shortest, share*time.Since(began))
			if wait = min(2*wait, longest); changed {
				wait = least
			}
			wait = max(wait, least)
		}
	}
}

// watched returns the runs whose processes only marks can identify (see the package comment). The processes of the other runs are in a PID
// namespace.
func (r *Runner) watched() []*run {
	return slices.DeleteFunc(r.runs.others(nil), func(run *run) bool { return run.supervised() })
}

// observe takes one census, records the processes of each run, and reports whether they have changed. It ignores a failed census, because
// the end of each run takes another one.
func (r *Runner) observe() (changed bool) {
	c, err := takeCensus()
	if err != nil {
		return false
	}
	all := r.runs.others(nil)
	mains, unborn := map[int]bool{}, helpers(all)
	for _, run := range all {
		mains[run.main.pid] = true
	}
	for _, run := range r.watched() {
		found, _ := r.family.linked(run, c)
		before := run.seeds(c)
		run.remember(c, found)
		changed = changed || len(run.seeds(c)) != len(before)
		r.records.note(run, found)
	}
	if !adoptsOrphans() {
		return changed
	}
	for _, pid := range c.children[r.origin.self.pid] {
		if p := c.all[pid]; p.dead() && p.session != r.origin.self.session && !mains[pid] && !unborn[p.session] {
			reap(pid)
		}
	}
	return changed
}
