package crash_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/test/crash/ledger"
)

// checkers is the number of calls that are checked concurrently.
const checkers = 8

// verify checks all calls that are not settled yet, and a sample of the settled calls. If all is set, it checks every call. It returns
// early when the daemon dies.
func (l *life) verify(rng *rand.Rand, all bool) error {
	if err := l.info(); err != nil {
		return err
	}
	l.strays()
	l.list()
	var open, fixed []*item
	for _, it := range l.all() {
		switch {
		case !it.sent.Load():
		case it.fixed.Load():
			fixed = append(fixed, it)
		default:
			open = append(open, it)
		}
	}
	l.each(open, rng, l.checkOpen)
	if !all {
		rng.Shuffle(len(fixed), func(i, j int) { fixed[i], fixed[j] = fixed[j], fixed[i] })
		fixed = fixed[:min(len(fixed), 10)]
	}
	l.each(fixed, rng, l.checkFixed)
	return nil
}

// quietWithin limits the time until all calls have ended or are suspended. It covers the linger time of their client, the deadline in the
// queue, and the time for which they run.
const quietWithin = 2 * time.Minute

// quiet waits until all calls that a kill left unfinished have ended or are suspended. No client attaches meanwhile, so a call can only end
// by itself or by a timeout.
func (l *life) quiet() error {
	ctx, cancel := context.WithTimeout(l.ctx, quietWithin)
	defer cancel()
	ctx = identified(ctx, operator)
	for {
		answer, err := l.calls.ListCalls(ctx, &tooldv1.ListCallsRequest{
			Statuses: []tooldv1.CallStatus{tooldv1.CallStatus_CALL_STATUS_NEW, tooldv1.CallStatus_CALL_STATUS_RUNNING, tooldv1.CallStatus_CALL_STATUS_RESUMING},
			PageSize: 100,
		})
		if err != nil {
			return fmt.Errorf("list what has not come to rest: %w", err)
		}
		moving := slices.DeleteFunc(answer.GetCalls(), func(c *tooldv1.Call) bool {
			it := l.item(c.GetCallId())
			return it == nil || it.kind.name == endlessName || it.group != nil // Skip a call of a batch, because it may wait behind an endless call.
		})
		if len(moving) == 0 {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("nobody attaches, and %d calls do not come to rest within %v: %v", len(moving), quietWithin, moving[0])
		}
	}
}

// each invokes f for the items, several at a time. Each goroutine has its own random source.
func (l *life) each(items []*item, rng *rand.Rand, f func(*item, *rand.Rand)) {
	next := make(chan *item)
	var crew sync.WaitGroup
	for range checkers {
		own := rand.New(rand.NewPCG(rng.Uint64(), 1))
		crew.Go(func() {
			for it := range next {
				f(it, own)
			}
		})
	}
	for _, it := range items {
		if l.ctx.Err() != nil {
			break
		}
		next <- it
	}
	close(next)
	crew.Wait()
}

// checkOpen reads the new events of a call and waits until the call has ended or is suspended. Then it compares the call with everything
// that clients saw before.
func (l *life) checkOpen(it *item, rng *rand.Rand) {
	if !l.catchUp(it, rng) || !it.Published() {
		return
	}
	for _, s := range it.Sent() {
		if !s.Won && !s.Lost || rng.IntN(3) == 0 {
			l.replays.Add(1)
			l.answer(it, s.SuspensionID, s.Decision, false)
		}
	}
	err := l.await(it)
	if err == nil {
		err = l.look(it)
	}
	if err != nil {
		l.unexpected(it, "check", err)
		return
	}
	if !it.Whole() { // Some events are known only from snapshots and records, not from the log.
		if err := l.watchFrom(it, "whole log", nil, false, nil); err != nil {
			l.unexpected(it, "whole log", err)
			return
		}
	}
	l.world(it)
	if end := it.Settled(); end != nil && l.number > it.born {
		l.checkFixed(it, rng)
		it.fixed.Store(true)
	}
}

// catchUp reads the new events of a call. It returns false when there is nothing more to check. This happens when the daemon is gone, or
// when the daemon does not know the call and was allowed to forget it.
func (l *life) catchUp(it *item, rng *rand.Rand) bool {
	if it.group != nil { // A checker that does not find its call sends the whole batch again. The lock makes other checkers of this batch wait meanwhile.
		it.group.checking.Lock()
		defer it.group.checking.Unlock()
	}
	err := l.watchFrom(it, "catch up", it.Newest(), false, nil)
	if code, _, _ := refusal(err); code != codes.NotFound {
		l.unexpected(it, "catch up", err)
		return err == nil
	}
	l.forgotten.Add(1)
	it.Missing(l.epoch)
	if it.group != nil && it.group.published.Load() {
		it.Break("P3", "the daemon does not know a call of a batch of which it had told events")
	}
	l.world(it)
	if l.ctx.Err() != nil || it.tries.Load() > 5 || !l.start(it, rng) { // Send the call again with the same id. It must run only once.
		return false
	}
	return true
}

// await waits until a call has ended or is suspended. It cancels endless calls.
func (l *life) await(it *item) error {
	settled := func() bool {
		open, _ := it.Waiting()
		return it.Ended() != nil || open != nil
	}
	if settled() {
		return nil
	}
	if it.kind.name == endlessName {
		if err := l.cancel(it, 5*time.Second); err != nil {
			return err
		}
	}
	for range 2 {
		err := l.watchFrom(it, "await", it.Newest(), true, func(*tooldv1.Frame) bool { return settled() })
		if settled() || err != nil {
			return clean(err)
		}
	}
	it.Break("life", "the stream ended; the call neither ended nor waits")
	return nil
}

