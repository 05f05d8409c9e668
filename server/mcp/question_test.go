package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	mcpserver "github.com/toold-dev/toold/server/mcp"
)

// answering returns options of a client that gives these answers to elicitations, in this order. The list receives the messages of the
// elicitations.
func answering(answers ...*mcp.ElicitResult) (*mcp.ClientOptions, *[]string) {
	var asked []string
	return &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		asked = append(asked, r.Params.Message)
		if len(answers) < len(asked) {
			return &mcp.ElicitResult{Action: "cancel"}, nil
		}
		return answers[len(asked)-1], nil
	}}, &asked
}

func accept(content map[string]any) *mcp.ElicitResult {
	return &mcp.ElicitResult{Action: "accept", Content: content}
}

// asking returns options of a client that can show forms. The client returns each question to the test instead of answering it.
func asking() *mcp.ClientOptions {
	opts, _ := answering()
	opts.MultiRoundTrip = &mcp.MultiRoundTripOptions{Disabled: true}
	return opts
}

// TestQuestions checks that a client gets each question of a call, and that the daemon checks the answers. Protocols with sessions use
// elicitations; the newest protocol uses results of type input_required.
func TestQuestions(t *testing.T) {
	w := newWorld(t)
	url := w.serve(mcpserver.Config{})
	for _, version := range []string{"2025-06-18", legacy, ""} {
		opts, asked := answering(accept(map[string]any{"answer": "bob"}), accept(map[string]any{"answer": "Bob"}), accept(map[string]any{"seats": 2, "class": "first"}))
		r := call(t, connect(t, url, "alice", version, opts), "book", nil)
		if got := textOf(r); got != `"Bob" {"class":"first","seats":2}` {
			t.Errorf("version %q: the result is %q", version, got)
		}
		if len(*asked) != 3 || (*asked)[0] != `Your name?\u{202e}` || !strings.HasPrefix((*asked)[1], "The last answer was refused: decision.result") || (*asked)[2] != "Details?" {
			t.Errorf("version %q: the questions were %q", version, *asked)
		}
	}
	if n := w.booked.Load(); n != 3 {
		t.Errorf("the tool finished %d times", n)
	}
}

// TestNoAnswer checks three cases without an accepted answer: the person declines, the person closes the form, or the client cannot show
// forms.
func TestNoAnswer(t *testing.T) {
	w := newWorld(t)
	url := w.serve(mcpserver.Config{})
	for _, version := range []string{legacy, ""} {
		declining, _ := answering(&mcp.ElicitResult{Action: "decline"})
		if r := call(t, connect(t, url, "alice", version, declining), "book", nil); !r.IsError || !strings.Contains(textOf(r), "Declined: the person declined in the MCP client") {
			t.Errorf("version %q: after a no, the result is %q", version, textOf(r))
		}
		r := call(t, connect(t, url, "alice", version, nil), "book", nil)
		if got := textOf(r); r.IsError || !strings.Contains(got, "waits for the answer to a question") || !strings.Contains(got, r.Meta["toold/callId"].(string)) {
			t.Errorf("version %q: a client without forms got %q", version, got)
		}
	}
	closing, _ := answering()
	if r := call(t, connect(t, url, "alice", legacy, closing), "book", nil); !strings.Contains(textOf(r), "waits for the answer to a question") {
		t.Errorf("a client whose user closed the form got %q", textOf(r))
	}
}

// TestQuestionAfterApproval checks that toold_wait asks the questions of a call that it waits for.
func TestQuestionAfterApproval(t *testing.T) {
	w := newWorld(t)
	url := w.serve(mcpserver.Config{})
	for _, version := range []string{legacy, ""} {
		opts, asked := answering(accept(map[string]any{"answer": "Bob"}), accept(map[string]any{"seats": 1}))
		c := connect(t, url, "alice", version, opts)
		id := call(t, c, "visit", nil).Meta["toold/callId"].(string)
		approved := make(chan struct{})
		go func() {
			defer close(approved)
			w.approve("ann", id)
		}()
		if r := call(t, c, "toold_wait", map[string]any{"call_id": id}); textOf(r) != `"Bob" {"seats":1}` || len(*asked) != 2 {
			t.Errorf("version %q: asked %q, the result is %q", version, *asked, textOf(r))
		}
		<-approved
	}
}

