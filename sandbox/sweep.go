package sandbox

import (
	"context"
	"os"
	"time"
)

// Swept is what a Sweep did.
type Swept struct {
	Killed     []Process
	Unverified []Process // as in Exit
}

// Sweep ends what an earlier daemon of this owner, or a run of this one that ended with something unverified, left
// behind. It kills a process only when a record names its pid and start time since this boot, when it was started with
// the owner's tag by a daemon that is dead, or when it descends from such a process or shares its session. It never
// touches a run that lasts, here or in another daemon, nor this process, its session, or those that started it.
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
				seen[pid] = describe(p) // before it is killed
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

// sweepStrangers removes the empty control groups of daemons whose store may never start again. Only from the first namespace
// of processes all are seen that may have made one; elsewhere, and without a census, they stay.
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

// leftovers is the finder of Sweep. A session that a record names by a number, but whose leader is dead and whose
// member bears no mark, may be another's that got the number later.
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
			continue // its own, and then found, or another's
		}
		for _, pid := range c.sessions[rec.Main.PID] {
			if p := c.all[pid]; rec.Main.PID != 0 && mine[pid].pid == 0 && may(p) && !p.dead() && p.start >= rec.Main.Start {
				doubtful[pid] = p
			}
		}
	}
	return mine, doubtful
}

// ancestors returns this process and those that it descends from.
func (f *family) ancestors(c *census) map[int]bool {
	line := map[int]bool{}
	for pid := f.self.pid; pid > 0 && !line[pid]; pid = c.all[pid].parent {
		line[pid] = true
	}
	return line
}
