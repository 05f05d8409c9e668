package tool

// An Action is something to be done because of a call, after it has committed: it is stored with the call's result and carried
// out at least once, also over crashes, by the handler of this name that the daemon has.
type Action struct {
	Handler string `json:"handler"`
	Phase   Phase  `json:"phase"`
	Payload string `json:"payload,omitempty"` // JSON text, at most 64 KiB; empty is null
}

// A Phase is when an action is carried out.
type Phase string

// The phases. A call that is in no batch or run is one by itself: what is for the end of it comes after the commit.
const (
	AfterCommit Phase = "AFTER_COMMIT"
	BatchEnd    Phase = "BATCH_END" // when every call of the batch has ended
	RunEnd      Phase = "RUN_END"   // when the run is ended, before its documents go; at the latest a day after it was asked for
)