// TestAnsweredElsewhere answers a question through the API while the client shows it. The server cancels the client's request, so that the client
// closes the form, and then asks the next question of the call.
func TestAnsweredElsewhere(t *testing.T) {
	w := newWorld(t)
	url := w.serve(mcpserver.Config{})
	asked, closed := make(chan struct{}), make(chan struct{})
	first := true
	c := connect(t, url, "alice", legacy, &mcp.ClientOptions{ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		if !first {
			return accept(map[string]any{"seats": 3}), nil
		}
		first = false
		close(asked)
		<-ctx.Done()
		close(closed)
		return nil, ctx.Err()
	}})
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		<-asked
		w.decide("alice", "the-call-of-the-test", `"Eve"`)
	}()
	r, err := c.CallTool(within(t), &mcp.CallToolParams{Meta: mcp.Meta{"toold/callId": "the-call-of-the-test"}, Name: "book"})
	must(t, err)
	<-answered
	<-closed // The client may close the form after the call has ended, so wait for it.
	if got := textOf(r); got != `"Eve" {"seats":3}` {
		t.Errorf("the result is %q", got)
	}
}

// TestClose closes the server while it waits for an answer. The request ends, and its call continues to wait.
func TestClose(t *testing.T) {
	w := newWorld(t)
	url := w.serve(mcpserver.Config{})
	asked, answered := make(chan struct{}), make(chan struct{})
	defer close(answered)
	c := connect(t, url, "alice", legacy, &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		close(asked)
		<-answered
		return &mcp.ElicitResult{Action: "cancel"}, nil
	}})
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	go c.CallTool(ctx, &mcp.CallToolParams{Meta: mcp.Meta{"toold/callId": "the-call-of-the-test"}, Name: "book"}) // The request ends when the server closes.
	<-asked
	w.last.Close()
	got, err := tooldv1.NewCallServiceClient(w).GetCall(as(within(t), "alice"), &tooldv1.GetCallRequest{CallId: "the-call-of-the-test"})
	must(t, err)
	if got.GetCall().GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUSPENDED {
		t.Errorf("the call is %v", got.GetCall().GetStatus())
	}
}

// TestRetryRunsOnce sends the answer to a question twice. The call resumes only once, and both requests get the same next question.
func TestRetryRunsOnce(t *testing.T) {
	w := newWorld(t)
	c := connect(t, w.serve(mcpserver.Config{}), "alice", "", asking())
	first := call(t, c, "book", nil)
	name := retry(first, "book", map[string]any{"answer": "Bob"})
	var second [2]*mcp.CallToolResult
	for i := range second {
		var err error
		second[i], err = c.CallTool(within(t), name)
		must(t, err)
	}
	if second[0].RequestState == first.RequestState || second[0].RequestState != second[1].RequestState {
		t.Errorf("the states are %q, %q and %q", first.RequestState, second[0].RequestState, second[1].RequestState)
	}
	for range 2 {
		r, err := c.CallTool(within(t), retry(second[0], "book", map[string]any{"seats": 1}))
		must(t, err)
		if textOf(r) != `"Bob" {"seats":1}` || r.Meta["toold/callId"] != first.Meta["toold/callId"] {
			t.Errorf("the result is %q of %v", textOf(r), r.Meta)
		}
	}
	if n := w.booked.Load(); n != 1 {
		t.Errorf("the tool finished %d times", n)
	}
}

// retry returns the request that answers the question of a result.
func retry(r *mcp.CallToolResult, name string, content map[string]any) *mcp.CallToolParams {
	p := &mcp.CallToolParams{Name: name, RequestState: r.RequestState, InputResponses: mcp.InputResponseMap{}}
	for key := range r.InputRequests {
		p.InputResponses[key] = accept(content)
	}
	return p
}

