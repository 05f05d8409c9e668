package crash_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/toold-dev/toold/crash/ledger"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// TestT110LostTail kills the daemon while a read-only call streams and comes back with the old cursor: either some of it was
// written, and the daemon says from where on the tail is lost; or nothing was, and the call runs again under the new epoch.
// What the client saw never comes back as something else.
func TestT110LostTail(t *testing.T) {
	tests := []struct {
		name, point string
		seen        func(*loop) int64
	}{
		{"nothing is written", "commit:1", func(l *loop) int64 { return l.forgotten.Load() }},
		{"some of it is written", "committed:1", func(l *loop) int64 { return l.lostTails.Load() }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLoop(t, 110)
			const most = 20 // what the client has heard when the daemon dies is a matter of chance
			n := 0
			for ; n < most && tt.seen(l) == 0; n++ {
				l.loseTail(t, n, tt.point)
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

// loseTail gives a streaming call a life that ends at a point of the journal, and reads on in the next.
func (l *loop) loseTail(t *testing.T, n int, point string) {
	k := l.kinds[slices.IndexFunc(l.kinds, func(k *kind) bool { return k.name == "flood" })]
	it := newItem(l.led, k, fmt.Sprintf("call-%s-tail-%02d", l.tag, n), n)
	l.items, l.byID[it.ID] = append(l.items, it), it
	l.live(t, point, func(life *life, _ *rand.Rand) {
		life.unexpected(it, "execute", life.executeFrom(it, nil))
	})
	l.live(t, "", func(life *life, _ *rand.Rand) {
		marks := it.Marks()
		if len(marks) == 0 {
			return // killed before anything was told
		}
		from := &marks[len(marks)-1]
		err := life.watchFrom(it, "reattach", from, true, nil)
		if code, _, _ := refusal(err); code == codes.NotFound {
			l.forgotten.Add(1)
			err = life.executeFrom(it, from)
		}
		life.unexpected(it, "reattach", err)
		must(t, life.watchFrom(it, "whole log", nil, false, nil))
		if end := it.Ended(); end == nil || end.Status != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
			t.Errorf("the call ended %+v", end)
		}
	})
}

// executeFrom starts a call, or attaches to it with the cursor of an earlier life.
func (l *life) executeFrom(it *item, from *ledger.Mark) error {
	ctx, cancel := as(l.ctx, it.kind.caller)
	defer cancel()
	reading, cursor := it.Open("execute", l.epoch, from), ""
	if from != nil {
		cursor = from.Cursor
	}
	s, err := l.execute(ctx, it.spec, cursor)
	if err != nil {
		return err
	}
	return l.follow(it, s, reading, nil)
}
