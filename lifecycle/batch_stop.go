package lifecycle

import (
	"context"
	"slices"

	"github.com/toold-dev/toold/call"
)

// interrupt ends the calls that do not run because of another one: those behind a Block, and with fail_fast all, that have
// not started or were not resumed, and that nobody declined. It reports whether there were some.
func (b *batch) interrupt() (did bool) {
	blocked, failed := b.failed()
	if blocked < 0 && !failed {
		return false
	}
	stops := func(i int) bool { return failed || i > blocked }
	why := "Not run: an earlier call was blocked"
	if blocked < 0 {
		why = "Not run: another call of the batch failed"
	}
	for i, s := range b.look() {
		if l := b.lives[i]; (s == fresh || s == decided && !l.declined()) && stops(i) && l.record().Cancel == nil {
			b.skip(l, why)
			did = true
		}
	}
	b.pending = slices.DeleteFunc(b.pending, func(m *member) bool {
		if !stops(m.l.record().BatchPosition - 1) {
			return false
		}
		m.p.early = interrupted(why)
		b.launch(m)
		did = true
		return true
	})
	return did
}

// failed returns the first call that a gate blocked, -1 when there is none, and whether a call that did not succeed stops the
// others.
func (b *batch) failed() (blocked int, failed bool) {
	blocked = -1
	for i, l := range b.lives {
		if l == nil {
			continue
		}
		c := l.record()
		if !c.Status.Terminal() || c.Result == nil {
			continue
		}
		failed = failed || c.Status != call.Succeeded && b.record.FailFast
		if e := c.Result.Error; e != nil && e.TerminateRun && blocked < 0 {
			blocked = i
		}
	}
	return blocked, failed
}

// skip ends a call without running it.
func (b *batch) skip(l *live, why string) {
	p, asked := l.lookupPipeline(), l.record().LastRound()
	l.finishFound(context.Background(), p, interrupted(why))
	if asked != nil {
		p.abandoned(&asked.Suspension)
	}
}
