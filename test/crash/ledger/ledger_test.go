package ledger_test

import (
	"strings"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/test/crash/ledger"
)

const (
	sync   = tooldv1.Durability_DURABILITY_SYNC
	behind = tooldv1.Durability_DURABILITY_BEHIND

	running   = tooldv1.CallStatus_CALL_STATUS_RUNNING
	waiting   = tooldv1.CallStatus_CALL_STATUS_SUSPENDED
	succeeded = tooldv1.CallStatus_CALL_STATUS_SUCCEEDED
	failed    = tooldv1.CallStatus_CALL_STATUS_FAILED
)

func event(n int64, kind any) *tooldv1.CallEvent {
	e := &tooldv1.CallEvent{CallId: "call", Sequence: n}
	switch k := kind.(type) {
	case tooldv1.Durability:
		e.Event = &tooldv1.CallEvent_Accepted{Accepted: &tooldv1.CallAccepted{Durability: k}}
	case string: // progress text, or the id of a question
		if id, ok := strings.CutPrefix(k, "question "); ok {
			e.Event = &tooldv1.CallEvent_Suspended{Suspended: &tooldv1.CallSuspended{Suspension: question(id)}}
			break
		}
		e.Event = &tooldv1.CallEvent_Progress{Progress: &tooldv1.Progress{Message: k}}
	case []string: // ids of question and decision
		e.Event = &tooldv1.CallEvent_Resumed{Resumed: &tooldv1.CallResumed{Decision: &tooldv1.Decision{SuspensionId: k[0], DecisionId: k[1]}}}
	case tooldv1.CallStatus:
		e.Event = &tooldv1.CallEvent_Finished{Finished: &tooldv1.CallFinished{Status: k, Result: &tooldv1.ToolResult{}}}
	case []byte:
		e.Event = &tooldv1.CallEvent_Output{Output: &tooldv1.Output{Stream: "stdout", Data: k, Length: int64(len(k))}}
	}
	return e
}

func question(id string) *tooldv1.Suspension {
	return &tooldv1.Suspension{SuspensionId: id, Digest: "digest of " + id}
}

// at returns a frame that ends at this position.
func at(cursor string, events ...*tooldv1.CallEvent) *tooldv1.Frame {
	return &tooldv1.Frame{Cursor: cursor, Events: events}
}

func lost(firstKept, epoch int64) *tooldv1.Frame {
	return &tooldv1.Frame{Control: &tooldv1.Frame_Gap{Gap: &tooldv1.Gap{Reason: tooldv1.GapReason_GAP_REASON_LOST_TAIL, FirstKept: firstKept, Epoch: epoch}}}
}

func tell(c *ledger.Call, life int64, from *ledger.Mark, frames ...*tooldv1.Frame) {
	s := c.Open("watch", life, from)
	for _, f := range frames {
		s.Frame(f)
	}
	s.End()
}

func newest(c *ledger.Call) *ledger.Mark {
	marks := c.Marks()
	return &marks[len(marks)-1]
}

func record(status tooldv1.CallStatus, last int64, more func(*tooldv1.Call)) *tooldv1.Call {
	c := &tooldv1.Call{CallId: "call", Status: status, LastSequence: last}
	if status == succeeded || status == failed {
		c.Result = &tooldv1.ToolResult{}
	}
	if more != nil {
		more(c)
	}
	return c
}

func asks(id string) func(*tooldv1.Call) {
	return func(c *tooldv1.Call) { c.Suspension = question(id) }
}

func has(decisions ...string) func(*tooldv1.Call) {
	return func(c *tooldv1.Call) {
		for _, d := range decisions {
			c.Decisions = append(c.Decisions, &tooldv1.Decision{SuspensionId: "q", DecisionId: d})
		}
	}
}

