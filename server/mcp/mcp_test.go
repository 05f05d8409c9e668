package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	mcpserver "github.com/toold-dev/toold/server/mcp"
)

// versions are the protocol versions that clients of the tests use. The empty text means the newest version.
var versions = []string{"2024-11-05", "2025-03-26", "2025-06-18", legacy, ""}

// TestCall lists tools and calls some, in each protocol version.
func TestCall(t *testing.T) {
	w := newWorld(t)
	url := w.serve(mcpserver.Config{})
	for _, version := range versions {
		t.Run("version "+version, func(t *testing.T) {
			steps := make(chan string, 10)
			c := connect(t, url, "alice", version, &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
				steps <- fmt.Sprint(r.Params.Message, " ", r.Params.Progress, "/", r.Params.Total)
			}})
			names := toolNames(t, c)
			for _, name := range []string{"echo", "read", "toold_wait"} {
				if !slices.Contains(names, name) {
					t.Errorf("%s is not among %v", name, names)
				}
			}
			if slices.Contains(names, "secret") {
				t.Error("a tool that is denied to the principal is in the list")
			}
			r := call(t, c, "echo", map[string]any{"n": 1})
			if got, _ := json.Marshal(r.StructuredContent); string(got) != `{"n":1}` || textOf(r) != `{"n":1}` || r.IsError || r.Meta["toold/callId"] == "" {
				t.Errorf("echo returned %s and %q, %v", got, textOf(r), r.Meta)
			}
			if r := call(t, c, "fail", nil); !r.IsError || textOf(r) != "the printer is on fire" {
				t.Errorf("fail returned %v %q", r.IsError, textOf(r))
			}
			p := &mcp.CallToolParams{Name: "steps"}
			p.SetProgressToken("t")
			if r, err := c.CallTool(within(t), p); err != nil || textOf(r) != "done" {
				t.Errorf("steps returned %v, %v", r, err)
			}
			for i := range 3 {
				if got, want := <-steps, fmt.Sprintf("step %[1]d %[1]d/3", i+1); got != want {
					t.Errorf("progress was %q, want %q", got, want)
				}
			}
			for _, name := range []string{"secret", "nonsense"} {
				if _, err := c.CallTool(within(t), &mcp.CallToolParams{Name: name}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("unknown tool %q", name)) {
					t.Errorf("a call of %s returned %v", name, err)
				}
			}
		})
	}
}

func toolNames(t *testing.T, c *mcp.ClientSession) (names []string) {
	t.Helper()
	for is, err := range c.Tools(within(t), nil) {
		must(t, err)
		names = append(names, is.Name)
	}
	return names
}

func call(t *testing.T, c *mcp.ClientSession, name string, arguments any) *mcp.CallToolResult {
	t.Helper()
	r, err := c.CallTool(within(t), &mcp.CallToolParams{Name: name, Arguments: arguments})
	must(t, err)
	return r
}

// TestContent checks the kinds of content, including media that are stored as artifacts.
func TestContent(t *testing.T) {
	w := newWorld(t)
	r := call(t, connect(t, w.serve(mcpserver.Config{}), "alice", "", nil), "mixed", nil)
	var got []string
	for _, c := range r.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			got = append(got, "text "+c.Text)
		case *mcp.ImageContent:
			got = append(got, fmt.Sprintf("image %s %d", c.MIMEType, len(c.Data)))
		case *mcp.AudioContent:
			got = append(got, fmt.Sprintf("audio %s %d", c.MIMEType, len(c.Data)))
		case *mcp.ResourceLink:
			got = append(got, strings.ReplaceAll(fmt.Sprintf("link %s %s %s", c.URI, c.Name, c.MIMEType), r.Meta["toold/callId"].(string), "ID"))
		case *mcp.EmbeddedResource:
			got = append(got, strings.ReplaceAll(fmt.Sprintf("resource %s %s %s%s", c.Resource.URI, c.Resource.MIMEType, c.Resource.Text, c.Resource.Blob), r.Meta["toold/callId"].(string), "ID"))
		}
	}
	want := []string{
		"text all of it", "text more", "image image/gif 3", "image image/png 307200",
		"link artifact://ID/huge%20file huge file audio/wav", // too large for a result
		"resource file:///a.pdf application/pdf %PDF", "resource artifact://ID/a.txt text/plain plain",
		"text -a\n+b", "link https://example.com/x x text/html",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the content is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestLargeData checks that a client gets complete structured content, although the result in the journal has only the first and the last
// part of the data.
func TestLargeData(t *testing.T) {
	w := newWorld(t)
	url := w.serve(mcpserver.Config{})
	long := strings.Repeat("x", 100_000)
	r := call(t, connect(t, url, "alice", "", nil), "echo", map[string]any{"long": long})
	if got, _ := r.StructuredContent.(map[string]any); got["long"] != long || !strings.Contains(textOf(r), "artifact://") {
		t.Errorf("the structured content has %d members, and the text is %.200s", len(got), textOf(r))
	}
}

// TestCallID checks that a client can choose the id of a call, and that a second request with this id gets the same call.
func TestCallID(t *testing.T) {
	w := newWorld(t)
	url := w.serve(mcpserver.Config{})
	c := connect(t, url, "alice", "", nil)
	p := &mcp.CallToolParams{Meta: mcp.Meta{"toold/callId": "chosen-by-the-client", "toold/threadId": "t"}, Name: "deploy"}
	for range 2 {
		r, err := c.CallTool(within(t), p)
		must(t, err)
		if r.Meta["toold/callId"] != "chosen-by-the-client" || !strings.Contains(textOf(r), "waits for the approval") {
			t.Errorf("the result is %v %q", r.Meta, textOf(r))
		}
	}
	p.Meta = mcp.Meta{"toold/callId": 1}
	if _, err := c.CallTool(within(t), p); err == nil || !strings.Contains(err.Error(), "not a string") {
		t.Errorf("a call id that is a number returned %v", err)
	}
}

// discard is a connection to a client that does not read.
type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) Close() error                { return nil }

