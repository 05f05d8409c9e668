package httpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/http/agui"
)

// aguiRun sends a run in the form of AG-UI.
func (s *Server) aguiRun(w http.ResponseWriter, r *http.Request) {
	s.aguiStream(w, r, &tooldv1.ListCallsRequest{RunId: r.PathValue("run")})
}

// aguiThread sends the newest run of a thread.
func (s *Server) aguiThread(w http.ResponseWriter, r *http.Request) {
	s.aguiStream(w, r, &tooldv1.ListCallsRequest{ThreadId: r.PathValue("thread")})
}

// aguiStream sends the run of the newest call that the request lists.
func (s *Server) aguiStream(w http.ResponseWriter, r *http.Request, newest *tooldv1.ListCallsRequest) {
	waits, err := waitsOf(r)
	if err != nil {
		writeError(w, r, err)
		return
	}
	run, err := s.newestRun(r.Context(), newest)
	if err != nil {
		writeError(w, r, err)
		return
	}
	if run.GetRunId() == "" {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	stream := runStream[agui.Event]{server: s, run: run.GetRunId(), mapper: agui.New(run.GetThreadId(), run.GetRunId()), waits: waits}
	stream.serve(w, r)
}

// waitsOf reads the only query parameter: whether the stream stays open while calls wait for an answer.
func waitsOf(r *http.Request) (waits bool, err error) {
	for name, list := range r.URL.Query() {
		if name != "wait_for_decision" || len(list) > 1 {
			return false, invalid(name, "is unknown or set twice; want wait_for_decision")
		}
		if waits, err = boolOf(name, list[0]); err != nil {
			return false, err
		}
	}
	return waits, nil
}

// aguiDecisions turns the member resume of an AG-UI request into decisions of the principal that sends it.
func (s *Server) aguiDecisions(w http.ResponseWriter, r *http.Request) { s.decideAll(w, r, s.resumes) }

// resumes returns the answers in the member resume of an AG-UI request.
func (s *Server) resumes(ctx context.Context, body any) ([]reply, error) {
	object, _ := body.(map[string]any)
	thread, _ := object["threadId"].(string)
	list, ok := object["resume"].([]any)
	if thread == "" || !ok {
		return nil, invalid("resume", "want threadId and a list of {interruptId, status, payload}, as AG-UI clients send them")
	}
	if len(list) > maxAnswers {
		return nil, invalid("resume", fmt.Sprintf("has %d answers; at most %d are allowed", len(list), maxAnswers))
	}
	open, err := s.questions(ctx, thread)
	if err != nil {
		return nil, err
	}
	var answers []reply
	for i, v := range list {
		a, err := resume(v, open, fmt.Sprintf("resume[%d]", i))
		if err != nil {
			return nil, err
		}
		answers = append(answers, a)
	}
	return answers, nil
}

// questions returns the open questions of a thread that the principal may see, by suspension id.
func (s *Server) questions(ctx context.Context, thread string) (map[string]*tooldv1.Suspension, error) {
	open := map[string]*tooldv1.Suspension{}
	req := &tooldv1.ListCallsRequest{ThreadId: thread, Statuses: []tooldv1.CallStatus{tooldv1.CallStatus_CALL_STATUS_SUSPENDED}}
	for range maxPages {
		res, err := s.calls.ListCalls(ctx, req)
		if err != nil {
			return nil, err
		}
		for _, c := range res.GetCalls() {
			open[c.GetSuspension().GetSuspensionId()] = c.GetSuspension()
		}
		if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	return open, nil
}

// resume reads one answer. For a question with a schema, the payload is the result. For any other question, the payload is {approved, reason}.
// When the question is no longer open, its schema is unknown, so resume decides by the form of the payload. A repeated answer then has the
// same content as the first one.
func resume(v any, open map[string]*tooldv1.Suspension, field string) (reply, error) {
	entry, _ := v.(map[string]any)
	id, _ := entry["interruptId"].(string)
	payload, _ := entry["payload"].(map[string]any)
	suspension, digest, _ := strings.Cut(id, ".")
	a := reply{suspension: suspension, digest: digest}
	ticket, isOpen := open[suspension]
	yes, isYesOrNo := payload["approved"].(bool)
	a.reason, _ = payload["reason"].(string)
	switch status := entry["status"]; {
	case id == "" || status != "resolved" && status != "cancelled":
		return reply{}, invalid(field, "want interruptId, and status resolved or cancelled")
	case status == "cancelled":
		return a, nil
	case ticket.GetResponseSchema() != "", !isOpen && !isYesOrNo && entry["payload"] != nil:
		text, err := json.Marshal(entry["payload"])
		a.approved, a.result, a.reason = true, string(text), ""
		return a, err
	case !isYesOrNo:
		return reply{}, invalid(field+".payload", "want {\"approved\": true or false}")
	}
	a.approved = yes
	return a, nil
}
