package decision

import (
	"encoding/json"
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/gating"
	"github.com/toold-dev/toold/tool"
)

// Answers validates answers against the response schemas of tickets.
type Answers interface {
	// Compile returns an error when a schema is invalid.
	Compile(schema json.RawMessage) error
	// Validate returns the violations of a parsed answer.
	Validate(schema json.RawMessage, answer any) ([]tool.Violation, error)
}

// A Tool is the current definition of a call's tool.
type Tool struct {
	Digest         string
	Descriptor     *tool.Descriptor
	Validate       func(tool.Arguments) error
	ValidateResult func(data string) error
}

// A Checker checks answers against their tickets. It may be used concurrently.
type Checker struct {
	Answers Answers
	Now     func() call.Stamp
	Tool    func(*call.Call) *Tool // returns nil when the tool no longer exists
	// Refusal returns why the call accepts no answer now, or nil when it does.
	Refusal func(*call.Call) error
	// Scopes returns the scopes for which a principal may remember an approval, or why there are none.
	Scopes func(*call.Call, *call.Suspension, tool.Principal) ([]tool.Scope, error)
}

// An Answer is a checked answer that may be stored. It decides the question or counts as a vote.
type Answer struct {
	Decision   tool.Decision
	Suspension *call.Suspension // the suspension that the answer belongs to

	expired bool
	tally
}

// Check returns the checked answer of a request to the open question of c. round is the result of [Find].
func (k *Checker) Check(c *call.Call, round *call.Round, p tool.Principal, r *call.ResumeRequest) (*Answer, error) {
	s, err := k.open(c, round)
	if err == nil {
		err = checkDigest(s, &r.Decision)
	}
	if err != nil {
		return nil, err
	}
	a := &Answer{Suspension: s}
	if a.Decision, err = k.applied(c, s, p, &r.Decision); err != nil {
		return nil, err
	}
	a.tally, err = count(c.LastRound(), &a.Decision)
	return a, err
}

// Expiry returns the default answer of the ticket as the answer to its expired question. d contains the default result.
func Expiry(d tool.Decision, round *call.Round) *Answer {
	d.AppliesTo = round.Suspension.Digest
	return &Answer{Decision: d, Suspension: &round.Suspension, expired: true, tally: tally{votes: round.Votes, proposed: round.Proposed, decided: true}}
}

// Decides reports whether the answer closes the question.
func (a *Answer) Decides() bool { return a.decided }

// Event returns the event that reports the answer to watchers.
func (a *Answer) Event() call.Event {
	s := a.Suspension
	if a.decided {
		return call.Event{Type: call.EventResumed, Decision: &a.Decision, Suspension: &call.Suspension{ID: s.ID, Round: s.Round}}
	}
	return call.Event{Type: call.EventVoteRecorded, Vote: &call.VoteRecorded{
		SuspensionID: s.ID, Vote: a.votes[len(a.votes)-1], Votes: a.same, Needed: votesNeeded(s),
	}}
}

// Apply updates the record of the call with the answer.
func (a *Answer) Apply(c *call.Call) {
	last := changeLast(c)
	last.Votes, last.Proposed = a.votes, a.proposed
	if a.decided {
		c.Status = call.Resuming
		last.Decision, last.Closed, last.Expired = &a.Decision, true, a.expired
	}
}

// changeLast replaces the rounds of c by a copy and returns the last round, which the caller may change. Other records that share the old
// rounds keep them.
func changeLast(c *call.Call) *call.Round {
	c.Rounds = slices.Clone(c.Rounds)
	return &c.Rounds[len(c.Rounds)-1]
}

// open returns the suspension of the round if it accepts answers now, or an error that explains why it accepts none.
func (k *Checker) open(c *call.Call, round *call.Round) (*call.Suspension, error) {
	s := &round.Suspension
	switch open := c.Open(); {
	case round.Expired:
		return nil, call.Refuse(call.FailedPrecondition, "SUSPENSION_EXPIRED", "the question expired at %s without an answer", call.FormatTime(s.ExpiresAt.Time()))
	case open == nil || open.ID != s.ID:
		return nil, Decided(round, c)
	}
	if err := k.Refusal(c); err != nil {
		return nil, err
	}
	if k.Now() >= s.ExpiresAt {
		return nil, Expired(s)
	}
	return s, nil
}

// Expired returns the refusal of an answer that comes too late.
func Expired(s *call.Suspension) error {
	return call.Refuse(call.FailedPrecondition, "SUSPENSION_EXPIRED", "the question expired at %s", call.FormatTime(s.ExpiresAt.Time()))
}

