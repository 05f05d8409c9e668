package lifecycle_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// An inboxReader reads the inbox of a principal until nothing more comes.
type inboxReader struct {
	w      *world
	stream call.Stream
	frames chan call.Frame
	ended  chan error
}

func (w *world) inbox(p tool.Principal) *inboxReader {
	r := &inboxReader{w: w, stream: w.e.Watches().WatchInbox(p), frames: make(chan call.Frame, 5000), ended: make(chan error, 1)}
	go func() {
		for {
			f, err := r.stream.Next(w.t.Context())
			if err != nil {
				r.stream.Close()
				r.ended <- err
				return
			}
			r.frames <- f
		}
	}()
	return r
}

// next returns what the inbox reported since the last call of next, without heartbeats. "+id" is a question that waits. The reason follows
// if the principal may not approve it. "-id settlement by" is a settled question.
func (r *inboxReader) next() (all []string) {
	synctest.Wait()
	for {
		select {
		case f := <-r.frames:
			switch in := f.Inbox; {
			case f.CaughtUp:
				all = append(all, fmt.Sprint("caught up, more ", in.More))
			case f.Closing:
				all = append(all, "closing")
			case f.Heartbeat:
			case in.Settled == call.SettledDecision:
				all = append(all, fmt.Sprint("-", in.CallID, " ", in.Settled, " ", in.Decision.DecidedBy.Subject))
			case in.Settled != "":
				all = append(all, fmt.Sprint("-", in.CallID, " ", in.Settled))
			case in.Rights.Approve != nil:
				all = append(all, "+"+in.CallID+" "+in.Rights.Approve.(*call.Refusal).Reason)
			default:
				all = append(all, "+"+in.CallID)
			}
		default:
			return all
		}
	}
}

