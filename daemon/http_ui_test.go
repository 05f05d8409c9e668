package daemon

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// uiDaemon starts a daemon with HTTP that asks before it writes. The tokens of its principals are their names, ten times.
func uiDaemon(t *testing.T) (*site, *proc, *browser) {
	s := newSite(t, "rules: [{action: ask, tools: [write]}]")
	config := "auth:\n  tokens:\n"
	for name, roles := range map[string]string{"app": "caller, delegate", "ada": "approver, viewer", "eve": "approver, viewer"} {
		namespace := map[string]string{"eve": "other"}[name]
		if namespace == "" {
			namespace = "default"
		}
		config += fmt.Sprintf("    - {name: %s, namespace: %s, roles: [%s], hash: 'sha256:%x'}\n", name, namespace, roles, sha256.Sum256([]byte(uiToken(name))))
	}
	file := filepath.Join(filepath.Dir(s.data), "toold.yaml")
	must(t, os.WriteFile(file, []byte(config), 0o600))
	p := s.start("--config", file, "--listen-http", "127.0.0.1:0")
	return s, p, browserOf(t, p)
}

func uiToken(name string) string { return strings.Repeat(name, 10) }

// asks starts a call that waits for an approval, and returns its ticket.
func (b *browser) asks(run, path string) *tooldv1.Suspension {
	b.t.Helper()
	spec := fmt.Sprintf(`{"spec":{"tool":"write","arguments":"{\"path\":%q,\"content\":\"x\"}","modelCallId":%q,"run":{"runId":%q,"threadId":"chat"}}}`, path, "m-"+path, run)
	spec = strings.ReplaceAll(spec, `{\"path\":"`+path+`"`, `{\"path\":\"`+path+`\"`)
	status, text := b.do("POST", tooldv1.CallService_CallTool_FullMethodName, uiToken("app"), spec)
	var res struct {
		Call struct {
			Suspension struct{ SuspensionID, Digest string }
		}
	}
	if err := json.Unmarshal([]byte(text), &res); err != nil || res.Call.Suspension.SuspensionID == "" {
		b.t.Fatalf("%d %s", status, text)
	}
	return &tooldv1.Suspension{SuspensionId: res.Call.Suspension.SuspensionID, Digest: res.Call.Suspension.Digest}
}

// answers is the body of useChat after a person has answered a question.
func answers(s *tooldv1.Suspension, digest string, approved bool) string {
	return fmt.Sprintf(`{"id":"chat","messages":[{"role":"user","parts":[]},{"role":"assistant","parts":[{"type":"data-toold-question","id":%q,"data":{"digest":%q}},`+
		`{"type":"dynamic-tool","state":"approval-responded","approval":{"id":%q,"approved":%t,"reason":"because"}}]}]}`, s.GetSuspensionId(), digest, s.GetSuspensionId(), approved)
}

func (s *site) has(name string) bool {
	_, err := os.Stat(filepath.Join(s.workspace, name))
	return err == nil
}

