package sandbox

import (
	"slices"
	"time"
)

// watchLoop notes, while runs last, which processes descend from which, and reaps orphans that ended.
func (r *Runner) watchLoop() {
	// A census reads a file for each process of the machine; it may take 2 % of one core. Runs whose processes are the same
	// as in the last one, such as servers that idle for days, are looked at ever more rarely.
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
				wake = nil // it is soon enough
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

// watched returns the runs that only marks identify. The others are in a separate namespace.
func (r *Runner) watched() []*run {
	return slices.DeleteFunc(r.runs.others(nil), func(run *run) bool { return run.supervised() })
}

// observe is one round of watchLoop, and reports whether a run has other processes than before. Without a census there is
// nothing to note; the end of each run takes its own.
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