func (r *inboxReader) expect(what string, want ...string) {
	r.w.t.Helper()
	if got := r.next(); fmt.Sprint(got) != fmt.Sprint(want) {
		r.w.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// TestInbox follows questions in the inboxes of an approver that may not watch the namespace, of the caller, and of a viewer. Each ticket
// has its own rights.
func TestInbox(t *testing.T) {
	operators := tool.Ticket{Approvers: &tool.Approvers{Roles: []string{"operator"}}, ExpiresIn: time.Hour}
	fourEyes := tool.Ticket{Approvers: &tool.Approvers{Roles: []string{"approver"}, DistinctFromCaller: true}, ExpiresIn: 2 * time.Hour}
	byTool := func(in *hook.Input) (hook.Verdict, error) {
		if in.Descriptor.ID == "op" {
			return approval(operators)(in)
		}
		return approval(fourEyes)(in)
	}
	vera := tool.Principal{Namespace: "ns", Subject: "vera", Roles: []string{"viewer"}}
	stranger := tool.Principal{Namespace: "other", Subject: "erin", Roles: []string{"approver", "operator"}}
	inBubble(t, []tool.Tool{echo("t", mutating), echo("op", mutating)}, gates(namedGate("ask", byTool)), func(t *testing.T, w *world) {
		late, soon := w.do(spec("t", "")), w.do(spec("op", ""))
		mine, theirs, seen, other := w.inbox(alice), w.inbox(erin), w.inbox(vera), w.inbox(stranger)
		theirs.expect("an approver", "+"+late.ID, "caught up, more false") // the approver does not see the question for operators
		mine.expect("the caller", "+"+late.ID+" NOT_AN_APPROVER", "+"+soon.ID+" NOT_AN_APPROVER", "caught up, more false")
		seen.expect("a viewer", "+"+soon.ID+" NOT_AN_APPROVER", "+"+late.ID+" NOT_AN_APPROVER", "caught up, more false") // ordered by expiry
		other.expect("another namespace", "caught up, more false")

		w.claimed(erin, late, call.ClaimRequest{})
		theirs.expect("after a claim", "+"+late.ID)
		third := w.do(spec("t", ""))
		theirs.expect("a new question", "+"+third.ID)
		w.answer(erin, late, yes())
		theirs.expect("after a decision", "-"+late.ID+" DECIDED erin")
		if _, err := w.e.Cancel(t.Context(), alice, third.ID, "", 0); err != nil {
			t.Fatal(err)
		}
		theirs.expect("after a cancel", "-"+third.ID+" CANCELLED")
		seen.next()
		sweeping, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = w.e.Sweep(sweeping) }() // Sweep returns nil when stop is called.
		time.Sleep(2 * time.Hour)
		seen.expect("after the expiry", "-"+soon.ID+" EXPIRED")
		other.expect("another namespace at the end")
	})
}

// TestInboxManyQuestions checks two watchers. One watcher misses many changes. The other one has more waiting questions than a list shows;
// it gets the remaining questions when fewer wait.
func TestInboxManyQuestions(t *testing.T) {
	inBubble(t, []tool.Tool{echo("t", mutating)}, gates(namedGate("ask", approval(tool.Ticket{}))), func(t *testing.T, w *world) {
		var calls []*call.Call
		for range 1100 {
			calls = append(calls, w.do(spec("t", "")))
		}
		slow := w.e.Watches().WatchInbox(erin)
		defer slow.Close()
		r := w.inbox(erin)
		got := r.next()
		if n := len(got); n != 1001 || got[n-1] != "caught up, more true" || got[0] != "+"+calls[0].ID {
			t.Fatalf("%d changes, the last is %q", n, got[n-1])
		}
		for _, c := range calls[:600] {
			w.answer(erin, c, yes())
		}
		settled, waiting := 0, 0
		for _, change := range r.next() {
			if change[0] == '-' {
				settled++
			} else {
				waiting++
			}
		}
		if settled != 600 || waiting != 100 {
			t.Errorf("%d settled and %d new, want 600 and 100", settled, waiting)
		}
		for _, c := range calls[600:] {
			w.answer(erin, c, yes())
		}
		if got := r.next(); len(got) != 500 {
			t.Errorf("%d changes at the end, want 500", len(got))
		}
		for n := 0; ; n++ { // The watcher looks for the first time now, when no question waits any more.
			f, err := slow.Next(t.Context())
			if err != nil || n > 0 {
				t.Fatalf("change %d is %+v, %v", n, f, err)
			}
			if f.CaughtUp {
				break
			}
		}
	})
}

// TestInboxLostChanges checks a watcher whose client does not read for a while. During this time, more questions are settled than the
// watcher remembers.
func TestInboxLostChanges(t *testing.T) {
	inBubble(t, []tool.Tool{echo("t", mutating)}, gates(namedGate("ask", approval(tool.Ticket{}))), func(t *testing.T, w *world) {
		stream := w.e.Watches().WatchInbox(erin)
		defer stream.Close()
		next := func() call.Frame {
			t.Helper()
			f, err := stream.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		if f := next(); !f.CaughtUp {
			t.Fatalf("at first: %+v", f)
		}
		var calls []*call.Call
		for range 1010 {
			calls = append(calls, w.do(spec("t", "")))
			next()
		}
		for _, c := range calls {
			w.answer(erin, c, yes())
		}
		settled := map[string]bool{}
		for range calls {
			f := next()
			settled[f.Inbox.CallID] = f.Inbox.Settled == call.SettledDecision
		}
		if len(settled) != len(calls) {
			t.Errorf("%d questions are settled, want %d", len(settled), len(calls))
		}
	})
}

// TestInboxAsksAgain checks a call that asks a second question at once, and the end of the stream in a drain.
func TestInboxAsksAgain(t *testing.T) {
	rounds := 0
	again := func(in *hook.Input) (hook.Verdict, error) {
		if in.Answer() != nil && rounds == 2 {
			return hook.Allow(), nil
		}
		rounds++
		return hook.Suspend(tool.Ticket{Approvers: &tool.Approvers{}}).By(hook.Rule{Name: "twice", Reason: "because"}), nil
	}
	inBubble(t, []tool.Tool{echo("t", mutating)}, gates(namedGate("ask", again)), func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		if s := c.Open(); s.Rule != "twice" || s.Reason != "because" || c.Verdicts[0].Rule != "twice" {
			t.Errorf("the question names the rule %q (%q), the verdict %q", s.Rule, s.Reason, c.Verdicts[0].Rule)
		}
		r := w.inbox(erin)
		r.expect("at first", "+"+c.ID, "caught up, more false")
		c = w.answer(erin, c, yes())
		r.expect("after the answer", "-"+c.ID+" DECIDED erin", "+"+c.ID)
		w.e.Drain(t.Context())
		if got := r.next(); len(got) != 1 || got[0] != "closing" {
			t.Errorf("in a drain: %q", got)
		}
		if err := <-r.ended; err != io.EOF {
			t.Errorf("the stream ended with %v", err)
		}
	})
}

// TestHandOver hands a claim over. The new claimant extends and releases it like their own.
func TestHandOver(t *testing.T) {
	inBubble(t, []tool.Tool{echo("t", mutating)}, gates(namedGate("ask", approval(tool.Ticket{}))), func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		_, err := w.claim(bob, c, call.ClaimRequest{To: "bob"})
		wantRefusal(t, err, call.InvalidArgument, "INVALID_FIELD")
		_, err = w.claim(bob, c, call.ClaimRequest{To: "erin", Release: true})
		wantRefusal(t, err, call.InvalidArgument, "INVALID_FIELD")
		w.claimed(bob, c, call.ClaimRequest{For: 50 * time.Minute})
		_, err = w.claim(officer, c, call.ClaimRequest{To: "erin"}) // Another principal holds the claim.
		wantRefusal(t, err, call.FailedPrecondition, "ALREADY_CLAIMED")
		got := w.claimed(bob, c, call.ClaimRequest{To: "erin", For: time.Minute})
		if got.By.Subject != "erin" || got.HandedBy == nil || got.HandedBy.Subject != "bob" || got.Until.Sub(got.Since) != time.Minute {
			t.Errorf("handed over: %+v", got)
		}
		w.crash()
		if got = w.claimed(erin, c, call.ClaimRequest{}); got.By.Subject != "erin" || got.HandedBy != nil {
			t.Errorf("extended by the new claimant: %+v", got)
		}
		if got = w.claimed(officer, c, call.ClaimRequest{To: "bob", TakeOver: true}); got.By.Subject != "bob" || got.HandedBy.Subject != "olga" || got.Until.Sub(got.Since) != time.Hour {
			t.Errorf("an operator handed it to bob: %+v", got)
		}
		if none := w.claimed(bob, c, call.ClaimRequest{Release: true}); none != nil {
			t.Errorf("released: %+v", none)
		}
	})
}