// TestSeesContradictions feeds a ledger with allowed and forbidden event sequences.
func TestSeesContradictions(t *testing.T) {
	started := at("c1.1.2", event(1, sync), event(2, "a"))
	reading := at("c1.1.2", event(1, behind), event(2, "a"))
	asked := at("c1.1.2", event(1, sync), event(2, "question q"))
	ended := at("c1.1.3", event(1, sync), event(2, "a"), event(3, succeeded))
	tests := []struct {
		name string
		tell func(c *ledger.Call)
		want string // part of the text of the only expected violation; empty means no violation
	}{
		{"goes on after the cursor", func(c *ledger.Call) { tell(c, 1, nil, started); tell(c, 2, newest(c), at("c1.2.3", event(3, failed))) }, ""},
		{"a hole", func(c *ledger.Call) { tell(c, 1, nil, started); tell(c, 2, newest(c), at("c1.2.4", event(4, "b"))) }, "event 4 (progress) where 3 has to come"},
		{"a repeat", func(c *ledger.Call) { tell(c, 1, nil, started); tell(c, 2, newest(c), at("c1.2.2", event(2, "a"))) }, "event 2 (progress) where 3 has to come"},
		{"another event under a number", func(c *ledger.Call) {
			tell(c, 1, nil, started)
			tell(c, 2, &ledger.Mark{}, at("c1.2.2", event(1, sync), event(2, "b")))
		}, "another event under number 2"},
		{"other bytes at an offset", func(c *ledger.Call) {
			tell(c, 1, nil, at("c1.1.2", event(1, sync), event(2, []byte("abc"))))
			tell(c, 2, &ledger.Mark{}, at("c1.2.2", event(1, sync), event(2, []byte("abd"))))
		}, "other bytes in stdout"},
		{"something after the end", func(c *ledger.Call) { tell(c, 1, nil, ended); tell(c, 2, newest(c), at("c1.2.4", event(4, "b"))) }, "after the terminal event 3"},
		{"a lost tail of a call that is written first", func(c *ledger.Call) { tell(c, 1, nil, started); tell(c, 2, newest(c), lost(2, 2)) }, "was lost"},
		{"a lost tail of a read-only call", func(c *ledger.Call) {
			tell(c, 1, nil, reading)
			tell(c, 2, newest(c), lost(2, 2), at("c1.2.3", event(2, "b"), event(3, succeeded)))
			tell(c, 2, &ledger.Mark{}, at("c1.2.3", event(1, behind), event(2, "b"), event(3, succeeded)))
		}, ""},
		{"a lost tail without a crash", func(c *ledger.Call) { tell(c, 1, nil, reading); tell(c, 1, newest(c), lost(2, 1)) }, "lost in life 1"},
		{"a lost tail under the old epoch", func(c *ledger.Call) { tell(c, 1, nil, reading); tell(c, 2, newest(c), lost(2, 1)) }, "under epoch 1"},
		{"a lost tail of what an earlier life had read back", func(c *ledger.Call) {
			tell(c, 1, nil, reading)
			tell(c, 2, newest(c))
			tell(c, 3, newest(c), lost(2, 3))
		}, "2 events were written"},
		{"a read-only call is forgotten", func(c *ledger.Call) { tell(c, 1, nil, reading); c.Missing(2) }, ""},
		{"forgotten without a crash", func(c *ledger.Call) { tell(c, 1, nil, reading); c.Missing(1) }, "without a crash"},
		{"a stored call is forgotten", func(c *ledger.Call) { tell(c, 1, nil, started); c.Missing(2) }, "does not know a call"},
		{"forgotten and run again under a new epoch", func(c *ledger.Call) {
			tell(c, 1, nil, reading)
			tell(c, 2, newest(c), at("c1.2.2", event(1, behind), event(2, failed)))
		}, ""},
		{"run again under the old epoch", func(c *ledger.Call) {
			tell(c, 1, nil, reading)
			tell(c, 2, newest(c), at("c1.1.2", event(1, behind)))
		}, "event 1 (accepted) where 3 has to come"},
		{"another end", func(c *ledger.Call) { tell(c, 1, nil, ended); c.Record(record(failed, 3, nil), "", 2, c.View()) }, "the results differ"},
		{"another end of a read-only call of which a record alone had told", func(c *ledger.Call) {
			tell(c, 1, nil, reading)
			c.Record(record(failed, 9, nil), "", 1, c.View())
			tell(c, 2, newest(c), at("c1.2.3", event(3, succeeded)))
		}, ""},
		{"another end of such a call in one life", func(c *ledger.Call) {
			tell(c, 1, nil, reading)
			c.Record(record(failed, 9, nil), "", 1, c.View())
			tell(c, 1, newest(c), at("c1.1.3", event(3, succeeded)))
		}, "the results differ"},
		{"the end is taken back", func(c *ledger.Call) { tell(c, 1, nil, ended); c.Record(record(running, 3, nil), "", 2, c.View()) }, "the call had ended"},
		{"an answer that is older than a later one", func(c *ledger.Call) {
			view := c.View()
			tell(c, 1, nil, ended)
			c.Record(record(running, 1, nil), "", 1, view)
		}, ""},
		{"the record is behind the log", func(c *ledger.Call) { tell(c, 1, nil, started); c.Record(record(running, 1, nil), "", 2, c.View()) }, "the record knows 1 events"},
		{"a second attempt", func(c *ledger.Call) {
			c.Once = true
			c.Record(record(running, 2, func(c *tooldv1.Call) { c.Attempts = make([]*tooldv1.Attempt, 2) }), "", 2, c.View())
		}, "2 attempts of a tool that may run once"},
		{"a question stays", func(c *ledger.Call) { tell(c, 1, nil, asked); c.Record(record(waiting, 2, asks("q")), "", 2, c.View()) }, ""},
		{"a question is gone", func(c *ledger.Call) { tell(c, 1, nil, asked); c.Record(record(running, 2, nil), "", 2, c.View()) }, "nobody answered it"},
		{"a question changed", func(c *ledger.Call) {
			tell(c, 1, nil, asked)
			c.Record(record(waiting, 2, func(c *tooldv1.Call) { c.Suspension = &tooldv1.Suspension{SuspensionId: "q", Digest: "other"} }), "", 2, c.View())
		}, "its digest was"},
		{"a decision is lost", func(c *ledger.Call) {
			tell(c, 1, nil, asked)
			c.Send("q", &tooldv1.Decision{DecisionId: "d"})
			c.Applied("q", "d")
			c.Record(record(running, 3, nil), "", 2, c.View())
		}, "the record does not have it"},
		{"an applied decision is refused later", func(c *ledger.Call) {
			tell(c, 1, nil, asked)
			c.Send("q", &tooldv1.Decision{DecisionId: "d"})
			c.Applied("q", "d")
			c.Refused("q", "d", "other")
		}, "was applied and is refused now"},
		{"two winners", func(c *ledger.Call) { tell(c, 1, nil, asked); c.Applied("q", "d"); c.Applied("q", "e") }, "decision d was told to"},
		{"applied twice", func(c *ledger.Call) {
			tell(c, 1, nil, asked, at("c1.1.4", event(3, []string{"q", "d"}), event(4, []string{"q", "d"})))
		}, "answered by event 3 and by event 4"},
		{"two decisions in the record", func(c *ledger.Call) { c.Record(record(running, 3, has("d", "e")), "", 2, c.View()) }, "has the answers d and e"},
		{"refused without a winner", func(c *ledger.Call) {
			tell(c, 1, nil, asked)
			c.Send("q", &tooldv1.Decision{DecisionId: "d"})
			c.Refused("q", "d", "")
		}, "nobody cancelled"},
		{"a cancel is not in the record", func(c *ledger.Call) {
			tell(c, 1, nil, started)
			c.Cancel()
			c.Cancelled(record(running, 2, nil), 1, c.View())
		}, "has no cancel_request"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			book := ledger.New()
			tt.tell(book.Call("call", false))
			broken := book.Broken()
			switch {
			case tt.want == "" && len(broken) > 0:
				t.Errorf("found %v", broken)
			case tt.want != "" && (len(broken) == 0 || !strings.Contains(broken[0].What, tt.want)):
				t.Errorf("found %v, want %q", broken, tt.want)
			}
		})
	}
}

