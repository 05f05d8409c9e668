package sandbox

import (
	"context"
	"os"
	"time"
)

// Swept is the result of a Sweep.
type Swept struct {
	Killed     []Process
	Unverified []Process // processes that may still be alive; see [Exit]
}

// Sweep ends processes left by an earlier daemon of this owner, or by a run of this daemon that ended with unverified processes. It kills a
// process only when one of these is true:
//
//   - a record names its PID and start time since this boot
//   - a dead daemon of this owner started it, as its tag shows
//   - it descends from such a process or shares its session
//
// Sweep never touches an active run, here or in another daemon. It never touches this process, its session or its ancestors.
func (r *Runner) Sweep(ctx context.Context) (Swept, error) {
	if ctx.Err() != nil {
		return Swept{}, context.Cause(ctx)
	}
	records, err := r.records.read()
	if err != nil {
		return Swept{}, err
	}
	seen := map[int]Process{}
	killed := map[int]bool{}
	var leftovers pack
	left := r.family.end(0, killed, func(c *census) (mine, doubtful map[int]process) {
		mine, doubtful = r.family.leftovers(c, records, append(leftovers.seeds(c), r.groups.Left(r.otherDaemon)...))
		leftovers.remember(c, mine)
		for _, rec := range records {
			if p, ok := mine[rec.Main.PID]; ok && p.start == rec.Main.Start {
				p.tag = rec.Tag
				mine[p.pid] = p
			}
		}
		for pid, p := range mine {
			if _, have := seen[pid]; !have && !p.dead() {
				seen[pid] = describe(p) // The description must be read while the process still lives.
			}
		}
		return mine, doubtful
	})
	var swept Swept
	for _, p := range left {
		delete(killed, p.pid)
		swept.Unverified = append(swept.Unverified, describe(p))
	}
	for pid := range killed {
		swept.Killed = append(swept.Killed, seen[pid])
	}
	r.groups.Sweep(r.otherDaemon)
	r.sweepStrangers()
	r.homes.sweep()
	for path := range records {
		if len(left) == 0 {
			os.Remove(path)
		}
	}
	return swept, nil
}

// sweepStrangers removes empty control groups of daemons whose store may never be started again. It does so only in the first PID
// namespace, because only there it sees every process that may have made such a group.
func (r *Runner) sweepStrangers() {
	const first, age = "pid:[4026531836]", 10 * time.Minute
	if space, err := os.Readlink("/proc/self/ns/pid"); err != nil || space != first {
		return
	}
	_, _ = r.groups.SweepStrangers(age, func() (func(uint64) bool, error) {
		c, err := takeCensus()
		if err != nil {
			return nil, err
		}
		starts := map[uint64]bool{}
		for _, p := range c.all {
			starts[p.start] = true
		}
		return func(start uint64) bool { return starts[start] }, nil
	})
}

// leftovers is the finder of Sweep. It counts a process in a recorded session as doubtful when the session leader is dead and the process
// has no mark, because another program may use the same session number now.
func (f *family) leftovers(c *census, records map[string]record, seeds []int) (mine, doubtful map[int]process) {
	runs := map[string]bool{}
	safe := f.ancestors(c)
	for _, o := range f.active.others(nil) {
		runs[o.tag] = true
		of, _ := f.linked(o, c)
		for pid := range of {
			safe[pid] = true
		}
	}
	may := func(p process) bool { return !safe[p.pid] && p.session != f.self.session }
	for _, rec := range records {
		for _, id := range append(rec.Away, rec.Main) {
			if p, ok := c.all[id.PID]; ok && p.start == id.Start {
				seeds = append(seeds, id.PID)
			}
		}
	}
	for pid, p := range c.all {
		if may(p) && !p.dead() {
			tag, there := tagOf(p)
			if !there {
				c.miss(p, f.self.pid)
			} else if owner, daemon, _ := splitTag(tag); owner == f.owner && !runs[tag] && !f.foreign(daemon) {
				seeds = append(seeds, pid)
			}
		}
	}
	mine, doubtful = map[int]process{}, map[int]process{}
	c.spread(mine, seeds, may)
	for _, rec := range records {
		if _, ok := c.all[rec.Main.PID]; ok {
			continue // Either this is the main process of the run, which the code above has judged, or another process has the number now.
		}
		for _, pid := range c.sessions[rec.Main.PID] {
			if p := c.all[pid]; rec.Main.PID != 0 && mine[pid].pid == 0 && may(p) && !p.dead() && p.start >= rec.Main.Start {
				doubtful[pid] = p
			}
		}
	}
	return mine, doubtful
}

// ancestors returns this process and its ancestors.
func (f *family) ancestors(c *census) map[int]bool {
	line := map[int]bool{}
	for pid := f.self.pid; pid > 0 && !line[pid]; pid = c.all[pid].parent {
		line[pid] = true
	}
	return line
}
