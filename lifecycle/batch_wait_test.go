package lifecycle_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// asking returns a gate that asks about the tools with these ids until an answer exists.
func asking(ids ...string) hook.Entry[hook.Gate] {
	ask := approval(tool.Ticket{})
	return namedGate("ask", func(in *hook.Input) (hook.Verdict, error) {
		if !slices.Contains(ids, in.Descriptor.ID) {
			return hook.Allow(), nil
		}
		return ask(in)
	})
}

// decide answers the open question of a call. It returns when the call and its batch cannot continue by themselves.
func (w *world) decide(p tool.Principal, id string, d tool.Decision) {
	w.t.Helper()
	c := w.get(id)
	if c.Open() == nil {
		w.t.Fatalf("call %s is %s", id, c.Status)
	}
	d.ID, d.ExpectedDigest = "decision-"+newCallID(), c.Open().Digest
	watcher, err := w.e.Resume(w.t.Context(), p, call.ResumeRequest{SuspensionID: c.Open().ID, Decision: d})
	if err != nil {
		w.t.Fatalf("resume: %v", err)
	}
	watcher.Close()
	synctest.Wait()
}

// TestBatchSiblingsContinueAndDecisionsComeInAnyOrder checks a batch with questions of gates. Such a question does not stop
// the other calls. Finished calls are stored at once and never run again. Decisions may come in any order, and each call gets exactly one
// result. The batch continues after a late decision or a restart.
func TestBatchSiblingsContinueAndDecisionsComeInAnyOrder(t *testing.T) {
	for _, strategy := range strategies {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprint(strategy, crash), func(t *testing.T) {
				p := &probe{}
				tools := []tool.Tool{p.tool("a", mutating), p.tool("ok", mutating), p.tool("b", mutating), p.tool("c", mutating)}
				inBubble(t, tools, gates(asking("a", "b", "c")), func(t *testing.T, w *world) {
					b := batchOf(strategy, of("a", "ok", "b", "ok", "c")...)
					done := w.batch(b)
					calls := w.wantBatch(b, "SUSPENDED SUCCEEDED SUSPENDED SUCCEEDED SUSPENDED")
					if want := []string{calls[0].ID, calls[2].ID, calls[4].ID}; !slices.Equal(done.Open, want) {
						t.Errorf("open %v, want %v", done.Open, want)
					}
					for _, step := range []struct {
						call int
						d    tool.Decision
						want string
					}{
						{4, yes(), "SUSPENDED SUCCEEDED SUSPENDED SUCCEEDED SUCCEEDED"},
						{0, no("no"), "CANCELLED/CANCELLED SUCCEEDED SUSPENDED SUCCEEDED SUCCEEDED"},
						{2, yes(), "CANCELLED/CANCELLED SUCCEEDED SUCCEEDED SUCCEEDED SUCCEEDED"},
					} {
						if crash {
							w.crash()
							synctest.Wait()
						}
						w.decide(bob, calls[step.call].ID, step.d)
						w.wantBatch(b, step.want)
					}
					for _, c := range calls {
						w.checkLog(c.ID)
					}
					if n := p.runs.Load(); n != 4 {
						t.Errorf("%d runs, want 4", n)
					}
					if done := w.batch(b); len(done.Open) > 0 || len(done.Calls) != 5 {
						t.Errorf("the repeat says %+v", done)
					}
				})
			})
		}
	}
}

// TestBatchToolsOwnSuspensionStopsSequential checks that a question of a tool stops a SEQUENTIAL batch: later calls stay NEW until the
// decision. Batches with other strategies continue.
func TestBatchToolsOwnSuspensionStopsSequential(t *testing.T) {
	for _, strategy := range strategies {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprint(strategy, crash), func(t *testing.T) {
				p := &probe{}
				inBubble(t, []tool.Tool{asks("asks", tool.Ticket{}), p.tool("ok", mutating)}, nil, func(t *testing.T, w *world) {
					b := batchOf(strategy, of("ok", "asks", "ok", "ok")...)
					rest := "SUCCEEDED SUSPENDED SUCCEEDED SUCCEEDED"
					if strategy == call.Sequential {
						rest = "SUCCEEDED SUSPENDED NEW NEW"
					}
					w.batch(b)
					calls := w.wantBatch(b, rest)
					if crash {
						w.crash()
						synctest.Wait()
						w.wantBatch(b, rest)
					}
					w.decide(alice, calls[1].ID, tool.Decision{Action: tool.Resume, Result: "1"})
					w.wantBatch(b, "SUCCEEDED SUCCEEDED SUCCEEDED SUCCEEDED")
					if p.runs.Load() != 3 {
						t.Errorf("%d runs", p.runs.Load())
					}
				})
			})
		}
	}
}

