package worker

import tooldv1 "github.com/toold-dev/toold/proto/toold/v1"

// A fence refuses work from a daemon that has lost its store to another daemon. It detects such a daemon by two signs: its epoch is lower
// than the highest known epoch, or it starts an attempt that is older than the newest known attempt.
type fence struct {
	store    string
	epoch    int64            // highest known epoch of the store
	attempts map[string]int32 // newest known attempt of each call; the key is namespace and call id
}

// fenceCalls limits the number of remembered calls. Beyond it the fence forgets all of them.
const fenceCalls = 1 << 14

// meet records the store and epoch that a daemon reports.
func (f *fence) meet(store string, epoch int64) {
	if store != f.store {
		*f = fence{store: store}
	}
	f.epoch = max(f.epoch, epoch)
}

// admits reports whether the work may start.
func (f *fence) admits(s *tooldv1.WorkerStart) bool {
	if s.GetEpoch() == 0 { // A daemon of an older version sends no epoch.
		return true
	}
	call := s.GetCall().GetNamespace() + "/" + s.GetCall().GetCallId()
	if s.GetEpoch() < f.epoch || s.GetCall().GetAttempt() < f.attempts[call] {
		return false
	}
	if f.attempts == nil || len(f.attempts) >= fenceCalls {
		f.attempts = map[string]int32{}
	}
	f.epoch, f.attempts[call] = s.GetEpoch(), s.GetCall().GetAttempt()
	return true
}
