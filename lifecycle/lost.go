package lifecycle

import (
	"context"

	"go.uber.org/zap"
)

// maxLost is how many attempts of a call may be lost before nobody tries another: the call may be what takes their ends away.
const maxLost = 3

// takeUp carries a call on whose tool did not see how its attempt ended, as recovery does after a crash. The pass of that
// attempt has given back what it held, and is still the call's.
func (l *live) takeUp(ctx context.Context) {
	p, c := l.lookupPass(), l.record()
	l.e.log.Warn("attempt lost: nobody saw its end", zap.String("tool", c.Tool), zap.String("call_id", c.ID), zap.Int("attempt", len(c.Attempts)))
	lost := 0
	for _, a := range c.Attempts {
		if a.Ended.IsZero() {
			lost++
		}
	}
	switch {
	case lost >= maxLost:
		p.attempt = len(c.Attempts)
		l.undecided(ctx, p)
	case mayRunAgain(c, p.def):
		l.again(p)
	default:
		var later parents
		l.doubt(ctx, p, &later)
		later.end()
	}
}
