package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// approval is the action of a suspension that asks whether a call may run.
const approval = "approval"

// An inputRequired is the result of a call that asks the client questions, in the protocol without sessions.
type inputRequired struct {
	mcp.ResultBase
	ResultType    string              `json:"resultType"`
	InputRequests mcp.InputRequestMap `json:"inputRequests"`
	RequestState  string              `json:"requestState"`
}

// ask returns the questions of a call as the result of its request.
func ask(st *state, questions mcp.InputRequestMap) *inputRequired {
	out := &inputRequired{ResultType: "input_required", InputRequests: questions, RequestState: requestState(st.id, st.suspension.GetSuspensionId())}
	out.Meta = mcp.Meta{metaCall: st.id}
	return out
}

// questionsOf returns the questions of a suspension. It returns nil if the client cannot show forms, or if only another person may answer.
func (s *Server) questionsOf(ctx context.Context, c *client, q *tooldv1.Suspension) (mcp.InputRequestMap, error) {
	if q == nil || !c.form || q.GetAction() == "frontend" {
		return nil, nil
	}
	if isApproval(q) {
		if ok, err := s.mayApprove(ctx, q); err != nil || !ok {
			return nil, err
		}
	}
	all := mcp.InputRequestMap{}
	for key, f := range ticketOf(q).forms {
		all[key] = &mcp.ElicitParams{Mode: "form", Message: f.message, RequestedSchema: f.schema}
	}
	return all, nil
}

// isApproval reports whether a question asks whether the call may run.
func isApproval(q *tooldv1.Suspension) bool {
	return q.GetApprovers() != nil || q.GetAction() == approval
}

// mayApprove reports whether the client may get the approval of its own call. The caller alone must be a sufficient approver, and the
// client must be able to show all of the call.
func (s *Server) mayApprove(ctx context.Context, q *tooldv1.Suspension) (bool, error) {
	a := q.GetApprovers()
	if s.cfg.Approvals == nil || !s.cfg.Approvals() || a.GetDistinctFromCaller() || a.GetCount() > 1 || len(q.GetPending().GetArguments()) > maxShown {
		return false, nil
	}
	who, err := s.calls.WhoAmI(ctx, &tooldv1.WhoAmIRequest{SuspensionIds: []string{q.GetSuspensionId()}})
	if err != nil {
		return false, err
	}
	return who.GetTickets()[0].GetApprove().GetAllowed(), nil
}

// messageOf returns the text of a question. An approval also shows what would run.
func messageOf(q *tooldv1.Suspension) string {
	text := clean(q.GetMessage())
	if isApproval(q) {
		text += fmt.Sprintf("\n\nTool: %s\nArguments: %s", q.GetPending().GetName(), clean(q.GetPending().GetArguments()))
	}
	return text
}

// withProblem adds to the questions the reason why the last answer was refused.
func withProblem(questions mcp.InputRequestMap, problem string) mcp.InputRequestMap {
	for _, q := range questions {
		if p, ok := q.(*mcp.ElicitParams); ok && problem != "" {
			p.Message = "The last answer was refused: " + clean(problem) + "\n\n" + p.Message
		}
	}
	return questions
}

// elicit asks the questions of a suspension, in protocols with sessions, and applies the answers. It asks no further question after a
// declined one. It returns false when a question gets no answer, because the state of the call is then the same. If another person answers
// the suspension meanwhile, or it expires, elicit stops asking and waits for the call.
func (s *Server) elicit(ctx context.Context, c *client, st *state, questions mcp.InputRequestMap, report func(*tooldv1.Progress)) (bool, error) {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		if s.settled(asking, st.id, st.suspension.GetSuspensionId()) {
			stop()
		}
	}()
	answers := mcp.InputResponseMap{}
	for _, key := range slices.Sorted(maps.Keys(questions)) {
		params, _ := questions[key].(*mcp.ElicitParams) // This conversion always succeeds, because all questions are forms.
		answer, err := c.session.Elicit(asking, params)
		if ctx.Err() != nil {
			s.cancelled(ctx, st)
			return false, ctx.Err()
		}
		if asking.Err() != nil {
			return true, s.watchOn(ctx, c, st, report)
		}
		if err != nil || answer.Action == "cancel" { // The client has failed, or the person has closed the form: there is no answer.
			return false, nil // The result will say that the question is still open.
		}
		if answers[key] = answer; answer.Action == "decline" {
			break
		}
	}
	return true, s.answer(ctx, st, answers, report)
}

