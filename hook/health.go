package hook

import "time"

// Health is how an external hook fares.
type Health struct {
	Asked, Failed    int64     // questions that ended; those of them without a good answer
	Running, Waiting int       // now
	Failing          bool      // the newest end was a failure
	LastError        string    // of the newest failure; stays when the hook answers again
	Since            time.Time // when Failing changed last; zero when it never did
}
