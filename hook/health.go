package hook

import "time"

// Health contains the counts of an external hook.
type Health struct {
	Asked, Failed    int64     // completed questions, and those that failed
	Running, Waiting int       // current number of questions
	Failing          bool      // the last question failed
	LastError        string    // of the last failure; kept when the hook answers again
	Since            time.Time // when Failing last changed; zero when it never did
}