func as(ctx context.Context, user string) context.Context {
	return context.WithValue(ctx, userKey{}, user)
}

// ended waits until a call has ended, and returns it.
func (w *world) ended(user, id string) *tooldv1.Call {
	w.t.Helper()
	calls := tooldv1.NewCallServiceClient(w)
	ctx := as(within(w.t), user)
	for {
		got, err := calls.GetCall(ctx, &tooldv1.GetCallRequest{CallId: id})
		must(w.t, err)
		if got.GetCall().GetResult() != nil {
			return got.GetCall()
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestSessions checks that a session belongs to its principal, and that a request without a valid credential is refused.
func TestSessions(t *testing.T) {
	w := newWorld(t)
	url := w.serve(mcpserver.Config{})
	c := connect(t, url, "alice", legacy, nil)
	if got := w.request("POST", url, "bob", c.ID(), legacy); got != 403 {
		t.Errorf("another principal's request in the session got the status %d", got)
	}
	if got := w.request("POST", url, "alice", c.ID(), legacy); got != 200 {
		t.Errorf("a request of the principal got the status %d", got)
	}
	for _, version := range []string{legacy, "2026-07-28"} {
		if got := w.request("POST", url, "nobody", "", version); got != 401 {
			t.Errorf("version %s: a request without a valid credential got the status %d", version, got)
		}
	}
}

// initialize begins a session.
const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`

// TestT59ExpiredCredential (T59) begins a session with a credential that later expires. The stream for notifications ends. The session
// continues when the principal sends a new credential.
func TestT59ExpiredCredential(t *testing.T) {
	w := newWorld(t)
	url := w.serve(mcpserver.Config{})
	const before = "alice" + oldCredential
	session := w.open("POST", url, before, "", legacy, initialize).Header.Get("Mcp-Session-Id")
	w.send("POST", url, before, session, legacy, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	stream := w.open("GET", url, before, session, legacy, "")
	if stream.StatusCode != http.StatusOK {
		t.Fatalf("the stream got the status %d", stream.StatusCode)
	}
	w.expire()
	if _, err := io.Copy(io.Discard, stream.Body); err != nil {
		t.Errorf("the stream ended with %v", err)
	}
	for user, want := range map[string]int{before: 401, "alice": 200, "bob": 403} {
		if got := w.request("POST", url, user, session, legacy); got != want {
			t.Errorf("a request of %s got the status %d, want %d", user, got, want)
		}
	}
}

// TestLargeBatch checks that the server refuses a request with too many messages, and serves a request with a few.
func TestLargeBatch(t *testing.T) {
	w := newWorld(t)
	url := w.serve(mcpserver.Config{})
	const version = "2025-03-26"
	session := w.open("POST", url, "alice", "", version, strings.Replace(initialize, legacy, version, 1)).Header.Get("Mcp-Session-Id")
	for n, want := range map[int]int{2: 200, 101: 413} {
		var pings []string
		for id := range n {
			pings = append(pings, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, id+2))
		}
		batch := " [" + strings.Join(pings, ",") + "]"
		if got := w.send("POST", url, "alice", session, version, batch); got != want {
			t.Errorf("a request with %d messages got the status %d, want %d", n, got, want)
		}
	}
}

// TestTooManySessions checks that one principal with the maximum number of sessions does not prevent sessions of others.
func TestTooManySessions(t *testing.T) {
	w := newWorld(t)
	url := w.serve(mcpserver.Config{})
	begin := func(user string) int {
		return w.send("POST", url, user, "", legacy, initialize)
	}
	for range 100 {
		if got := begin("alice"); got != 200 {
			t.Fatalf("the status is %d", got)
		}
	}
	if alice, bob := begin("alice"), begin("bob"); alice != 503 || bob != 200 {
		t.Errorf("after 100 sessions, the next one gets %d, and that of another principal %d", alice, bob)
	}
}

// TestListChanged checks that a client is notified when its principal's list of tools changes.
func TestListChanged(t *testing.T) {
	w := newWorld(t)
	url := w.serve(mcpserver.Config{})
	admin := tooldv1.NewAdminServiceClient(w)
	for _, version := range []string{legacy, ""} {
		changed := make(chan struct{}, 100)
		connect(t, url, "alice", version, &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} }})
		ctx := within(t)
		for n := 0; len(changed) == 0; n++ { // The first changes may come before the server begins to watch.
			must(t, ctx.Err())
			w.write([]string{strings.ReplaceAll(rules, "[secret]", "[launch]"), rules}[n%2])
			_, err := admin.Reload(as(ctx, "root"), &tooldv1.ReloadRequest{})
			must(t, err)
			select {
			case <-changed:
				changed <- struct{}{}
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
}

// TestWait checks toold_wait: a call that waits for an approver says so, and toold_wait returns its result after the approval.
func TestWait(t *testing.T) {
	w := newWorld(t)
	url := w.serve(mcpserver.Config{})
	for _, version := range []string{legacy, ""} {
		c := connect(t, url, "alice", version, nil)
		id := call(t, c, "launch", nil).Meta["toold/callId"].(string)
		if version == "" { // Test this in one version only, because it takes a second.
			if r := call(t, c, "toold_wait", map[string]any{"call_id": id, "seconds": 1}); !strings.Contains(textOf(r), "The call id is "+id) || r.IsError {
				t.Errorf("before the approval, toold_wait returned %q", textOf(r))
			}
		}
		w.approve("ann", id)
		if r := call(t, c, "toold_wait", map[string]any{"call_id": id}); textOf(r) != "done" || r.IsError {
			t.Errorf("after the approval, toold_wait returned %q", textOf(r))
		}
		for _, arguments := range []string{`{}`, `{"call_id":7}`, `{"call_id":"x","seconds":0}`, `{"call_id":"x","seconds":601}`, `{"call_id":"unknown-unknown-unknown"}`} {
			if _, err := c.CallTool(within(t), &mcp.CallToolParams{Name: "toold_wait", Arguments: json.RawMessage(arguments)}); err == nil {
				t.Errorf("toold_wait accepted %s", arguments)
			}
		}
		if _, err := connect(t, url, "bob", version, nil).CallTool(within(t), &mcp.CallToolParams{Name: "toold_wait", Arguments: map[string]any{"call_id": id}}); err == nil {
			t.Error("toold_wait returned a call of another principal")
		}
	}
}

func (w *world) approve(user, id string) { w.decide(user, id, "") }

// decide answers the open question of a call.
func (w *world) decide(user, id, result string) {
	w.t.Helper()
	calls := tooldv1.NewCallServiceClient(w)
	ctx := as(within(w.t), user)
	got, err := calls.GetCall(ctx, &tooldv1.GetCallRequest{CallId: id})
	must(w.t, err)
	q := got.GetCall().GetSuspension()
	stream, err := calls.ResumeTool(ctx, &tooldv1.ResumeToolRequest{SuspensionId: q.GetSuspensionId(), Decision: &tooldv1.Decision{
		DecisionId: user + q.GetDigest()[:32], Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, ExpectedDigest: q.GetDigest(), Result: result,
	}})
	must(w.t, err)
	for err == nil {
		_, err = stream.Recv()
	}
	if !errors.Is(err, io.EOF) {
		w.t.Fatal(err)
	}
}

// TestCancel checks that a cancelled request also cancels its call. A lost connection does not cancel the call.
func TestCancel(t *testing.T) {
	w := newWorld(t)
	url := w.serve(mcpserver.Config{})
	for _, version := range []string{legacy, ""} {
		c := connect(t, url, "alice", version, nil)
		ctx, cancel := context.WithCancel(within(t))
		ended := make(chan error, 1)
		go func() {
			_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "hold"})
			ended <- err
		}()
		id := <-w.started
		cancel()
		if err := <-ended; err == nil {
			t.Error("a cancelled request returned no error")
		}
		if got := w.ended("alice", id); got.GetStatus() != tooldv1.CallStatus_CALL_STATUS_CANCELLED || got.GetCancelRequest().GetCause() != "CLIENT" {
			t.Errorf("version %q: the call is %v, %v", version, got.GetStatus(), got.GetCancelRequest())
		}
	}
	in, send := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- mcpserver.New(mcpserver.Config{Conn: w}).Run(as(context.Background(), "alice"), &mcp.IOTransport{Reader: in, Writer: discard{}})
	}()
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hold"}}`,
	} {
		_, err := io.WriteString(send, line+"\n")
		must(t, err)
	}
	id := <-w.started
	send.Close()
	<-ended
	calls := tooldv1.NewCallServiceClient(w)
	got, err := calls.GetCall(as(within(t), "alice"), &tooldv1.GetCallRequest{CallId: id})
	must(t, err)
	if got.GetCall().GetStatus() != tooldv1.CallStatus_CALL_STATUS_RUNNING || got.GetCall().GetCancelRequest() != nil {
		t.Errorf("after the end of the connection, the call is %v, %v", got.GetCall().GetStatus(), got.GetCall().GetCancelRequest())
	}
	_, err = calls.CancelCall(as(within(t), "alice"), &tooldv1.CancelCallRequest{CallId: id})
	must(t, err)
}
