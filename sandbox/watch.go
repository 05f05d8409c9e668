package sandbox

import (
	"cmp"
	"slices"
	"time"
)

// watchLoop notes, while runs last, who descends from whom, and reaps orphans that ended.
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

// watched returns the runs that are told by marks alone. The others are in a namespace of their own.
func (r *Runner) watched() []*run {
	return slices.DeleteFunc(r.others(nil), func(run *run) bool { return run.supervised() })
}

// observe is one round of watchLoop, and reports whether a run has other processes than before. Without a census there is
// nothing to note; the end of each run takes its own.
func (r *Runner) observe() (changed bool) {
	c, err := takeCensus()
	if err != nil {
		return false
	}
	all := r.others(nil)
	mains, unborn := map[int]bool{}, helpers(all)
	for _, run := range all {
		mains[run.main.pid] = true
	}
	for _, run := range r.watched() {
		found, _ := r.linked(run, c)
		before := run.seeds(c)
		run.remember(c, found)
		changed = changed || len(run.seeds(c)) != len(before)
		run.note(r, found)
	}
	if !adoptsOrphans() {
		return changed
	}
	for _, pid := range c.children[r.self.pid] {
		if p := c.all[pid]; p.dead() && p.session != r.self.session && !mains[pid] && !unborn[p.session] {
			reap(pid)
		}
	}
	return changed
}

// note writes those that left the session into the record: after a crash of the daemon the session and the tag find
// the others.
func (run *run) note(r *Runner, found map[int]process) {
	var away []identity
	for _, p := range found {
		if p.session != run.main.pid && !p.dead() {
			away = append(away, p.identity())
		}
	}
	slices.SortFunc(away, func(a, b identity) int { return cmp.Compare(a.PID, b.PID) })
	run.mu.Lock()
	defer run.mu.Unlock()
	if run.record != nil && !slices.Equal(away, run.noted) {
		_ = r.writeRecord(run, run.main.identity(), away) // an older record and the tag still serve
	}
}
