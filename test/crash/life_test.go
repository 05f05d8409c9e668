package crash_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/test/crash/ledger"
)

// A life is one start of the daemon, with its clients.
type life struct {
	*loop
	*client
	d      *daemon
	number int
	epoch  int64
	ctx    context.Context // ends with the daemon
	end    context.CancelFunc
}

// begin connects to a serving daemon.
func (l *loop) begin(d *daemon, number int) (*life, error) {
	c, err := dial(d.address)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	context.AfterFunc(ctx, c.close)
	go func() {
		select {
		case <-d.ended:
		case <-ctx.Done():
		}
		end()
	}()
	return &life{loop: l, client: c, d: d, number: number, epoch: d.epoch, ctx: ctx, end: end}, nil
}

// lost reports whether a request failed because the daemon is gone, so that its outcome is unknown. It records a violation when a living
// daemon does not answer.
func (l *life) lost(what string, err error) bool {
	code, reason, _ := refusal(err)
	switch code {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded, codes.Unknown:
	default:
		return false
	}
	if l.ctx.Err() != nil || l.stopping.Load() || l.d.dead() {
		return true
	}
	l.led.Break("life", "%s: a daemon that lives answers %v %s: %v", what, code, reason, err)
	return true
}

// unexpected records an error that has no known cause.
func (l *life) unexpected(it *item, what string, err error) {
	if err == nil || errors.Is(err, errEnough) || l.lost(what, err) {
		return
	}
	_, reason, _ := refusal(err)
	it.Break("life", "%s: %s %v", what, reason, err)
}

// follow reads a stream of a call to its end, or until enough returns true.
func (l *life) follow(it *item, s frames, reading *ledger.Stream, enough func(*tooldv1.Frame) bool) error {
	err := read(s, func(f *tooldv1.Frame) bool {
		l.events.Add(int64(len(f.GetEvents())))
		if g := f.GetGap(); g != nil {
			l.lostTails.Add(1)
		}
		reading.Frame(f)
		return enough != nil && enough(f)
	})
	if err == nil {
		reading.End()
	}
	return err
}

// start requests a call, perhaps again, and follows it until it has ended or is suspended. It returns false when the outcome is unknown.
func (l *life) start(it *item, rng *rand.Rand) bool {
	if it.group != nil {
		return l.startGroup(it.group, rng)
	}
	it.sent.Store(true)
	it.tries.Add(1)
	ctx, cancel := as(l.ctx, it.kind.caller)
	defer cancel()
	brief := it.kind.name == endlessName
	if brief { // The daemon ends the stream without an error, shortly before the deadline.
		ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond+time.Duration(rng.IntN(150))*time.Millisecond)
		defer cancel()
	} else if rng.IntN(4) == 0 {
		return l.startOnce(ctx, it, rng)
	}
	from := it.Newest()
	reading := it.Open("execute", l.epoch, from)
	cursor := ""
	if from != nil {
		cursor = from.Cursor
	}
	s, err := l.execute(ctx, it.spec, cursor)
	if err == nil {
		err = l.follow(it, s, reading, l.patience(it, rng))
	}
	if brief && status.Code(err) == codes.DeadlineExceeded { // On a slow machine the deadline passes before the daemon ends the stream.
		return true
	}
	return l.started(it, err)
}

// startOnce does the same as start, with the unary method.
func (l *life) startOnce(ctx context.Context, it *item, rng *rand.Rand) bool {
	req := &tooldv1.CallToolRequest{Spec: it.spec}
	if rng.IntN(2) == 0 {
		req.Wait = duration(time.Duration(rng.IntN(30)) * time.Millisecond)
	}
	it.Note("call in life %d", l.epoch)
	since := it.View()
	answer, err := l.calls.CallTool(ctx, req)
	if err == nil {
		it.Record(answer.GetCall(), answer.GetCursor(), l.epoch, since)
	}
	return l.started(it, err)
}

func (l *life) started(it *item, err error) bool {
	l.unexpected(it, "start", err)
	return err == nil || errors.Is(err, errEnough)
}

// patience returns the function that stops a reader after a few frames. Usually it returns nil, and the reader reads to the end.
func (l *life) patience(it *item, rng *rand.Rand) func(*tooldv1.Frame) bool {
	if rng.IntN(5) > 0 {
		return nil
	}
	left := 1 + rng.IntN(4)
	return func(*tooldv1.Frame) bool { left--; return left <= 0 }
}