// TestInbox compares an inbox with the questions known to be open.
func TestInbox(t *testing.T) {
	here := record(waiting, 2, asks("q"))
	tests := []struct {
		name   string
		list   []*tooldv1.Call
		answer bool
		want   string
	}{
		{"it is there", []*tooldv1.Call{here}, false, ""},
		{"it is missing", nil, false, "does not have it"},
		{"it was answered meanwhile", nil, true, ""},
		{"it is there twice", []*tooldv1.Call{here, here}, false, "twice"},
		{"it is another question", []*tooldv1.Call{record(waiting, 2, asks("other"))}, false, "in place of"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			book := ledger.New()
			c := book.Call("call", false)
			tell(c, 1, nil, at("c1.1.2", event(1, sync), event(2, "question q")))
			open, untouched := c.Waiting()
			if open.GetSuspensionId() != "q" || !untouched {
				t.Fatalf("Waiting = %v, %t", open, untouched)
			}
			if tt.answer {
				c.Send("q", &tooldv1.Decision{DecisionId: "d"})
			}
			book.Listed(map[string]*ledger.Call{"call": c}, map[string]*tooldv1.Suspension{"call": open}, tt.list)
			broken := book.Broken()
			if tt.want == "" && len(broken) > 0 || tt.want != "" && (len(broken) != 1 || !strings.Contains(broken[0].What, tt.want)) {
				t.Errorf("found %v, want %q", broken, tt.want)
			}
		})
	}
}

