package worker

import tooldv1 "github.com/toold-dev/toold/proto/toold/v1"

// A fence refuses work of a daemon that lost its store to another one: its epoch is below one that was seen, or the attempt is
// before one that began.
type fence struct {
	store    string
	epoch    int64            // the highest of the store
	attempts map[string]int32 // the newest that began, by namespace and call
}

// fenceCalls bounds what is remembered of calls; then it begins anew.
const fenceCalls = 1 << 14

// meet takes what a daemon says of itself.
func (f *fence) meet(store string, epoch int64) {
	if store != f.store {
		*f = fence{store: store}
	}
	f.epoch = max(f.epoch, epoch)
}

// admits reports whether work may begin.
func (f *fence) admits(s *tooldv1.WorkerStart) bool {
	if s.GetEpoch() == 0 { // an older daemon
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