// TestT144ForeignState sends changed requestStates, and requestStates of another principal, tool or arguments, also after a restart of the
// daemon. The server refuses all of them, and the question of the call stays open.
func TestT144ForeignState(t *testing.T) {
	w := newWorld(t)
	url := w.serve(mcpserver.Config{})
	first := call(t, connect(t, url, "alice", "", asking()), "book", map[string]any{"trip": 1})
	good := retry(first, "book", map[string]any{"answer": "Bob"})
	good.Arguments = map[string]any{"trip": 1}
	id, suspension, _ := strings.Cut(first.RequestState, ".")
	for _, restarted := range []bool{false, true} {
		if restarted {
			w.stop()
			w.start()
			url = w.serve(mcpserver.Config{})
		}
		for name, change := range map[string]func(p *mcp.CallToolParams) (user string){
			"another caller":   func(*mcp.CallToolParams) string { return "bob" },
			"an operator":      func(*mcp.CallToolParams) string { return "oscar" },
			"other arguments":  func(p *mcp.CallToolParams) string { p.Arguments = map[string]any{"trip": 2}; return "alice" },
			"another tool":     func(p *mcp.CallToolParams) string { p.Name = "echo"; return "alice" },
			"another question": func(p *mcp.CallToolParams) string { p.RequestState = id + "." + id; return "alice" },
			"another call":     func(p *mcp.CallToolParams) string { p.RequestState = suspension + "." + suspension; return "alice" },
			"changed":          func(p *mcp.CallToolParams) string { p.RequestState += "x"; return "alice" },
			"without parts":    func(p *mcp.CallToolParams) string { p.RequestState = "x"; return "alice" },
			"toold_wait of an operator": func(p *mcp.CallToolParams) string {
				p.Name, p.Arguments = "toold_wait", map[string]any{"call_id": id}
				return "oscar"
			},
			"toold_wait of bob": func(p *mcp.CallToolParams) string {
				p.Name, p.Arguments = "toold_wait", map[string]any{"call_id": id}
				return "bob"
			},
		} {
			p := *good
			user := change(&p)
			refusal := "requestState is not the one"
			if p.Name == "toold_wait" {
				refusal = "there is no call with this id"
			}
			if r, err := connect(t, url, user, "", asking()).CallTool(within(t), &p); err == nil || !strings.Contains(err.Error(), refusal) {
				t.Errorf("%s (restarted %t): %v, %v", name, restarted, r, err)
			}
		}
	}
	r, err := connect(t, url, "alice", "", asking()).CallTool(within(t), good)
	if err != nil || len(r.InputRequests) != 1 || r.RequestState == first.RequestState {
		t.Errorf("the good request after the restart returned %v, %v", r, err)
	}
}

// TestT131OwnApproval checks which clients get the approval of their own call. By default no client gets it. With the setting, a client
// gets it only if the caller alone may answer it.
func TestT131OwnApproval(t *testing.T) {
	w := newWorld(t)
	off, on := w.serve(mcpserver.Config{}), w.serve(mcpserver.Config{Approvals: func() bool { return true }})
	for _, tt := range []struct {
		url, user, tool string
		offered         bool
	}{
		{off, "ada", "deploy", false}, // By default no client gets the approval.
		{on, "ada", "deploy", true},
		{on, "alice", "deploy", false},  // alice is no approver
		{on, "ada", "launch", false},    // the rule needs another person
		{on, "ada", "transfer", false},  // the rule needs two people
		{off, "ada", "launch", false},   // By default no client gets the approval.
		{off, "alice", "deploy", false}, // By default no client gets the approval.
	} {
		for _, version := range []string{legacy, ""} {
			opts, asked := answering(accept(nil))
			r := call(t, connect(t, tt.url, tt.user, version, opts), tt.tool, map[string]any{"x": 1})
			if tt.offered && (textOf(r) != "done" || len(*asked) != 1 || !strings.Contains((*asked)[0], "Tool: deploy\nArguments: {\"x\":1}")) {
				t.Errorf("%s of %s, version %q: asked %q, result %q", tt.tool, tt.user, version, *asked, textOf(r))
			}
			if !tt.offered && (len(*asked) > 0 || !strings.Contains(textOf(r), "waits for the approval")) {
				t.Errorf("%s of %s, version %q: asked %q, result %q", tt.tool, tt.user, version, *asked, textOf(r))
			}
		}
	}
	// An operator waits for a call of ada, who may approve it. The operator does not get the approval.
	ours := call(t, connect(t, off, "ada", legacy, nil), "deploy", nil).Meta["toold/callId"]
	opts, asked := answering(accept(nil))
	if r, err := connect(t, on, "oscar", legacy, opts).CallTool(within(t), &mcp.CallToolParams{Name: "toold_wait", Arguments: map[string]any{"call_id": ours}}); err == nil || len(*asked) > 0 {
		t.Errorf("toold_wait of an operator asked %q and returned %v", *asked, r)
	}
	// This client got no question, and sends an answer anyway.
	c := connect(t, off, "ada", "", asking())
	id := call(t, c, "deploy", nil).Meta["toold/callId"].(string)
	got, err := tooldv1.NewCallServiceClient(w).GetCall(as(within(t), "ada"), &tooldv1.GetCallRequest{CallId: id})
	must(t, err)
	suspension := got.GetCall().GetSuspension().GetSuspensionId()
	r, err := c.CallTool(within(t), &mcp.CallToolParams{Name: "deploy", RequestState: id + "." + suspension, InputResponses: mcp.InputResponseMap{"answer": accept(nil)}})
	if err != nil || !strings.Contains(textOf(r), "waits for the approval") {
		t.Errorf("an answer that nobody asked for returned %v, %v", r, err)
	}
}

