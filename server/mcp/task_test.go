package mcpserver_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	mcpserver "github.com/toold-dev/toold/server/mcp"
)

// The capabilities of three kinds of clients: with the tasks extension, without it, and with the extension and forms.
const (
	withTasks = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	withForms = `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	without   = `{}`
)

// A reply is the response to a request of the tasks extension, or to tools/call.
type reply struct {
	Result struct {
		ResultType    string
		TaskID        string
		Status        string
		StatusMessage string
		TTLMs         json.RawMessage
		Tools         json.RawMessage
		InputRequests map[string]struct {
			Params struct{ Message string }
		}
		Result struct {
			IsError bool
			Content []struct{ Text string }
		}
	}
	Error struct {
		Code    int
		Message string
		Data    json.RawMessage
	}
	status int // HTTP status
}

// post sends a request that the SDK cannot send: its result may be a task, and it may have any headers. params is JSON without _meta. name
// is the value of the header Mcp-Name. headers has further names and values.
func post(t *testing.T, url, user, capabilities, method, name, params string, headers ...string) reply {
	t.Helper()
	var with map[string]any
	must(t, json.Unmarshal([]byte(params), &with))
	with["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": map[string]string{"name": "test", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": json.RawMessage(capabilities),
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": with})
	must(t, err)
	r, err := http.NewRequestWithContext(within(t), http.MethodPost, url, bytes.NewReader(body))
	must(t, err)
	for key, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28",
		"Mcp-Method": method, "Mcp-Name": name, "User": user,
	} {
		r.Header.Set(key, value)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Del(headers[i])
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	got, err := http.DefaultClient.Do(r)
	must(t, err)
	defer got.Body.Close()
	out := reply{status: got.StatusCode}
	for lines := bufio.NewScanner(got.Body); lines.Scan(); {
		if text := strings.TrimPrefix(lines.Text(), "data: "); strings.HasPrefix(text, "{") {
			must(t, json.Unmarshal([]byte(text), &out))
		}
	}
	return out
}

// task sends a request about a task.
func task(t *testing.T, url, user, capabilities, method, id string) reply {
	t.Helper()
	return post(t, url, user, capabilities, method, id, fmt.Sprintf(`{"taskId":%q,"inputResponses":{}}`, id))
}

// start calls a tool and returns the id of the task.
func start(t *testing.T, url, capabilities, tool, arguments string) string {
	t.Helper()
	r := post(t, url, "alice", capabilities, "tools/call", tool, fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
	if r.Result.ResultType != "task" || r.Result.TaskID == "" || string(r.Result.TTLMs) != "null" || r.Result.InputRequests != nil {
		t.Fatalf("tools/call of %s returned %+v", tool, r)
	}
	return r.Result.TaskID
}

// await waits until the call of a task has ended.
func await(t *testing.T, url, id string) {
	t.Helper()
	if r := post(t, url, "alice", without, "tools/call", "toold_wait", fmt.Sprintf(`{"name":"toold_wait","arguments":{"call_id":%q}}`, id)); r.Error.Code != 0 {
		t.Fatalf("toold_wait returned %+v", r)
	}
}

// update answers questions of a task: each key gets the content {"n":1}.
func update(t *testing.T, url, id string, keys ...string) {
	t.Helper()
	answers := map[string]any{}
	for _, key := range keys {
		answers[key] = map[string]any{"action": "accept", "content": map[string]int{"n": 1}}
	}
	text, err := json.Marshal(map[string]any{"taskId": id, "inputResponses": answers})
	must(t, err)
	if r := post(t, url, "alice", withForms, "tasks/update", id, string(text)); r.Result.ResultType != "complete" || r.Result.Status != "" {
		t.Fatalf("tasks/update returned %+v", r)
	}
}

// open returns the keys of the open questions of a task.
func open(t *testing.T, url, id string) (keys []string) {
	t.Helper()
	r := task(t, url, "alice", withForms, "tasks/get", id)
	for key, q := range r.Result.InputRequests {
		if !strings.Contains(q.Params.Message, "Both?") {
			t.Errorf("the question is %q", q.Params.Message)
		}
		keys = append(keys, key)
	}
	if (len(keys) > 0) != (r.Result.Status == "input_required") {
		t.Errorf("the status is %s with the questions %v", r.Result.Status, keys)
	}
	slices.Sort(keys)
	return keys
}

const bothSchema = `{"question":"Both?","schema":{"type":"object","required":["a","b"],"properties":{` +
	`"a":{"type":"object","properties":{"n":{"type":"integer"}}},"b":{"type":"object","properties":{"n":{"type":"integer"}}}}}}`

// TestTaskQuestions checks a task that asks two questions at once. The server keeps an answer to one of them only until it restarts. After
// the restart the client gets both questions again, with new keys. The server accepts an answer to the old form, which the client still
// shows. An answer to an earlier question changes nothing.
func TestTaskQuestions(t *testing.T) {
	w := newWorld(t)
	url := w.serve(mcpserver.Config{})
	id := start(t, url, withTasks, "ask_user", bothSchema)
	if r := task(t, url, "alice", withTasks, "tasks/get", id); r.Result.Status != "working" || r.Result.StatusMessage != "Both?" {
		t.Errorf("for a client without forms, the task is %+v", r)
	}
	keys := open(t, url, id)
	if len(keys) != 2 || keys[0] == keys[1] {
		t.Fatalf("the questions are %v, want two", keys)
	}
	update(t, url, id, keys[0], "unknown", "earlier.round.b", keys[1]+"b")
	if left := open(t, url, id); !slices.Equal(left, keys[1:]) {
		t.Errorf("after the first answer, the questions are %v, want %v", left, keys[1:])
	}
	w.stop()
	w.start()
	url = w.serve(mcpserver.Config{})
	again := open(t, url, id)
	if len(again) != 2 || slices.Contains(again, keys[0]) || slices.Contains(again, keys[1]) {
		t.Errorf("after the restart, the questions are %v, want two new keys instead of %v", again, keys)
	}
	update(t, url, id, keys[1])
	if left := open(t, url, id); !slices.Equal(left, again[:1]) {
		t.Errorf("after the answer to an earlier form, the questions are %v, want %v", left, again[:1])
	}
	update(t, url, id, again[0])
	await(t, url, id)
	update(t, url, id, keys...) // These answers have no effect, because the call has ended.
	r := task(t, url, "alice", withTasks, "tasks/get", id)
	if r.Result.Status != "completed" || len(r.Result.Result.Content) != 1 || r.Result.Result.Content[0].Text != `{"a":{"n":1},"b":{"n":1}}` {
		t.Errorf("the task ended as %+v", r)
	}
}

// TestTaskDeclined checks that a closed form is not an answer. When one question is declined, the whole call is declined.
func TestTaskDeclined(t *testing.T) {
	w := newWorld(t)
	url := w.serve(mcpserver.Config{})
	id := start(t, url, withTasks, "ask_user", bothSchema)
	keys := open(t, url, id)
	for _, action := range []string{"cancel", "decline"} {
		post(t, url, "alice", withForms, "tasks/update", id, fmt.Sprintf(`{"taskId":%q,"inputResponses":{%q:{"action":%q}}}`, id, keys[1], action))
		if action == "cancel" && !slices.Equal(open(t, url, id), keys) {
			t.Errorf("after a closed form, the questions are %v, want %v", open(t, url, id), keys)
		}
	}
	await(t, url, id)
	if r := task(t, url, "alice", withTasks, "tasks/get", id); r.Result.Status != "cancelled" || !strings.Contains(r.Result.StatusMessage, "Declined") {
		t.Errorf("the task ended as %+v", r)
	}
	id = start(t, url, withTasks, "ask_user", bothSchema)
	keys = open(t, url, id)
	update(t, url, id, keys[0])
	if r := post(t, url, "alice", withForms, "tasks/update", id, fmt.Sprintf(`{"taskId":%q,"inputResponses":{%q:7}}`, id, keys[1])); r.Error.Code != -32602 {
		t.Errorf("an answer that is a number returned %+v", r)
	}
	if left := open(t, url, id); len(left) != 2 || slices.Contains(left, keys[0]) {
		t.Errorf("after a refused answer, the questions are %v, want two with new keys", left)
	}
}

// TestTaskIsStored checks that a call is in the journal before its client gets the task, even a read-only call, which runs before it is
// stored.
func TestTaskIsStored(t *testing.T) {
	w := newWorld(t)
	url := w.serve(mcpserver.Config{})
	id := start(t, url, withTasks, "look", `{}`)
	<-w.started
	got, err := tooldv1.NewCallServiceClient(w).GetCall(context.WithValue(within(t), userKey{}, "alice"), &tooldv1.GetCallRequest{CallId: id})
	must(t, err)
	if got.GetCall().GetNotStored() || !got.GetCall().GetDetached() {
		t.Errorf("the call of the task is not stored or needs a watcher: %v", got.GetCall())
	}
	task(t, url, "alice", withTasks, "tasks/cancel", id)
	await(t, url, id)
}

// TestTaskRefusals checks refused requests: a request without the extension, a request whose header differs, and a call of a tool that
// requires the extension.
func TestTaskRefusals(t *testing.T) {
	w := newWorld(t)
	url := w.serve(mcpserver.Config{})
	id := start(t, url, withTasks, "job", `{}`)
	<-w.started
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		r := task(t, url, "alice", without, method, id)
		if r.Error.Code != -32021 || r.status != http.StatusBadRequest || !strings.Contains(string(r.Error.Data), `"io.modelcontextprotocol/tasks"`) {
			t.Errorf("%s without the extension returned %+v", method, r)
		}
		if r := post(t, url, "alice", withTasks, method, "another", fmt.Sprintf(`{"taskId":%q}`, id)); r.Error.Code != -32020 || r.status != http.StatusBadRequest {
			t.Errorf("%s with another Mcp-Name returned %+v", method, r)
		}
		if r := post(t, url, "alice", withTasks, method, "", `{}`); r.Error.Code != -32602 {
			t.Errorf("%s without taskId returned %+v", method, r)
		}
	}
	if r := post(t, url, "alice", without, "tools/call", "errand", `{"name":"errand"}`); r.Error.Code != -32021 {
		t.Errorf("a tool that requires the extension returned %+v", r)
	}
	start(t, url, withTasks, "errand", `{}`)
	if r := post(t, url, "alice", withTasks, "tools/call", "echo", `{"name":"echo"}`); r.Result.ResultType != "complete" {
		t.Errorf("a call that ends at once returned %+v", r)
	}
	if r := task(t, url, "alice", withTasks, "tasks/get", id); r.Result.Status != "working" {
		t.Errorf("the task is %+v", r)
	}
	for range 2 {
		if r := task(t, url, "alice", withTasks, "tasks/cancel", id); r.Result.ResultType != "complete" || r.Result.Status != "" {
			t.Errorf("tasks/cancel returned %+v", r)
		}
	}
	await(t, url, id)
	if r := task(t, url, "alice", withTasks, "tasks/get", id); r.Result.Status != "cancelled" || !strings.Contains(r.Result.StatusMessage, "Cancelled") {
		t.Errorf("the cancelled task is %+v", r)
	}
}

// TestT144ForeignTask (T144) requests the task of another principal. The error must be the same as for a task that does not exist, even for
// an operator, who may see and cancel the call through the API. The same holds after a restart.
func TestT144ForeignTask(t *testing.T) {
	w := newWorld(t)
	url := w.serve(mcpserver.Config{})
	id := start(t, url, withTasks, "ask_user", bothSchema)
	check := func() {
		t.Helper()
		keys := open(t, url, id)
		for _, user := range []string{"bob", "oscar", "ada"} {
			for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
				none := task(t, url, user, withForms, method, "00000000-0000-7000-8000-000000000000")
				r := task(t, url, user, withForms, method, id)
				if r.Error.Code != -32602 || r.Error.Message != none.Error.Message || r.status != http.StatusBadRequest {
					t.Errorf("%s by %s returned %+v, and %+v for a task that nobody has", method, user, r, none)
				}
			}
		}
		if left := open(t, url, id); !slices.Equal(left, keys) {
			t.Errorf("the questions were %v and are %v", keys, left)
		}
	}
	check()
	w.stop()
	w.start()
	check()
}

// TestMetadata checks that a client without a token can find out where to get one.
func TestMetadata(t *testing.T) {
	w := newWorld(t)
	issuers := []string{"https://login.example.com"}
	url := w.serve(mcpserver.Config{Issuers: func() []string { return issuers }})
	get := func(path, host string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(within(t), http.MethodGet, url+path, nil)
		must(t, err)
		r.Host = host
		got, err := http.DefaultClient.Do(r)
		must(t, err)
		defer got.Body.Close()
		body, err := io.ReadAll(got.Body)
		must(t, err)
		return got, strings.TrimSpace(string(body))
	}
	const well = "/.well-known/oauth-protected-resource"
	for host, origin := range map[string]string{
		"127.0.0.1:7131": "http://127.0.0.1:7131", "localhost:7131": "http://localhost:7131", "[::1]:7131": "http://[::1]:7131",
		"tools.example.com": "https://tools.example.com",
	} {
		for _, path := range []string{well, well + "/mcp"} {
			want := fmt.Sprintf(`{"resource":%q,"authorization_servers":["https://login.example.com"],"bearer_methods_supported":["header"],"resource_name":"toold"}`, origin+"/mcp")
			if r, body := get(path, host); r.StatusCode != http.StatusOK || body != want {
				t.Errorf("%s of %s returned %d %s, want %s", path, host, r.StatusCode, body, want)
			}
		}
		r, _ := get("/mcp", host)
		if want := `Bearer resource_metadata="` + origin + well + `/mcp"`; r.StatusCode != http.StatusUnauthorized || r.Header.Get("WWW-Authenticate") != want {
			t.Errorf("without a token, %s returned %d with %q, want %q", host, r.StatusCode, r.Header.Get("WWW-Authenticate"), want)
		}
	}
	if r, _ := get(well+"/other", "localhost"); r.StatusCode != http.StatusNotFound {
		t.Errorf("the metadata of another resource returned %d", r.StatusCode)
	}
	issuers = nil
	if r, _ := get(well, "localhost"); r.StatusCode != http.StatusNotFound {
		t.Errorf("without issuers, the metadata returned %d", r.StatusCode)
	}
	if r, _ := get("/mcp", "localhost"); r.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("without issuers, the challenge is %q", r.Header.Get("WWW-Authenticate"))
	}
}