// settled waits until a suspension is no longer open. It returns false if ctx ends first, or if the daemon cannot be reached.
func (s *Server) settled(ctx context.Context, call, suspension string) bool {
	stream, err := s.watchCall(ctx, call, "")
	st := &state{suspension: &tooldv1.Suspension{SuspensionId: suspension}}
	for err == nil && st.suspension.GetSuspensionId() == suspension {
		var f *tooldv1.Frame
		if f, err = stream.Recv(); err == nil {
			st.take(f, func(*tooldv1.Progress) {})
		}
	}
	return err == nil
}

// answer applies the answers to the open suspension of a call, and follows the call. If an answer is missing, or a person closed a form, the
// suspension stays open. It also stays open if the daemon refuses the answers; then st.problem says why.
func (s *Server) answer(ctx context.Context, st *state, responses mcp.InputResponseMap, report func(*tooldv1.Progress)) error {
	q, answers := st.suspension, map[string]json.RawMessage{}
	for key := range ticketOf(q).forms {
		is, ok := responses[key].(*mcp.ElicitResult)
		if !ok {
			continue
		}
		text, err := json.Marshal(is)
		if err != nil {
			return err
		}
		answers[key] = text
	}
	d, err := decisionOf(q, answers)
	if err != nil {
		st.problem = err.Error()
		return nil //nolint:nilerr // the client is asked again
	}
	if d == nil {
		return nil
	}
	return s.resume(ctx, st, d, report)
}

// resume applies a decision and follows the call.
func (s *Server) resume(ctx context.Context, st *state, d *tooldv1.Decision, report func(*tooldv1.Progress)) error {
	suspension := st.suspension.GetSuspensionId()
	st.problem, st.cursor = "", ""
	err := s.follow(ctx, st, report, func(ctx context.Context, cursor string) (frames, error) {
		return framesOf(s.calls.ResumeTool(ctx, &tooldv1.ResumeToolRequest{SuspensionId: suspension, CallId: st.id, Decision: d, Cursor: cursor}))
	})
	if ctx.Err() != nil {
		s.cancelled(ctx, st)
	}
	switch status.Code(err) {
	case codes.InvalidArgument:
		st.problem = problemOf(err)
		return nil
	case codes.FailedPrecondition: // Another person has answered, or the question has expired.
		return s.refresh(ctx, st)
	}
	return err
}

func problemOf(err error) string {
	for _, d := range status.Convert(err).Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok {
			return violations(bad)
		}
	}
	return status.Convert(err).Message()
}

// refresh reads the state of a call.
func (s *Server) refresh(ctx context.Context, st *state) error {
	got, err := s.calls.GetCall(ctx, &tooldv1.GetCallRequest{CallId: st.id})
	if err != nil {
		return err
	}
	st.take(&tooldv1.Frame{Control: &tooldv1.Frame_Snapshot{Snapshot: got.GetCall()}}, func(*tooldv1.Progress) {})
	return nil
}

// An elicited is a client's answer to a question.
type elicited struct {
	Action  string          `json:"action"`
	Content json.RawMessage `json:"content"`
}