// TestUIStreamAndDecisions follows a chat: a question in the stream, the answer of a person, and the replay after it.
func TestUIStreamAndDecisions(t *testing.T) {
	s, _, b := uiDaemon(t)
	defer http.DefaultClient.CloseIdleConnections()
	app, ada, stream := uiToken("app"), uiToken("ada"), "/v1/ui/threads/chat/stream"
	check := func(what string, status int, text string, want int, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %d %s, want %q", what, status, text, part)
			}
		}
		if status != want {
			t.Errorf("%s: %d %s, want %d", what, status, text, want)
		}
	}
	status, text := b.do("GET", stream, app, "")
	check("no call yet", status, text, 204)
	old := b.asks("run-0", "a.txt")
	ticket := b.asks("run-1", "b.txt")
	status, text = b.do("GET", stream, app, "")
	check("the newest run", status, text, 200, `{"type":"start","messageId":"run-1"}`, `"toolCallId":"m-b.txt"`, `"approvalId":"`+ticket.SuspensionId+`"`, `"digest":"`+ticket.Digest+`"`, "data: [DONE]\n\n")
	if strings.Contains(text, "a.txt") {
		t.Errorf("the stream has the calls of another run: %s", text)
	}
	status, text = b.do("GET", "/v1/ui/runs/run-0/stream?version=7&message_id=m1", app, "")
	check("a run", status, text, 200, `{"type":"start","messageId":"m1"}`, `"approvalId":"`+old.SuspensionId+`","reason":`)

	status, text = b.do("POST", "/v1/ui/decisions", app, answers(ticket, ticket.Digest, true))
	check("the app answers its own question", status, text, 403, "ROLE_REQUIRED")
	status, text = b.do("POST", "/v1/ui/decisions", "", answers(ticket, ticket.Digest, true))
	check("nobody answers", status, text, 401, "TOKEN_REQUIRED")
	status, text = b.do("POST", "/v1/ui/decisions", uiToken("eve"), answers(ticket, ticket.Digest, true))
	check("another tenant answers", status, text, 200, `"code":"not_found"`)
	status, text = b.do("POST", "/v1/ui/decisions", ada, answers(ticket, old.Digest, true))
	check("something else was shown", status, text, 200, `"code":"failed_precondition"`)
	status, text = b.do("POST", "/v1/ui/decisions", ada, answers(ticket, "", true))
	check("nothing was shown", status, text, 200, `"code":"invalid_argument"`)
	if s.has("b.txt") {
		t.Fatal("the tool ran without an approval")
	}
	for range 2 { // the page sends the same decision again
		status, text = b.do("POST", "/v1/ui/decisions", ada, answers(ticket, ticket.Digest, true))
		check("approved", status, text, 200, `"approvalId":"`+ticket.SuspensionId+`","approved":true,"callId":"`)
		if strings.Contains(text, "error") {
			t.Error(text)
		}
	}
	status, text = b.do("POST", "/v1/ui/decisions", ada, answers(ticket, ticket.Digest, false))
	check("changed the mind", status, text, 200, `"ALREADY_DECIDED"`)
	status, text = b.do("POST", "/v1/ui/decisions", ada, answers(old, old.Digest, false))
	check("declined", status, text, 200, `"approved":false,"callId":"`)

	for status, text = b.do("GET", stream, app, ""); status == 200; status, text = b.do("GET", stream, app, "") {
		check("the call runs", status, text, 200, "[DONE]") // the stream lasts until the call has ended
	}
	check("nothing is active", status, text, 204)
	status, text = b.do("GET", stream+"?ended=true", app, "")
	check("the replay", status, text, 200, `"type":"tool-output-available"`, `"state":"approved"`, `"decidedBy":"ada"`, `"type":"finish"`)
	status, text = b.do("GET", "/v1/ui/runs/run-0/stream?ended=true", app, "")
	check("the replay of the declined call", status, text, 200, `{"type":"tool-output-denied","toolCallId":"m-a.txt"}`, `"reason":"because"`)
	if !s.has("b.txt") || s.has("a.txt") {
		t.Error("the files are not those that were approved")
	}
}

