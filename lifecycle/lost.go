package lifecycle

import (
	"context"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
)

// maxLost is the number of lost attempts after which toold does not run a call again: the call itself may crash its worker or the daemon.
const maxLost = 3

// lostTooOften reports whether a call has lost maxLost attempts since the last attempt that saved a checkpoint.
func lostTooOften(c *call.Call) bool {
	lost := 0
	for i := len(c.Attempts) - 1; i >= 0 && !c.Attempts[i].Saved; i-- {
		if c.Attempts[i].Ended.IsZero() {
			lost++
		}
	}
	return lost >= maxLost
}

// recoverLost recovers a call whose attempt was lost, as after a crash. When it is called, the pipeline run of the attempt has released its
// resources but still holds a reference to the call.
func recoverLost(ctx context.Context, l *activeCall) {
	p, c := lookupPipeline(l), l.record()
	l.e.log.Warn("attempt lost: its end is unknown", zap.String("tool", c.Tool), zap.String("call_id", c.ID), zap.Int("attempt", len(c.Attempts)))
	switch {
	case lostTooOften(c):
		p.attempt = len(c.Attempts)
		doubt{p}.undecided(ctx)
	case mayRunAgain(c, p.def):
		p.again()
	default:
		r := recovery{e: l.e}
		r.doubt(ctx, p)
		r.end()
	}
}