// checkDigest refuses an answer for something other than s.
func checkDigest(s *call.Suspension, d *tool.Decision) error {
	switch {
	case d.ExpectedDigest != "" && d.ExpectedDigest != s.Digest:
		return call.Refuse(call.FailedPrecondition, "DIGEST_MISMATCH", "the decision is for digest %s; the ticket has %s; read the call again", d.ExpectedDigest, s.Digest)
	case d.ExpectedDigest == "" && s.Approvers != nil:
		return call.InvalidField("decision.expected_digest", "is required for this ticket: send the digest that the approver saw")
	}
	return nil
}

// applied checks the content of the decision, and returns the decision in the form that will be stored.
func (k *Checker) applied(c *call.Call, s *call.Suspension, p tool.Principal, d *tool.Decision) (tool.Decision, error) {
	out := *d
	out.DecidedBy, out.Time, out.AppliesTo = p, k.Now().Time(), s.Digest
	if d.Action == tool.Cancel {
		return out, nil
	}
	if d.ResultInstead != nil {
		return out, k.checkInstead(c, s, p, d)
	}
	if err := k.checkAnswer(s, d.Result); err != nil {
		return out, err
	}
	text, field := d.Arguments, "decision.arguments"
	if text != "" {
		if err := k.mayEdit(c, s); err != nil {
			return out, err
		}
	}
	if s.Origin == call.OriginDoubt {
		return out, k.checkDoubt(c, d)
	}
	if s.ResumeMode == tool.PassDecisionToTool {
		text, field = d.Result, "decision.result"
	}
	if text == "" {
		return out, nil
	}
	args, def, err := k.editedArguments(c, text, field)
	if err != nil {
		return out, err
	}
	basis := gating.NewBasis(def.Digest, def.Descriptor, args)
	switch {
	case !basis.Shown(c, s, def.Descriptor.MaxArguments): // The tool has changed. AppliesTo keeps the digest of the ticket, which no longer matches, so the call will ask again.
	case s.ResumeMode == tool.PassDecisionToTool && s.Approvers == nil:
		out.AppliesTo = ""
	default:
		out.AppliesTo = basis.Digest(c, s)
	}
	return out, nil
}

// editedArguments checks the arguments in a decision. If they violate the schema, the decision is refused and the question stays open.
func (k *Checker) editedArguments(c *call.Call, text, field string) (tool.Arguments, *Tool, error) {
	def := k.Tool(c)
	if def == nil {
		return tool.Arguments{}, nil, toolGone(c)
	}
	args, err := call.Parse(text).Arguments(def.Descriptor.MaxArguments)
	if err == nil {
		err = def.Validate(args)
	}
	if err == nil {
		return args, def, nil
	}
	refusal := call.InvalidField(field, "%s", tool.AsError(err).Message)
	if v := tool.AsError(err).Violations; len(v) > 0 {
		refusal.Violations = v
	}
	return args, def, refusal
}

func toolGone(c *call.Call) error {
	return call.Refuse(call.FailedPrecondition, "TOOL_GONE", "the tool %q does not exist any more; decline the call", c.Tool)
}

// checkAnswer validates an answer against the response schema of the ticket.
func (k *Checker) checkAnswer(s *call.Suspension, result string) error {
	if result == "" {
		if len(s.ResponseSchema) > 0 || s.ResumeMode != tool.ReplayToolCall {
			return call.InvalidField("decision.result", "is required: this ticket asks for an answer")
		}
		return nil
	}
	v, err := call.ParseJSON(result, 0)
	if err != nil {
		return call.InvalidField("decision.result", "is not valid JSON: %s", err)
	}
	if v != nil && takesNoResult(s) {
		return call.InvalidField("decision.result", "must be empty: this ticket asks for yes or no; send the action RESUME without a result for yes, CANCEL for no")
	}
	if len(s.ResponseSchema) == 0 {
		return nil
	}
	violations, err := k.Answers.Validate(s.ResponseSchema, v)
	if err != nil {
		return err
	}
	if len(violations) > 0 {
		refusal := call.Refuse(call.InvalidArgument, "ANSWER_INVALID", "the answer does not meet the ticket's response_schema; the question stays open")
		refusal.Violations = below("decision.result", violations)
		return refusal
	}
	return nil
}

// takesNoResult reports whether a ticket asks only for yes or no. Gates do not read a result without a schema, so a "no" in such a result
// would count as a yes. A tool, in contrast, reads the result that it asked for.
func takesNoResult(s *call.Suspension) bool {
	return len(s.ResponseSchema) == 0 && s.ResumeMode == tool.ReplayToolCall && (s.Origin != call.OriginTool || s.Action == gating.ActionApproval)
}
