package lifecycle

import (
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/outcome"
	"github.com/toold-dev/toold/store"
)

// left is called when a watcher of the call is closed. If the call gets no other watcher within its linger time, it is cancelled. Watchers
// of feeds do not count. Only a NEW or RUNNING call that a stream started is cancelled. A call is never cancelled after it was suspended or
// has started an operation, or if it is in a batch.
func (l *activeCall) left() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watchers--
	if l.watchers < 2 {
		l.shared.Store(nil)
	}
	l.unwatchedLocked()
}

// unwatched starts the linger time of a call that runs again after a restart, unless it has a watcher.
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

// lingerLocked starts the timer that cancels the call, unless a watcher attaches before it fires.
func (l *activeCall) lingerLocked() {
	if linger := lingerOf(l.c, l.e.cfg.Linger); linger >= 0 {
		l.linger = time.AfterFunc(linger, l.cancelUnwatched)
	}
}

// lingerOf returns how long a call keeps running without watchers. A negative value means no limit.
func lingerOf(c *call.Call, usual time.Duration) time.Duration {
	if c.Linger != nil {
		return *c.Linger
	}
	return usual
}

// cancelUnwatched cancels a call that has no watchers. It takes the slot, and then checks again whether the call must end: meanwhile a watcher may
// have attached, a client may have cancelled the call, or the call may have asked a question. It stores the cancel request before it
// cancels.
func (l *activeCall) cancelUnwatched() {
	l.retain()
	defer l.release()
	l.slot.Take()
	stored, alone := l.alone()
	var err error
	if alone && stored {
		r := call.CancelRequest{Reason: "the last watcher disconnected", Cause: "CALLER_GONE", Time: time.Now()}
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

// alone reports whether the journal has the call, and whether the call must end because it has no watcher. The caller holds the slot.
func (l *activeCall) alone() (stored, alone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	running := l.c.Status == call.New || l.c.Status == call.Running
	return l.stored, running && l.watchers == 0 && l.cancel != nil && !l.c.Detached && l.c.Cancel == nil
}
