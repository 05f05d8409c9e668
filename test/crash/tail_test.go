package crash_test

import (
	"math/rand/v2"
	"testing"

	"google.golang.org/grpc/codes"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/test/crash/ledger"
)

// TestT110LostTail kills the daemon while a read-only call streams, and resumes with the old cursor. If some events were written, the
// daemon must report where the lost tail begins. If none were written, the call must run again under a new epoch. Unless the daemon reports
// one of these two, an event number that the client saw must never return with different content.
func TestT110LostTail(t *testing.T) {
	tests := []struct {
		name  string
		after int64 // kill the daemon after this event; an event comes every 10 ms, and events are written every 50 ms
		seen  func(*loop) int64
	}{
		{"nothing is written", 3, func(l *loop) int64 { return l.forgotten.Load() }},
		{"some of it is written", 20, func(l *loop) int64 { return l.lostTails.Load() }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLoop(t, 110)
			const most = 20 // Several attempts are needed: all events may be written before the kill, or a busy client may see an event late.
			n := 0
			for ; n < most && tt.seen(l) == 0; n++ {
				l.loseTail(t, tt.after)
			}
			if tt.seen(l) == 0 {
				t.Errorf("not seen in %d kills", n)
			}
			for _, v := range l.led.Broken() {
				t.Error(v)
			}
			t.Logf("ran: %d kills of a streaming read-only call: %d lost tails, %d forgotten", n, l.lostTails.Load(), l.forgotten.Load())
		})
	}
}

// loseTail kills the daemon as soon as its client has seen an event, and continues reading in the next life.
func (l *loop) loseTail(t *testing.T, after int64) {
	it := l.one("ticks")
	l.withDaemon(t, "", func(life *life, _ *rand.Rand) {
		ctx, cancel := as(life.ctx, it.kind.caller)
		defer cancel()
		reading := it.Open("execute", life.epoch, nil)
		s, err := life.execute(ctx, it.spec, "")
		if err == nil {
			err = life.follow(it, s, reading, func(*tooldv1.Frame) bool {
				if it.Last() >= after {
					life.d.kill()
				}
				return false
			})
		}
		life.unexpected(it, "execute", err)
	})
	l.withDaemon(t, "", func(life *life, _ *rand.Rand) {
		from := it.Newest()
		err := life.watchFrom(it, "reattach", from, true, nil)
		if code, _, _ := refusal(err); code == codes.NotFound {
			l.forgotten.Add(1)
			err = life.executeAgain(it, from)
		}
		life.unexpected(it, "reattach", err)
		must(t, life.watchFrom(it, "whole log", nil, false, nil))
		if end := it.Ended(); end == nil || end.Status != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
			t.Errorf("the call ended %+v", end)
		}
	})
}

// executeAgain attaches to a call with the cursor of an earlier life.
func (l *life) executeAgain(it *item, from *ledger.Mark) error {
	ctx, cancel := as(l.ctx, it.kind.caller)
	defer cancel()
	reading := it.Open("execute again", l.epoch, from)
	s, err := l.execute(ctx, it.spec, from.Cursor)
	if err != nil {
		return err
	}
	return l.follow(it, s, reading, nil)
}