// TestBatchReplay checks the replay modes. With IMMEDIATE each decision resumes its call. With ALL_DECIDED the decided calls hold no slot
// and wait until no question is open, even across a crash.
func TestBatchReplay(t *testing.T) {
	for _, strategy := range strategies {
		t.Run(string(strategy), func(t *testing.T) {
			p := &probe{}
			inBubble(t, []tool.Tool{p.tool("a", mutating), p.tool("b", mutating), p.tool("ok", mutating)}, gates(asking("a", "b")), func(t *testing.T, w *world) {
				for _, tt := range []struct {
					replay call.Replay
					first  string
				}{
					{call.Immediate, "SUSPENDED SUCCEEDED SUCCEEDED"},
					{call.AllDecided, "SUSPENDED RESUMING SUCCEEDED"},
				} {
					b := batchOf(strategy, of("a", "b", "ok")...)
					b.Replay = tt.replay
					w.launch(b)
					calls := w.wantBatch(b, "SUSPENDED SUSPENDED SUCCEEDED")
					w.decide(bob, calls[1].ID, yes())
					w.wantBatch(b, tt.first)
					if st := w.e.Stats(); st.Active != 0 {
						t.Errorf("%s: %d calls in memory", tt.replay, st.Active)
					}
					w.crash()
					synctest.Wait()
					w.wantBatch(b, tt.first)
					w.decide(bob, calls[0].ID, no(""))
					w.wantBatch(b, "CANCELLED/CANCELLED SUCCEEDED SUCCEEDED")
				}
				if p.runs.Load() != 4 {
					t.Errorf("%d runs", p.runs.Load())
				}
			})
		})
	}
}

// TestBatchContinuesWhenAQuestionExpires checks that a batch continues after a question expires.
func TestBatchContinuesWhenAQuestionExpires(t *testing.T) {
	inBubble(t, []tool.Tool{asks("asks", tool.Ticket{ExpiresIn: time.Hour}), echo("ok", mutating)}, nil, func(t *testing.T, w *world) {
		b := batchOf(call.Sequential, of("asks", "ok")...)
		w.launch(b)
		w.wantBatch(b, "SUSPENDED NEW")
		time.Sleep(2 * time.Hour)
		if err := w.e.ExpireDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.wantBatch(b, "CANCELLED/EXPIRED SUCCEEDED")
	})
}

// TestIdleBatchHoldsNothing checks that a batch that waits for a decision uses no memory and no slot.
func TestIdleBatchHoldsNothing(t *testing.T) {
	inBubble(t, []tool.Tool{asks("asks", tool.Ticket{}), echo("ok", mutating)}, nil, func(t *testing.T, w *world) {
		for range 20 {
			w.launch(batchOf(call.Sequential, of("ok", "asks", "ok")...))
		}
		if st := w.e.Stats(); st.Active != 0 || st.Running != 0 || st.Queued != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// TestBatchCancelOfAllComesBeforeFailFast checks that the cancellation of a batch cancels each call itself. With fail_fast, no call may end
// as INTERRUPTED because another call was cancelled first, even if the requests are processed slowly.
func TestBatchCancelOfAllComesBeforeFailFast(t *testing.T) {
	slowly := func(c *lifecycle.Config) {
		c.FailPoint = func(name string) {
			if name == "after-cancel" {
				time.Sleep(time.Second) // Delay the next request, so that the batch could act between two requests.
			}
		}
	}
	inBubble(t, []tool.Tool{asks("asks", tool.Ticket{}), echo("ok", mutating)}, slowly, func(t *testing.T, w *world) {
		b := batchOf(call.Sequential, of("asks", "ok", "ok")...)
		b.FailFast = true
		w.launch(b)
		w.wantBatch(b, "SUSPENDED NEW NEW")
		if _, err := w.e.CancelBatch(t.Context(), alice, b.ID, "", ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.wantBatch(b, "CANCELLED/CANCELLED CANCELLED/CANCELLED CANCELLED/CANCELLED")
	})
}

// TestBatchDeclinesComeFirstWithFailFast checks that with fail_fast a declined call ends the other calls, whatever the order of decisions
// and calls.
func TestBatchDeclinesComeFirstWithFailFast(t *testing.T) {
	for _, strategy := range strategies {
		t.Run(string(strategy), func(t *testing.T) {
			p := &probe{}
			inBubble(t, []tool.Tool{p.tool("a", mutating)}, gates(asking("a")), func(t *testing.T, w *world) {
				b := batchOf(strategy, of("a", "a", "a")...)
				b.FailFast, b.Replay = true, call.AllDecided
				w.launch(b)
				calls := w.wantBatch(b, "SUSPENDED SUSPENDED SUSPENDED")
				w.decide(bob, calls[0].ID, yes())
				w.decide(bob, calls[1].ID, no("no"))
				w.decide(bob, calls[2].ID, no("nor this"))
				w.wantBatch(b, "FAILED/INTERRUPTED CANCELLED/CANCELLED CANCELLED/CANCELLED")
				if n := p.runs.Load(); n != 0 {
					t.Errorf("%d runs", n)
				}
			})
		})
	}
}
