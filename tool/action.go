package tool

// An Action is work to do after a call has committed. It is stored with the call's result. The daemon's handler of this name carries it out
// at least once, even after a crash.
type Action struct {
	Handler string `json:"handler"`
	Phase   Phase  `json:"phase"`
	Payload string `json:"payload,omitempty"` // JSON text, at most 64 KiB; empty means null
}

// A Phase is the time when an action is carried out.
type Phase string

// The phases. When a call has no batch or no run, actions of the phase BATCH_END or RUN_END are carried out after the commit of the call.
const (
	AfterCommit Phase = "AFTER_COMMIT"
	BatchEnd    Phase = "BATCH_END" // after every call of the batch has ended
	RunEnd      Phase = "RUN_END"   // when the run ends, before its documents are deleted; at most a day after the end was requested
)
