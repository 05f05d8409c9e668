package daemon

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// resumeBody is the body of an AG-UI client after a person has answered an interrupt.
func resumeBody(s *tooldv1.Suspension, status, payload string) string {
	return fmt.Sprintf(`{"threadId":"chat","runId":"next","messages":[],"resume":[{"interruptId":"%s.%s","status":%q,"payload":%s}]}`, s.GetSuspensionId(), s.GetDigest(), status, payload)
}

// TestAGUI follows a run: a question as an interrupt, the answer of a person, and the replay after it.
func TestAGUI(t *testing.T) {
	s, _, b := uiDaemon(t)
	defer http.DefaultClient.CloseIdleConnections()
	const decisions, yes = "/v1/agui/decisions", `{"approved":true}`
	app, ada := uiToken("app"), uiToken("ada")
	declined, ticket := b.asks("run-0", "a.txt"), b.asks("run-1", "b.txt")
	tests := []struct {
		name, method, path, token, body string
		status                          int
		want                            string
	}{
		{"interrupt", "GET", "/v1/agui/threads/chat/stream", app, "", 200, `"outcome":{"type":"interrupt","interrupts":[{"id":"` + ticket.SuspensionId + `.` + ticket.Digest + `","reason":"tool_call","toolCallId":"m-b.txt"`},
		{"nothing", "GET", "/v1/agui/runs/run-9/stream", app, "", 204, ""},
		{"another tenant looks", "GET", "/v1/agui/runs/run-1/stream", uiToken("eve"), "", 204, ""},
		{"unknown parameter", "GET", "/v1/agui/runs/run-1/stream?follow=1", app, "", 400, "follow"},
		{"T131 the app answers its own question", "POST", decisions, app, resumeBody(ticket, "resolved", yes), 403, "ROLE_REQUIRED"},
		{"another tenant answers", "POST", decisions, uiToken("eve"), resumeBody(ticket, "resolved", yes), 200, `"code":"not_found"`},
		{"a word for yes", "POST", decisions, ada, resumeBody(ticket, "resolved", `{"approved":"yes"}`), 400, "resume[0].payload"},
		{"T63 something else was shown", "POST", decisions, ada, resumeBody(&tooldv1.Suspension{SuspensionId: ticket.SuspensionId, Digest: declined.Digest}, "resolved", yes), 200, `"code":"failed_precondition"`},
		{"no answer", "POST", decisions, ada, resumeBody(ticket, "open", yes), 400, "resume[0]"},
		{"no resume", "POST", decisions, ada, `{"threadId":"chat"}`, 400, "resume"},
		{"approved", "POST", decisions, ada, resumeBody(ticket, "resolved", yes), 200, `"approved":true,"callId":"`},
		{"sent again", "POST", decisions, ada, resumeBody(ticket, "resolved", yes), 200, `"approved":true,"callId":"`},
		{"changed the mind", "POST", decisions, ada, resumeBody(ticket, "cancelled", `null`), 200, `"ALREADY_DECIDED"`},
		{"declined", "POST", decisions, ada, resumeBody(declined, "resolved", `{"approved":false,"reason":"no"}`), 200, `"approved":false,"callId":"`},
		{"replay", "GET", "/v1/agui/runs/run-1/stream?wait_for_decision=true", app, "", 200, `"type":"RUN_FINISHED","threadId":"chat","runId":"run-1","outcome":{"type":"success"}`},
		{"replay of the declined call", "GET", "/v1/agui/runs/run-0/stream?wait_for_decision=true", app, "", 200, `"reason":"DECLINED"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if status, text := b.do(tt.method, tt.path, tt.token, tt.body); status != tt.status || !strings.Contains(text, tt.want) {
				t.Errorf("%d %s, want %d with %s", status, text, tt.status, tt.want)
			}
		})
	}
	spec := `{"spec":{"tool":"ask_user","arguments":{"question":"Which?","options":["red","blue"]},"run":{"runId":"run-2","threadId":"chat"}}}`
	_, text := b.do("POST", tooldv1.CallService_CallTool_FullMethodName+"?form=readable", app, spec)
	_, id, _ := strings.Cut(text, `"suspensionId":"`)
	id, _, _ = strings.Cut(id, `"`)
	question := &tooldv1.Suspension{SuspensionId: id}
	if id == "" {
		t.Fatalf("the call does not wait: %s", text)
	}
	if _, text := b.do("POST", decisions, ada, resumeBody(question, "cancelled", `null`)); !strings.Contains(text, `"code":"invalid_argument"`) {
		t.Errorf("an answer to a question that names no approvers, without the digest of what was shown: %s", text)
	}
	if !s.has("b.txt") || s.has("a.txt") {
		t.Error("the files are not those that were approved")
	}
}