// TestUIRefusals checks requests that are wrong, or hostile.
func TestUIRefusals(t *testing.T) {
	_, _, b := uiDaemon(t)
	defer http.DefaultClient.CloseIdleConnections()
	ticket := b.asks("run-1", "a.txt")
	good := answers(ticket, ticket.Digest, true)
	tests := []struct{ name, method, path, body, want string }{
		{"unknown parameter", "GET", "/v1/ui/runs/run-1/stream?follow=1", "", "follow"},
		{"version", "GET", "/v1/ui/runs/run-1/stream?version=5", "", "6 or later"},
		{"twice", "GET", "/v1/ui/runs/run-1/stream?version=6&version=7", "", "twice"},
		{"no JSON", "POST", "/v1/ui/decisions", "approve", "body"},
		{"no message", "POST", "/v1/ui/decisions", `{"messages":[]}`, "messages"},
		{"message of the user", "POST", "/v1/ui/decisions", `{"message":{"role":"user","parts":[]}}`, "assistant"},
		{"no id", "POST", "/v1/ui/decisions", strings.ReplaceAll(good, `"approval":{"id"`, `"approval":{"is"`), "parts[1].approval"},
		{"a word for yes", "POST", "/v1/ui/decisions", strings.ReplaceAll(good, `"approved":true`, `"approved":"yes"`), "parts[1].approval"},
		{"two answers in one", "POST", "/v1/ui/decisions", strings.ReplaceAll(good, `"approved":true`, `"approved":false,"approved":true`), "approved"},
		{"another case", "POST", "/v1/ui/decisions", strings.ReplaceAll(good, `"approved":true`, `"Approved":true`), "parts[1].approval"},
		{"too many answers", "POST", "/v1/ui/decisions", strings.Replace(good, `{"type":"dynamic-tool"`, strings.Repeat(`{"type":"dynamic-tool","state":"approval-responded","approval":{"id":"x","approved":true}},`, 256)+`{"type":"dynamic-tool"`, 1), "at most 256"},
		{"too deep", "POST", "/v1/ui/decisions", strings.Repeat("[", 70), "body"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if status, text := b.do(tt.method, tt.path, uiToken("ada"), tt.body); status != 400 || !strings.Contains(text, tt.want) {
				t.Errorf("%d %s, want 400 with %q", status, text, tt.want)
			}
		})
	}
	if status, text := b.do("GET", "/v1/ui/runs/run-1/stream", uiToken("eve"), ""); status != 204 {
		t.Errorf("another tenant sees the run: %d %s", status, text)
	}
	if status, text := b.do("HEAD", "/v1/ui/runs/run-1/stream?wait_for_decision=true", uiToken("ada"), ""); status != 405 {
		t.Errorf("HEAD: %d %s", status, text)
	}
	if status, text := b.do("GET", "/v1/ui/runs/run-1/stream", "", ""); status != 401 {
		t.Errorf("nobody sees the run: %d %s", status, text)
	}
}

// TestUIStreamWaits follows a run while a person decides elsewhere: the stream stays open, and has the result.
func TestUIStreamWaits(t *testing.T) {
	s, _, b := uiDaemon(t)
	defer http.DefaultClient.CloseIdleConnections()
	ticket := b.asks("run-1", "a.txt")
	req, err := http.NewRequestWithContext(within(t), "GET", b.base+"/v1/ui/runs/run-1/stream?wait_for_decision=true", nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+uiToken("app"))
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	if got := resp.Header.Get("X-Vercel-AI-UI-Message-Stream"); got != "v1" {
		t.Errorf("the header is %q", got)
	}
	var types []string
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		var chunk struct{ Type string }
		text, ok := strings.CutPrefix(lines.Text(), "data: {")
		if !ok {
			continue
		}
		must(t, json.Unmarshal([]byte("{"+text), &chunk))
		if types = append(types, chunk.Type); chunk.Type == "tool-approval-request" {
			if status, text := b.do("POST", "/v1/ui/decisions", uiToken("ada"), answers(ticket, ticket.Digest, true)); status != 200 {
				t.Fatalf("%d %s", status, text)
			}
		}
	}
	must(t, lines.Err())
	got := strings.Join(types, " ")
	if want := "tool-approval-request data-toold-question tool-input-available tool-output-available finish-step finish"; !strings.HasSuffix(got, want) || !s.has("a.txt") {
		t.Errorf("got %s, want %s at the end", got, want)
	}
}

// TestUIStreamOfADrain checks that a stream contains an error when the daemon ends it. Otherwise a page would show half a message as
// complete.
func TestUIStreamOfADrain(t *testing.T) {
	_, p, b := uiDaemon(t)
	defer http.DefaultClient.CloseIdleConnections()
	b.asks("run-1", "a.txt")
	req, err := http.NewRequestWithContext(within(t), "GET", b.base+"/v1/ui/runs/run-1/stream?wait_for_decision=true", nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+uiToken("app"))
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	p.signal(syscall.SIGTERM)
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	if !strings.HasSuffix(string(text), "data: [DONE]\n\n") || !strings.Contains(string(text), `{"type":"error","errorText":"the daemon ended the stream; the calls continue"}`) {
		t.Errorf("got %s", text)
	}
}
