package lifecycle

import (
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/store"
)

// left notes that a watcher went. A call ends only when it is NEW or RUNNING, was started by a stream, was never
// suspended, is in no batch, and had no watcher by name for its linger time.
func (l *activeCall) left() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watchers--
	if l.watchers < 2 {
		l.shared.Store(nil)
	}
	l.unwatchedLocked()
}

// unwatched starts the clock of a call that a restart runs again, unless it has a watcher already.
func (l *activeCall) unwatched() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unwatchedLocked()
}

func (l *activeCall) unwatchedLocked() {
	if l.watchers > 0 || l.c.Detached || l.c.Status != call.New && l.c.Status != call.Running || l.cancel == nil {
		return
	}
	l.lingerLocked()
}

// lingerLocked ends the call when no watcher comes in time.
func (l *activeCall) lingerLocked() {
	if linger := lingerOf(l.c, l.e.cfg.Linger); linger >= 0 {
		l.linger = time.AfterFunc(linger, l.gone)
	}
}

// lingerOf returns how long a call runs without watchers; below 0 there is no limit.
func lingerOf(c *call.Call, usual time.Duration) time.Duration {
	if c.Linger != nil {
		return *c.Linger
	}
	return usual
}

// gone cancels a call without watchers. The request is stored first, under the slot: meanwhile a watcher may have come
// back, cancelled it, or the call may have asked its question.
func (l *activeCall) gone() {
	l.retain()
	defer l.release()
	l.slot.Take()
	stored, alone := l.alone()
	var err error
	if alone && stored {
		r := call.CancelRequest{Reason: "nobody was watching any more", Cause: "CALLER_GONE", Time: time.Now()}
		err = l.commitSlotted(step{
			durability: store.Full,
			events:     []call.Event{{Type: call.EventCancelRequested, Cancel: &r}},
			apply:      func(c *call.Call) { c.Cancel = &r },
		})
	}
	l.unslot()
	if err != nil {
		l.e.log.Warn("cancel request not stored", zap.String("call_id", l.key.ID), zap.Error(err))
	}
	if alone {
		l.stop(outcome.CallerGone)
	}
}

// alone reports whether the journal knows the call, and whether it ends without watchers, and has none; no
// does. The caller has the slot.
func (l *activeCall) alone() (stored, alone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	running := l.c.Status == call.New || l.c.Status == call.Running
	return l.stored, running && l.watchers == 0 && l.cancel != nil && !l.c.Detached && l.c.Cancel == nil
}
