package lifecycle_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// TestCheckpointIsBounded checks that a checkpoint that is too large is refused and that the call keeps its previous checkpoint.
func TestCheckpointIsBounded(t *testing.T) {
	var refused error
	saves := func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		if err := c.SaveCheckpoint(bytes.Repeat([]byte("x"), 16<<20)); err != nil {
			return nil, err
		}
		refused = c.SaveCheckpoint(bytes.Repeat([]byte("y"), 16<<20+1))
		return tool.Text("done"), nil
	}
	inBubble(t, []tool.Tool{made("saves", mutating, saves)}, nil, func(t *testing.T, w *world) {
		c := w.do(spec("saves", ""))
		if refused == nil {
			t.Fatal("it is kept")
		}
		if e := tool.AsError(refused); c.Status != call.Succeeded || e.Code != tool.ResourceExhausted || e.Reason != tool.CheckpointSize || !strings.Contains(e.Message, "at most 16777216") {
			t.Errorf("it is %s, and %v", c.Status, refused)
		}
		if kept := w.get(c.ID).Checkpoint; len(kept) != 16<<20 || kept[0] != 'x' {
			t.Errorf("%d bytes are kept", len(kept))
		}
	})
}

// TestRoundsAreBounded checks that a call that asks again and again ends when its record reaches the limit of rounds or of bytes.
func TestRoundsAreBounded(t *testing.T) {
	for name, tt := range map[string]struct{ answer, rounds int }{"many": {0, 500}, "large": {1 << 20, 16}} {
		t.Run(name, func(t *testing.T) {
			again := func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Suspended("Again?"), nil }
			answer := ""
			if tt.answer > 0 {
				answer = `"` + strings.Repeat("!", tt.answer-2) + `"`
			}
			inBubble(t, []tool.Tool{made("again", mutating, again)}, nil, func(t *testing.T, w *world) {
				c := w.do(spec("again", ""))
				for c.Status == call.Suspended && len(c.Rounds) <= tt.rounds {
					c = w.answer(alice, c, tool.Decision{Action: tool.Resume, Result: answer})
				}
				if c.Status != call.Failed || c.Result.Error.Code != tool.ResourceExhausted || c.Result.Error.Reason != "TOO_MANY_ROUNDS" || len(c.Rounds) != tt.rounds {
					t.Fatalf("after %d rounds: %s %+v", len(c.Rounds), c.Status, c.Result)
				}
			})
		})
	}
}

// TestTicketIsBounded checks that a ticket with invalid text is refused, and that the size limit of a ticket covers all its fields
// together. The record stores the ticket for each round, so large tickets would make the record large.
func TestTicketIsBounded(t *testing.T) {
	large := strings.Repeat("x", 300<<10)
	for name, ticket := range map[string]tool.Ticket{
		"message": {Message: large}, "action": {Message: "well?", Action: large[:129]}, "not text": {Message: "well?", Action: "\xff"},
		"roles":           {Message: "well?", Approvers: &tool.Approvers{Roles: []string{"approver", large}}},
		"a role, no text": {Message: "well?", Approvers: &tool.Approvers{Roles: []string{"\xff"}}},
		"all together":    {Message: large[:200<<10], Approvers: &tool.Approvers{Roles: []string{large[:100<<10]}}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, []tool.Tool{asks("asks", ticket)}, nil, func(t *testing.T, w *world) {
				if c := w.do(spec("asks", "")); c.Status != call.Failed || c.Result.Error.Code != tool.Internal || len(c.Rounds) != 0 {
					t.Errorf("%s with %d rounds", c.Status, len(c.Rounds))
				}
			})
		})
	}
}
