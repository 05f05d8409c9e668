package outcome

import "github.com/toold-dev/toold/call"

// maxLost is the number of lost attempts after which toold does not run a call again: the call itself may crash its worker or the daemon.
const maxLost = 3

// LostTooOften reports whether a call has lost maxLost attempts since the last attempt that saved a checkpoint.
func LostTooOften(c *call.Call) bool {
	lost := 0
	for i := len(c.Attempts) - 1; i >= 0 && !c.Attempts[i].Saved; i-- {
		if c.Attempts[i].Ended.IsZero() {
			lost++
		}
	}
	return lost >= maxLost
}