// clean returns nil if err is errEnough, with which a reader stops early. It returns every other error unchanged.
func clean(err error) error {
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// checkFixed reads the whole log and the record of a call that cannot change any more.
func (l *life) checkFixed(it *item, _ *rand.Rand) {
	if it.Settled() == nil {
		return
	}
	err := l.watchFrom(it, "all", nil, false, nil)
	if err == nil {
		err = l.look(it)
	}
	if err != nil {
		l.unexpected(it, "check of an ended call", err)
		return
	}
	l.world(it)
	if it.kind.tool == "bash" {
		l.artifact(it)
	}
}

// world compares the known events of a call with the traces that its tool left (promise P3).
func (l *life) world(it *item) {
	if n := it.Rounds(); n > 1 {
		it.Break("P2", "asked %d times; one answer is enough, with the arguments as they were or with those that it brought", n)
	}
	if it.kind.caller == council && it.Whole() {
		it.CountVotes()
	}
	if it.kind.counts == "" {
		return
	}
	end := it.Ended() // Read the end before the traces. If the call has ended, all its traces then exist already.
	lines, err := l.traces(it)
	if err != nil {
		it.Break("life", "world: %v", err)
		return
	}
	switch {
	case len(lines) > 1:
		it.Break("P3", "the tool ran %d times: %v", len(lines), lines)
	case len(lines) == 1 && !it.Published() && it.kind.caller != auto:
		it.Break("P3", "the tool ran, and nobody was asked")
	case end == nil:
		return
	}
	ran := len(lines) > 0
	switch end.Executed {
	case tooldv1.Executed_EXECUTED_NOT_STARTED:
		if ran {
			it.Break("P3", "it ended as not started, and ran: %v", lines)
		}
	case tooldv1.Executed_EXECUTED_FINISHED:
		if !ran && end.Status == tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
			it.Break("P3", "it succeeded, and did not run")
		}
	}
	if it.Granted() && end.Status != tooldv1.CallStatus_CALL_STATUS_CANCELLED && end.Executed != tooldv1.Executed_EXECUTED_FINISHED {
		it.Break("P3", "its cancel was stored, and it ended %v %v %s", end.Status, end.Executed, end.Reason)
	}
	l.decided(it, end, lines)
}

// decided compares what ran with what was approved.
func (l *life) decided(it *item, end *ledger.End, lines []string) {
	if it.kind.caller == auto || len(lines) == 0 {
		return
	}
	want := original
	switch d := it.Winner(); {
	case d == nil:
		it.Break("P2", "it ran without a decision: %v", lines)
		return
	case d.GetAction() == tooldv1.DecisionAction_DECISION_ACTION_CANCEL:
		it.Break("P2", "it ran although it was declined: %v", lines)
		return
	case d.GetArguments() != "":
		want = edited
	}
	if !slices.Contains(lines, want) {
		it.Break("P2", "%v ran; agreed to was %s", lines, want)
	}
}

// artifact compares the stored output with what the command prints and with the output events.
func (l *life) artifact(it *item) {
	published, offset := it.Output("stdout")
	if len(published) == 0 {
		return
	}
	ctx, cancel := as(l.ctx, it.kind.caller)
	defer cancel()
	answer, err := l.calls.ReadArtifact(ctx, &tooldv1.ReadArtifactRequest{CallId: it.ID, Name: "stdout"})
	if err != nil {
		l.unexpected(it, "artifact", err)
		return
	}
	kept := answer.GetData()
	if until := offset + int64(len(published)); int64(len(kept)) < until || !bytes.Equal(kept[offset:until], published) {
		it.Break("P4", "%d bytes of output are kept, not those that were told from %d to %d", len(kept), offset, until)
	}
	var expected strings.Builder
	for i := range 40 {
		fmt.Fprintf(&expected, "%s line %d\n", it.ID, i+1)
	}
	if !strings.HasPrefix(expected.String(), string(kept)) {
		it.Break("P4", "the kept output is not what the command prints: %.80q", kept)
	}
}

// strays looks for processes of calls that an earlier daemon started. A starting daemon must kill them before it serves.
func (l *life) strays() {
	found, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		l.led.Break("life", "proc: %v", err)
	}
	own := "/" + strconv.Itoa(l.d.pid) + "."
	for _, path := range found {
		env, err := os.ReadFile(path)
		if err != nil {
			continue // the process is gone or belongs to another user
		}
		for pair := range bytes.SplitSeq(env, []byte{0}) {
			value, ok := strings.CutPrefix(string(pair), "TOOLD_CALL=")
			if ok && strings.Contains(value, l.tag) && !strings.Contains(value, own) {
				l.stray(filepath.Base(filepath.Dir(path)), value)
			}
		}
	}
}

// stray checks a leftover process. The daemon must name every process that it could not kill, and must leave no process stopped.
func (l *life) stray(pid, mark string) {
	line, _ := os.ReadFile("/proc/" + pid + "/cmdline")
	status, _ := os.ReadFile("/proc/" + pid + "/status")
	switch {
	case !l.d.log.tells("may still live", `"pid":`+pid+","):
		l.led.Break("P5", "process %s of a killed daemon lives under the next one: %q, %s", pid, line, mark)
		return
	case bytes.Contains(status, []byte("State:\tT")):
		l.led.Break("P5", "process %s of a killed daemon was stopped and left: %q, %s", pid, line, mark)
	}
	l.unverified.Add(1)
	if n, err := strconv.Atoi(pid); err == nil {
		_ = syscall.Kill(n, syscall.SIGKILL) // Kill the process, so that the next life does not find it again.
	}
}
