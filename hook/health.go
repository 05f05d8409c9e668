package hook

import "time"

// Health contains the counts of an external hook.
type Health struct {
	Asked, Failed    int64     // number of completed questions, and how many of them failed
	Running, Waiting int       // current numbers of questions
	Failing          bool      // the last question failed
	LastError        string    // error of the last failure; kept when the hook answers again
	Since            time.Time // when Failing last changed; zero when it never did
}