// TestForms checks the form for each kind of schema, and the result for each answer.
func TestForms(t *testing.T) {
	w := newWorld(t)
	url := w.serve(mcpserver.Config{})
	c := connect(t, url, "alice", "", asking())
	for _, tt := range []struct {
		arguments, schema string
		content           map[string]any
		result            string
	}{
		{`{"question":"?"}`, `{"answer":{"minLength":1,"type":"string"}} [answer]`, map[string]any{"answer": "42"}, `"42"`},
		{`{"question":"?","options":["a","b"]}`, `{"answer":{"enum":["a","b"],"type":"string"}} [answer]`, map[string]any{"answer": "b"}, `"b"`},
		{`{"question":"?","options":["a","b"],"multiple":true}`, `{"answer":{"items":{"enum":["a","b"],"type":"string"},"minItems":1,"type":"array"}} [answer]`, map[string]any{"answer": []any{"b"}}, `["b"]`},
		{`{"question":"?","schema":{"type":"integer","minimum":3}}`, `{"answer":{"minimum":3,"type":"integer"}} [answer]`, map[string]any{"answer": 7}, `7`},
		{`{"question":"?","schema":{"type":"object","properties":{"yes":{"type":"boolean","title":"Yes"}}}}`, `{"yes":{"title":"Yes","type":"boolean"}} []`, map[string]any{"yes": true}, `{"yes":true}`},
		{`{"question":"?","schema":{"type":"object","properties":{"at":{"type":"object","properties":{"x":{"type":"integer"}}}}}}`, `{"x":{"type":"integer"}}`, map[string]any{"x": 1}, `{"at":{"x":1}}`},
		{`{"question":"?","schema":{"type":"object","properties":{"n":{"type":"integer"},"at":{"type":"object","properties":{"x":{"type":"integer"}}}}}}`, `JSON text`, map[string]any{"answer": `{"at":{"x":1}}`}, `{"at":{"x":1}}`},
		{`{"question":"?","schema":{"type":"array","items":{"type":"integer"}}}`, `JSON text`, map[string]any{"answer": `[1, 20000000000000000001]`}, `[1, 20000000000000000001]`},
	} {
		r, err := c.CallTool(within(t), &mcp.CallToolParams{Name: "ask_user", Arguments: json.RawMessage(tt.arguments)})
		must(t, err)
		shown := "nothing"
		for _, q := range r.InputRequests {
			schema := q.(*mcp.ElicitParams).RequestedSchema.(map[string]any)
			properties, _ := json.Marshal(schema["properties"])
			shown = fmt.Sprint(string(properties), " ", slices.Concat([]any{}, anyList(schema["required"])))
		}
		if !strings.Contains(shown, tt.schema) {
			t.Errorf("%s: the form is %s, want %s", tt.arguments, shown, tt.schema)
		}
		p := retry(r, "ask_user", tt.content)
		p.Arguments = json.RawMessage(tt.arguments)
		r, err = c.CallTool(within(t), p)
		if err != nil || textOf(r) != tt.result {
			t.Errorf("%s: the answer %v gave %q, %v; want %s", tt.arguments, tt.content, textOf(r), err, tt.result)
		}
	}
}

func anyList(v any) []any {
	list, _ := v.([]any)
	return list
}
