package httpserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/server/service"
)

// maxAnswers bounds the answers of a request.
const maxAnswers = 256

// A reply is a person's answer to a question in a frontend.
type reply struct {
	suspension string
	digest     string // digest of the question as the frontend showed it
	approved   bool
	reason     string
	result     string // JSON text; empty for an answer of yes or no
}

// A decided is the outcome of an answer.
type decided struct {
	ApprovalID string        `json:"approvalId"`
	Approved   bool          `json:"approved"`
	CallID     string        `json:"callId,omitempty"`
	Error      *decidedError `json:"error,omitempty"` // absent if toold stored the answer, for this request or an earlier one
}

type decidedError struct {
	Code    string `json:"code"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
}

type decisions struct {
	Decisions []decided `json:"decisions"`
}

// uiDecisions turns the approval responses in a request of useChat into decisions of the principal that sends the request.
func (s *Server) uiDecisions(w http.ResponseWriter, r *http.Request) { s.decideAll(w, r, approvals) }

// decideAll answers the questions that read finds in the body. Tokens of apps do not have the role for this; see [access.DecisionsMethod].
func (s *Server) decideAll(w http.ResponseWriter, r *http.Request, read func(ctx context.Context, body any) ([]reply, error)) {
	res, err := service.Unary(r.Context(), s.cfg.Service, access.DecisionsMethod, func(ctx context.Context, _ *struct{}) (*decisions, error) {
		body, err := jsonBody(w, r)
		if err != nil {
			return nil, err
		}
		answers, err := read(ctx, body)
		if err != nil {
			return nil, err
		}
		if len(answers) > maxAnswers {
			return nil, invalid("messages", fmt.Sprintf("has %d answers; at most %d are allowed", len(answers), maxAnswers))
		}
		res := &decisions{Decisions: []decided{}}
		for _, a := range answers {
			res.Decisions = append(res.Decisions, s.decide(ctx, a))
		}
		return res, nil
	}, &struct{}{})
	if err != nil {
		writeError(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(res) // Ignore the error: a write fails only when the client is gone.
}

// jsonBody parses the body of a request strictly. It refuses a body that another parser could read as different values.
func jsonBody(w http.ResponseWriter, r *http.Request) (any, error) {
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); strings.TrimSpace(kind) != "application/json" {
		return nil, invalid("content-type", "want application/json")
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, service.MaxMessage))
	if err != nil {
		return nil, invalid("body", err.Error())
	}
	body, err := call.ParseJSON(string(text), service.MaxMessage)
	if err != nil {
		return nil, invalid("body", err.Error())
	}
	return body, nil
}

// approvals returns the approval responses of the last message. The body has the form that useChat sends: the member messages has all
// messages, or the member message has only the last one.
func approvals(_ context.Context, body any) ([]reply, error) {
	object, _ := body.(map[string]any)
	message, ok := object["message"].(map[string]any)
	if list, many := object["messages"].([]any); many && len(list) > 0 {
		message, ok = list[len(list)-1].(map[string]any)
	}
	if !ok {
		return nil, invalid("messages", "want the messages of useChat, or the last one as the member message")
	}
	parts, _ := message["parts"].([]any)
	if message["role"] != "assistant" || parts == nil {
		return nil, invalid("messages", "the last message is not a message of the assistant with parts")
	}
	shown := map[string]string{} // digests of the questions in the message
	var answers []reply
	for i, p := range parts {
		part, _ := p.(map[string]any)
		if id, _ := part["id"].(string); part["type"] == "data-toold-question" {
			data, _ := part["data"].(map[string]any)
			shown[id], _ = data["digest"].(string)
		}
		if part["state"] != "approval-responded" {
			continue
		}
		a, err := approval(part["approval"], fmt.Sprintf("messages.parts[%d].approval", i))
		if err != nil {
			return nil, err
		}
		answers = append(answers, a)
	}
	for i := range answers {
		answers[i].digest = shown[answers[i].suspension]
	}
	return answers, nil
}

func approval(v any, field string) (reply, error) {
	approval, _ := v.(map[string]any)
	id, _ := approval["id"].(string)
	yes, ok := approval["approved"].(bool)
	reason, text := approval["reason"].(string)
	if id == "" || !ok || !text && approval["reason"] != nil {
		return reply{}, invalid(field, "want id and approved, and perhaps a reason, as useChat writes them")
	}
	return reply{suspension: id, approved: yes, reason: reason}, nil
}

// decide sends one answer. ResumeTool checks that the question is open, that it is the question that the frontend showed, and that the
// principal may answer it.
func (s *Server) decide(ctx context.Context, a reply) decided {
	out := decided{ApprovalID: a.suspension, Approved: a.approved}
	if a.digest == "" { // Check this here, because ResumeTool requires a digest only for questions that name approvers.
		out.Error = decidedErrorOf(invalid("digest", "is required: send the question's part or id unchanged, as the stream sent it"))
		return out
	}
	d := &tooldv1.Decision{
		DecisionId: decisionID(access.From(ctx).Subject, a), Action: tooldv1.DecisionAction_DECISION_ACTION_CANCEL,
		Reason: a.reason, ExpectedDigest: a.digest, Result: a.result,
	}
	if a.approved {
		d.Action = tooldv1.DecisionAction_DECISION_ACTION_RESUME
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := s.calls.ResumeTool(ctx, &tooldv1.ResumeToolRequest{SuspensionId: a.suspension, Decision: d})
	for err == nil {
		var res *tooldv1.ResumeToolResponse
		if res, err = stream.Recv(); err == nil && len(res.GetFrame().GetEvents()) > 0 {
			out.CallID = res.GetFrame().GetEvents()[0].GetCallId()
			return out // The answer is stored, and the call continues without this stream.
		}
	}
	if !errors.Is(err, io.EOF) {
		out.Error = decidedErrorOf(err)
	}
	return out
}

// decisionID derives the id of a decision from the subject and the answer. A repeated request therefore repeats the same decision. The id
// includes the subject, because each person has one vote.
func decisionID(subject string, a reply) string {
	text, _ := json.Marshal([]any{"toold.frontend.decision.v1", a.suspension, subject, a.approved, a.reason, a.result, a.digest})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func decidedErrorOf(err error) *decidedError {
	out := &decidedError{Code: toConnect(err).Code().String(), Message: status.Convert(err).Message()}
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			out.Reason = info.GetReason()
		}
	}
	return out
}
