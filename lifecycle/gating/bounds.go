package gating

import (
	"fmt"
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// Bounds on the record of a call. They exist because each step writes the whole record, and each reader reads all of it. Useful work does
// not reach them, so they are not settings.
const (
	// maxCheckpoint is in bytes. It is four times the largest conversation that a subagent keeps in a checkpoint.
	maxCheckpoint = 16 << 20
	// mostRounds is the maximum number of times that a call may wait. It is enough for one question a day for more than a year.
	mostRounds = 500
	// mostRoundBytes bounds the questions and answers of all rounds together. Each question repeats the arguments, so 32 questions about
	// arguments of 250 KB reach the bound.
	mostRoundBytes = 16 << 20
)

// CheckCheckpoint returns an error for a checkpoint that is too large.
func CheckCheckpoint(b []byte) error {
	if len(b) <= maxCheckpoint {
		return nil
	}
	return &tool.Error{Code: tool.ResourceExhausted, Reason: tool.CheckpointSize, Message: fmt.Sprintf("the checkpoint has %d bytes; at most %d are kept", len(b), maxCheckpoint)}
}

// AskedTooOften returns why a call may not ask another question, or "" when it may. The reason is that its record would become too large. A
// question about an attempt in doubt is always accepted, because the tool did not choose to ask it.
func AskedTooOften(c *call.Call, origin string) (why string) {
	if origin == call.OriginDoubt {
		return ""
	}
	n := 0
	for i := range c.Rounds {
		n += roundWeight(&c.Rounds[i])
	}
	switch {
	case len(c.Rounds) >= mostRounds:
		return fmt.Sprintf("%d questions, which is the limit", mostRounds)
	case n > mostRoundBytes:
		return fmt.Sprintf("%d questions, which have %d bytes with their answers; the limit is %d bytes", len(c.Rounds), n, mostRoundBytes)
	}
	return ""
}

// voteWeight is the approximate size of a vote in bytes. A vote contains ids, times and the voter.
const voteWeight = 256

// roundWeight returns the approximate size of a round in the record, in bytes.
func roundWeight(r *call.Round) int {
	s := &r.Suspension
	n := len(s.Action) + len(s.Message) + len(s.Parameters) + len(s.ResponseSchema) + len(s.DefaultResult) + len(s.Pending.Arguments) + len(r.Proposed)
	for i := range s.RememberOptions {
		n += len(s.RememberOptions[i].Option) + len(s.RememberOptions[i].Title)
	}
	if s.Approvers != nil {
		for _, name := range slices.Concat(s.Approvers.Roles, s.Approvers.Groups) {
			n += len(name)
		}
	}
	n += len(r.Votes) * voteWeight
	d := &s.Description
	n += len(d.Title) + len(d.Basis)
	for i := range d.Locations {
		n += len(d.Locations[i].Path)
	}
	for i := range d.Preview {
		n += len(d.Preview[i].Text) + len(d.Preview[i].Data)
	}
	for i := range d.Notes {
		n += len(d.Notes[i])
	}
	if d := r.Decision; d != nil {
		n += len(d.Result) + len(d.Arguments) + len(d.Reason) + d.ResultInstead.Size()
	}
	return n
}