// reattach watches a call from a position that an earlier client reached, or from the beginning. The position may be from an earlier life.
func (l *life) reattach(it *item, rng *rand.Rand) {
	if !it.Current(l.epoch) {
		return
	}
	var from *ledger.Mark
	if marks := it.Marks(); len(marks) > 0 && rng.IntN(4) > 0 {
		from = &marks[rng.IntN(len(marks))]
	}
	err := l.watchFrom(it, "watch", from, rng.IntN(2) == 0, l.patience(it, rng))
	if code, _, _ := refusal(err); code == codes.NotFound {
		it.Missing(l.epoch)
		return
	}
	l.unexpected(it, "watch", err)
}

// watchFrom reads a call's log from a mark, or from its beginning without a mark.
func (l *life) watchFrom(it *item, name string, from *ledger.Mark, follow bool, enough func(*tooldv1.Frame) bool) error {
	ctx, cancel := as(l.ctx, it.kind.caller)
	defer cancel()
	brief := follow && it.kind.name == endlessName
	if brief {
		ctx, cancel = context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
	}
	cursor := ""
	if from == nil {
		from = &ledger.Mark{}
	} else {
		cursor = from.Cursor
	}
	l.watches.Add(1)
	reading := it.Open(name, l.epoch, from)
	s, err := l.watch(ctx, it.ID, cursor, follow)
	if err == nil {
		err = l.follow(it, s, reading, enough)
	}
	if brief && status.Code(err) == codes.DeadlineExceeded {
		return errEnough
	}
	return err
}

// look compares the record of a call with the known state of the call.
func (l *life) look(it *item) error {
	ctx, cancel := as(l.ctx, it.kind.caller)
	defer cancel()
	since := it.View()
	answer, err := l.get(ctx, it.ID)
	if err == nil {
		it.Record(answer.GetCall(), answer.GetCursor(), l.epoch, since)
	}
	return err
}

// list compares the inbox with the questions known to be open.
func (l *life) list() {
	open, calls := map[string]*tooldv1.Suspension{}, map[string]*ledger.Call{}
	for _, it := range l.all() {
		if s, untouched := it.Waiting(); untouched && !it.fixed.Load() {
			open[it.ID], calls[it.ID] = s, it.Call
		}
	}
	ctx, cancel := as(l.ctx, approver)
	defer cancel()
	list, err := l.inbox(ctx)
	if err != nil {
		if !l.lost("inbox", err) {
			l.led.Break("life", "inbox: %v", err)
		}
		return
	}
	l.inboxes.Add(1)
	l.led.Listed(calls, open, list)
}

// readFeed reads the events of all calls. With follow, it waits for new events until the daemon is gone.
func (l *life) readFeed(follow bool) {
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	s, err := l.feed(identified(ctx, operator), l.feedBook.Cursor(), follow)
	if err == nil {
		err = read(s, func(f *tooldv1.Frame) bool { l.feedBook.Frame(f); return false })
	}
	if err != nil && !l.lost("feed", err) {
		l.led.Break("life", "feed: %v", err)
	}
}

// info compares what the daemon reports about itself with what it reported in earlier lives.
func (l *life) info() error {
	ctx, cancel := as(l.ctx, operator)
	defer cancel()
	info, err := l.admin.GetInfo(ctx, &tooldv1.GetInfoRequest{})
	if err != nil {
		if l.lost("info", err) {
			return nil
		}
		return fmt.Errorf("info: %w", err)
	}
	if l.storeID == "" {
		l.storeID = info.GetStoreId()
	}
	again := l.lastPID == l.d.pid && l.epoch == l.lastEpoch
	if info.GetStoreId() != l.storeID || info.GetEpoch() != l.epoch || l.epoch <= l.lastEpoch && !again {
		l.led.Break("P4", "store %s in epoch %d, announced as %d; before it was %s in epoch %d", info.GetStoreId(), info.GetEpoch(), l.epoch, l.storeID, l.lastEpoch)
	}
	l.lastEpoch, l.lastPID = l.epoch, l.d.pid
	return nil
}