// TestFeed reads a feed over two lives.
func TestFeed(t *testing.T) {
	tests := []struct {
		name   string
		second []*tooldv1.CallEvent
		want   string
	}{
		{"goes on", []*tooldv1.CallEvent{event(3, succeeded)}, ""},
		{"repeats", []*tooldv1.CallEvent{event(2, "a"), event(3, succeeded)}, "event 2 (progress) where 3 has to come"},
		{"leaves out", []*tooldv1.CallEvent{event(4, succeeded)}, "event 4 (finished) where 3 has to come"},
		{"differs", []*tooldv1.CallEvent{event(3, failed)}, "another event under number 3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			book := ledger.New()
			c := book.Call("call", false)
			tell(c, 1, nil, at("c1.1.3", event(1, sync), event(2, "a"), event(3, succeeded)))
			feed := book.Feed(func(string) *ledger.Call { return c })
			feed.Frame(at("f1.1.0", event(1, sync), event(2, "a")))
			if feed.Cursor() != "f1.1.0" || feed.Last("call") != 2 {
				t.Errorf("cursor %q after %d", feed.Cursor(), feed.Last("call"))
			}
			feed.Frame(at("f1.2.0", tt.second...))
			broken := book.Broken()
			if tt.want == "" && len(broken) > 0 || tt.want != "" && (len(broken) == 0 || !strings.Contains(broken[0].What, tt.want)) {
				t.Errorf("found %v, want %q", broken, tt.want)
			}
		})
	}
}

// TestNewest reads a log with two readers at different positions. Newest must return the later position, even if the other reader has read
// last.
func TestNewest(t *testing.T) {
	c := ledger.New().Call("call", false)
	tell(c, 1, nil, at("c1.1.2", event(1, behind), event(2, "a")), at("c1.1.30", event(3, "b")))
	for range 20 {
		tell(c, 1, &ledger.Mark{Cursor: "c1.1.0"}, at("c1.1.1", event(1, behind)), at("c1.1.2", event(2, "a")))
	}
	if got := c.Newest(); got == nil || *got != (ledger.Mark{Cursor: "c1.1.30", Sequence: 3}) {
		t.Errorf("Newest = %v, want the place behind event 3", got)
	}
}
