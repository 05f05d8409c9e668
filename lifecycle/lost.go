package lifecycle

import (
	"context"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/lifecycle/outcome"
)

// recoverLost recovers a call whose attempt was lost, as after a crash. When it is called, the pipeline run of the attempt has released its
// resources but still holds a reference to the call.
func recoverLost(ctx context.Context, l *activeCall) {
	p, c := lookupPipeline(l), l.record()
	l.e.log.Warn("attempt lost: its end is unknown", zap.String("tool", c.Tool), zap.String("call_id", c.ID), zap.Int("attempt", len(c.Attempts)))
	switch {
	case outcome.LostTooOften(c):
		p.attempt = len(c.Attempts)
		doubt{p}.undecided(ctx, nil)
	case mayRunAgain(c, p.def):
		p.again()
	default:
		r := recovery{e: l.e}
		r.doubt(ctx, p)
		r.end()
	}
}
