package lifecycle_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

func TestRetryOf(t *testing.T) {
	p := held()
	tools := []tool.Tool{asks("asks", tool.Ticket{}), echo("read", reading), p.tool("held", mutating), p.toolAs(tool.Descriptor{ID: "other", Aliases: []string{"else"}})}
	inBubble(t, tools, nil, func(t *testing.T, w *world) {
		cancel := func(s call.Spec) call.Spec {
			t.Helper()
			s.Run.Thread = "" // Without a thread, because retention does not trim a thread while one of its calls waits.
			w.begin(s)
			if _, err := w.e.Cancel(t.Context(), alice, s.ID, "", time.Minute); err != nil {
				t.Fatal(err)
			}
			return s
		}
		first := cancel(spec("held", `{"a":1}`))
		again := func(p tool.Principal, s call.Spec, of string) error {
			s.RetryOf, s.Run = of, tool.Run{}
			watcher, err := w.e.Execute(t.Context(), p, s, call.ExecuteOptions{})
			if err == nil {
				watcher.Close()
				synctest.Wait()
			}
			return err
		}
		refused := func(p tool.Principal, s call.Spec, of string, kind call.RefusalKind, reason string) {
			t.Helper()
			wantRefusal(t, again(p, s, of), kind, reason)
			_, err := w.e.Records().Get(t.Context(), carol, s.ID)
			wantRefusal(t, err, call.NotFound, "CALL_NOT_FOUND")
		}
		running := w.begin(apart(spec("held", "")))
		for range 2 { // The first round reads the call from memory, the second from the journal.
			refused(alice, spec("held", ""), "call-unknown-0001", call.NotFound, "RETRY_OF_NOT_FOUND")
			refused(bob, spec("held", ""), first.ID, call.NotFound, "RETRY_OF_NOT_FOUND")
			refused(eve, spec("held", ""), first.ID, call.NotFound, "RETRY_OF_NOT_FOUND")
			refused(alice, spec("other", ""), first.ID, call.FailedPrecondition, "RETRY_OF_INVALID")
			refused(alice, spec("read", ""), w.do(spec("read", "")).ID, call.FailedPrecondition, "RETRY_OF_INVALID")
			refused(alice, spec("held", ""), running, call.FailedPrecondition, "RETRY_OF_INVALID")
			refused(alice, spec("asks", ""), w.do(spec("asks", "")).ID, call.FailedPrecondition, "RETRY_OF_INVALID")
			w.crash()
			running = w.begin(apart(spec("held", "")))
		}
		self := spec("held", "")
		wantRefusal(t, again(alice, self, self.ID), call.InvalidArgument, "INVALID_FIELD")

		p.free()
		time.Sleep(time.Hour)
		retry := spec("held", `{"a":2}`)
		if err := again(alice, retry, first.ID); err != nil {
			t.Fatal(err)
		}
		if c := w.get(retry.ID); c.Status != call.Succeeded || c.RetryOf != first.ID {
			t.Errorf("call %s, retry of %q", c.Status, c.RetryOf)
		}
		seen := p.seen()
		if a, b := seen[0], seen[len(seen)-1]; b.ID != retry.ID || a.IdempotencyKey() == b.IdempotencyKey() {
			t.Errorf("the retry ran as %s with the key %s", b.ID, b.IdempotencyKey())
		}
		// A repeated request attaches to the retry, even after the first call was trimmed.
		if _, err := w.store.Trim(t.Context(), w.store.Now(), 0, 0, 100); err != nil {
			t.Fatal(err)
		}
		retry.RetryOf = first.ID
		retry.Run = tool.Run{}
		if c := w.do(retry); c.Status != call.Succeeded {
			t.Errorf("sent again: %s", c.Status)
		}
		refused(alice, spec("held", ""), first.ID, call.NotFound, "RETRY_OF_NOT_FOUND")
	})
}

func TestSupersededByANewTurn(t *testing.T) {
	p := held()
	tools := []tool.Tool{p.tool("held", mutating), asks("asks", tool.Ticket{})}
	inBubble(t, tools, nil, func(t *testing.T, w *world) {
		in := func(id, run string) string {
			s := spec(id, "")
			s.Run = tool.Run{ID: run, Thread: "thread-1"}
			return w.begin(s)
		}
		wantSuperseded := func(id string, executed call.Executed) {
			t.Helper()
			c := w.get(id)
			if c.Status != call.Cancelled || c.Executed != executed || c.Cancel == nil || c.Cancel.Cause != "SUPERSEDED" ||
				c.Result.Error.Code != tool.Cancelled || c.Result.Error.Reason != "SUPERSEDED" || c.Result.ModelText() != "Superseded by a new turn" {
				t.Errorf("call %s %s, %+v, %+v", c.Status, c.Executed, c.Cancel, c.Result.Error)
			}
			w.checkLog(id)
		}
		asked := in("asks", "turn-1")
		running := in("held", "turn-1")
		child := spec("held", "")
		child.Run = tool.Run{ID: "elsewhere", ParentCall: running}
		w.begin(child)
		next := in("held", "turn-2")
		ids, err := w.e.CancelAll(t.Context(), alice, "", "thread-1", "", "turn-2")
		synctest.Wait()
		if err != nil || len(ids) != 2 {
			t.Fatalf("superseded %v, %v", ids, err)
		}
		wantSuperseded(running, call.Started)
		wantSuperseded(child.ID, call.Started)
		wantSuperseded(asked, call.Started)
		if c := w.get(next); c.Status != call.Running {
			t.Fatalf("the call of the new turn: %s", c.Status)
		}

		_, err = w.e.EndRun(t.Context(), alice, "turn-2", "", "turn-2")
		wantRefusal(t, err, call.InvalidArgument, "INVALID_FIELD")
		if _, err := w.e.EndRun(t.Context(), alice, "turn-2", "", "turn-3"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantSuperseded(next, call.Started)
		if state := w.runState("turn-2"); state != "ENDED" {
			t.Errorf("run is %s", state)
		}
	})
}

// TestSupersededThenKilled checks a crash after a run was superseded. The cause SUPERSEDED is stored before it takes effect, so after the
// crash the call still ends with this cause.
func TestSupersededThenKilled(t *testing.T) {
	p := held()
	inBubble(t, []tool.Tool{p.tool("held", mutating)}, nil, func(t *testing.T, w *world) {
		s := spec("held", "")
		w.crashAt("after-cancel", func() {
			w.begin(s)
			_, _ = w.e.EndRun(t.Context(), alice, "run-1", "", "run-2")
		})
		c := w.get(s.ID)
		if c.Status != call.Cancelled || c.Executed != call.ExecutedUnknown || c.Result.Error.Reason != "SUPERSEDED" {
			t.Errorf("call %s %s %+v", c.Status, c.Executed, c.Result)
		}
	})
}