// decisionOf makes the decision about a suspension from the answers to its questions. If one question is declined, the decision declines
// the suspension. If an answer is missing, or the person closed a form, decisionOf returns nil, and the suspension stays open. The same
// answers always give the same decision id, so a repeated request is applied only once.
func decisionOf(q *tooldv1.Suspension, answers map[string]json.RawMessage) (*tooldv1.Decision, error) {
	t, parts := ticketOf(q), map[string]json.RawMessage{}
	d := &tooldv1.Decision{Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, ExpectedDigest: q.GetDigest()}
	for key, text := range answers {
		f, a := t.forms[key], elicited{}
		if err := json.Unmarshal(text, &a); err != nil {
			return nil, invalid(fmt.Sprintf("the answer to %s is not an elicitation result: %v", key, err))
		}
		switch a.Action {
		case "accept":
			content, err := f.content(a.Content)
			if err != nil {
				return nil, invalid(fmt.Sprintf("the answer to %s: %v", key, err))
			}
			parts[key] = content
		case "decline":
			d.Action, d.Reason = tooldv1.DecisionAction_DECISION_ACTION_CANCEL, "the person declined in the MCP client"
		case "cancel": // no answer
		default:
			return nil, invalid(fmt.Sprintf("the answer to %s has the action %q; want accept, decline or cancel", key, clean(a.Action)))
		}
	}
	if d.GetAction() == tooldv1.DecisionAction_DECISION_ACTION_RESUME {
		if len(parts) < len(t.forms) {
			return nil, nil
		}
		d.Result = string(parts[soleKey])
		if t.hasParts {
			whole, err := json.Marshal(parts)
			if err != nil {
				return nil, err
			}
			d.Result = string(whole)
		}
	}
	d.DecisionId = hashed(q.GetSuspensionId() + d.GetAction().String() + d.GetResult())
	return d, nil
}

// decide applies a decision. It returns when the journal has it.
func (s *Server) decide(ctx context.Context, id string, q *tooldv1.Suspension, d *tooldv1.Decision) error {
	ctx, cancel := context.WithCancel(ctx) // cancel ends only the stream. The call continues without a watcher.
	defer cancel()
	stream, err := s.calls.ResumeTool(ctx, &tooldv1.ResumeToolRequest{SuspensionId: q.GetSuspensionId(), CallId: id, Decision: d})
	if err != nil {
		return err
	}
	if _, err = stream.Recv(); errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// requestState returns a text that names the call and the suspension about which a result asks. The text grants no rights. The daemon accepts
// the text only with the principal and the content that the call has in the journal. Other principals do not know the suspension id.
func requestState(call, suspension string) string { return call + "." + suspension }

// retried returns the call that an earlier request made, and the suspension that the current request answers. It returns an error when the
// text does not come from a result of a call of the same principal.
func (s *Server) retried(ctx context.Context, text string) (call, suspension string, err error) {
	call, suspension, ok := strings.Cut(text, ".")
	if !ok || call == "" || suspension == "" {
		return "", "", errState
	}
	got, err := s.calls.GetCall(ctx, &tooldv1.GetCallRequest{CallId: call})
	if code := status.Code(err); code == codes.NotFound || code == codes.InvalidArgument || code == codes.FailedPrecondition {
		return "", "", errState
	}
	if err != nil {
		return "", "", err
	}
	isOne := func(d *tooldv1.Decision) bool { return d.GetSuspensionId() == suspension }
	if got.GetCall().GetSuspension().GetSuspensionId() != suspension && !slices.ContainsFunc(got.GetCall().GetDecisions(), isOne) {
		return "", "", errState
	}
	return call, suspension, nil
}

var errState = invalid("requestState is not the one that a result of this call had")

// answered applies the answers of a request to the suspension that its state names. It does so only if this suspension is still open and
// the client may answer it.
func (s *Server) answered(ctx context.Context, c *client, st *state, suspension string, responses mcp.InputResponseMap, report func(*tooldv1.Progress)) error {
	if suspension == "" || st.suspension.GetSuspensionId() != suspension {
		return nil
	}
	questions, err := s.questionsOf(ctx, c, st.suspension)
	if err != nil || questions == nil {
		return err
	}
	return s.answer(ctx, st, responses, report)
}
