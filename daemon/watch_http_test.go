package daemon

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// A sse is one server-sent event.
type sse struct{ id, name, data string }

// events opens a watch and returns a function that reads the next event. At the end of the stream it returns the zero event.
func (b *browser) events(query string, header ...string) (resp *http.Response, next func() sse) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(within(b.t))
	b.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.base+"/v1/watch?"+query, nil)
	must(b.t, err)
	req.Header.Set("Authorization", "Bearer "+b.token)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err = http.DefaultClient.Do(req)
	must(b.t, err)
	b.t.Cleanup(func() { resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 4<<20)
	return resp, func() (e sse) {
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "id":
				e.id = value
			case "event":
				e.name = value
			case "data":
				e.data = value
			case "":
				if e != (sse{}) {
					return e
				}
			}
		}
		return sse{}
	}
}

// call runs a call and returns its record in the readable form.
func (b *browser) call(spec string) string {
	b.t.Helper()
	status, text := b.do("POST", tooldv1.CallService_CallTool_FullMethodName+"?form=readable", b.token, `{"spec":`+spec+`}`)
	if status != http.StatusOK {
		b.t.Fatalf("%d %s", status, text)
	}
	return text
}

// TestHTTPForms checks the two JSON forms in requests, responses, streams and events.
func TestHTTPForms(t *testing.T) {
	b := browserOf(t, newSite(t, "").start("--listen-http", "127.0.0.1:0"))
	defer http.DefaultClient.CloseIdleConnections()
	const big = `{"pattern":"x{12345678901234567890}","path":"."}`
	text := b.call(`{"call_id":"call-of-the-forms-1","tool":"grep","run":{"runId":"forms"},"arguments":` + big + `}`)
	if !strings.Contains(text, `"requestedArguments":`+big) {
		t.Errorf("the readable record is %s", text)
	}
	for query, want := range map[string]string{"": `"requestedArguments":"{\"pattern\"`, "&form=readable": `"requestedArguments":{"pattern"`} {
		_, next := b.events("call=call-of-the-forms-1" + query)
		if e := next(); e.name != "snapshot" || !strings.Contains(strings.ReplaceAll(e.data, `": `, `":`), want) {
			t.Errorf("%q: the first event is %+v, want %s", query, e, want)
		}
	}
	if status, text := b.do("POST", tooldv1.CallService_GetCall_FullMethodName+"?form=xml", b.token, `{}`); status != 400 || !strings.Contains(text, "want readable") {
		t.Errorf("an unknown form: %d %s", status, text)
	}
	if status, text := b.do("POST", tooldv1.CallService_CallTool_FullMethodName, b.token, `{"spec":{"tool":{}}}`); status != 400 || !strings.Contains(text, "string field tool") {
		t.Errorf("an object in a field of text: %d %s", status, text)
	}
}

// TestWatchHTTPRefusals checks the errors before the first event.
func TestWatchHTTPRefusals(t *testing.T) {
	b := browserOf(t, newSite(t, "").start("--listen-http", "127.0.0.1:0"))
	defer http.DefaultClient.CloseIdleConnections()
	tests := []struct {
		name, query, token string
		status             int
		want               string
	}{
		{"nothing selected", "cursor=c1.1.1", b.token, 400, "inbox=1"},
		{"two selected", "run=a&call=b", b.token, 400, "only one"},
		{"empty", "run=", b.token, 400, "one value"},
		{"twice", "run=a&run=b", b.token, 400, "one value"},
		{"unknown parameter", "run=a&follow=1", b.token, 400, "follow: unknown"},
		{"inbox", "inbox=yes", b.token, 400, "inbox=1"},
		{"after", "call=a&after=x", b.token, 400, "want the sequence"},
		{"after in a run", "run=a&after=0", b.token, 400, "with call= only"},
		{"form", "run=a&form=x", b.token, 400, "want readable"},
		{"cursor", "run=a&cursor=x", b.token, 400, "is not a cursor"},
		{"unknown call", "call=call-unknown-00001", b.token, 404, "CALL_NOT_FOUND"},
		{"unknown turn", "turn=turn-unknown-00001", b.token, 404, "TURN_NOT_FOUND"},
		{"no token", "run=a", "", 401, "TOKEN_REQUIRED"},
		{"no token for the inbox", "inbox=1", "", 401, "TOKEN_REQUIRED"},
		{"end", "call=call-unknown-00001&cursor=end", b.token, 204, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if status, text := b.do("GET", "/v1/watch?"+tt.query, tt.token, ""); status != tt.status || !strings.Contains(text, tt.want) {
				t.Errorf("%d %s, want %d with %s", status, text, tt.status, tt.want)
			}
		})
	}
}

// TestWatchHTTPEnds checks that a watch of a finished call stops an EventSource, and that a client can continue after any of its events.
func TestWatchHTTPEnds(t *testing.T) {
	b := browserOf(t, newSite(t, "rules: [{name: all, action: allow, tools: ['*'], tiers: [OBSERVE, CONFIRM]}]").start("--listen-http", "127.0.0.1:0"))
	defer http.DefaultClient.CloseIdleConnections()
	b.call(`{"call_id":"call-that-ends-0001","tool":"write","run":{"runId":"ends"},"arguments":{"path":"a","content":"b"}}`)
	resp, next := b.events("call=call-that-ends-0001&cursor=c1.1.1")
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("the type is %q", got)
	}
	var all []sse
	for e := next(); e != (sse{}); e = next() {
		all = append(all, e)
	}
	if len(all) == 0 || all[len(all)-1] != (sse{"end", "end", "{}"}) {
		t.Fatalf("the events are %+v", all)
	}
	if !strings.Contains(all[0].data, `"finished"`) {
		t.Errorf("the outcome is missing: %+v", all)
	}
	_, next = b.events("call=call-that-ends-0001&after=0")
	if first := next(); first.name != "events" || !strings.Contains(first.data, `"accepted"`) {
		t.Errorf("after=0 begins with %+v", first)
	}
	for i, from := range all {
		resp, next := b.events("call=call-that-ends-0001&cursor=c1.1.1&after=0", "Last-Event-ID", from.id)
		if want := map[bool]int{true: 204, false: 200}[from.name == "end"]; resp.StatusCode != want {
			t.Errorf("after %+v: status %d", from, resp.StatusCode)
		}
		for e := next(); e != (sse{}); e = next() {
			if e.name == "events" && e.id <= from.id {
				t.Errorf("after %+v, %+v came again", all[i], e)
			}
		}
	}
}

// TestWatchHTTPInbox checks both ways to follow the questions that wait: a viewer watches the namespace, and a principal that is only an
// approver polls.
func TestWatchHTTPInbox(t *testing.T) {
	s := newSite(t, "rules: [{name: ask, action: ask, tools: ['*']}]")
	config := filepath.Join(filepath.Dir(s.data), "toold.yaml")
	const approver = "the-token-of-an-approver"
	hash := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(approver)))
	must(t, os.WriteFile(config, []byte("auth: {tokens: [{name: bob, roles: [approver], hash: '"+hash+"'}]}"), 0o600))
	everything := browserOf(t, s.start("--listen-http", "127.0.0.1:0", "--config", config))
	bob := *everything
	bob.token = approver
	defer http.DefaultClient.CloseIdleConnections()
	everything.call(`{"call_id":"call-that-waits-001","tool":"write","arguments":{"path":"a","content":"b"}}`)
	for name, b := range map[string]*browser{"watch": everything, "poll": &bob} {
		_, next := b.events("inbox=1&form=readable")
		first := next()
		var waiting struct {
			Suspension struct {
				Pending struct{ Arguments map[string]string }
			}
		}
		must(t, json.Unmarshal([]byte(first.data), &waiting))
		if first.name != "waiting" || first.id != "" || waiting.Suspension.Pending.Arguments["path"] != "a" {
			t.Fatalf("%s: the first event is %+v", name, first)
		}
		if e := next(); e.name != "caught_up" {
			t.Fatalf("%s: then %+v", name, e)
		}
		call := "call-that-waits-" + name
		everything.call(`{"call_id":"` + call + `","tool":"write","arguments":{"path":"a","content":"b"}}`)
		if e := next(); e.name != "waiting" || !strings.Contains(e.data, call) {
			t.Fatalf("%s: then %+v", name, e)
		}
		if status, text := everything.do("POST", tooldv1.CallService_CancelCall_FullMethodName, everything.token, `{"callId":"`+call+`"}`); status != 200 {
			t.Fatal(text)
		}
		if e := next(); e.name != "settled" || !strings.Contains(e.data, call) {
			t.Fatalf("%s: then %+v", name, e)
		}
	}
}

// TestHTTPCompression checks that large responses are compressed and small ones are not, and that a small body cannot become a large one.
func TestHTTPCompression(t *testing.T) {
	b := browserOf(t, newSite(t, "").start("--listen-http", "127.0.0.1:0"))
	defer http.DefaultClient.CloseIdleConnections()
	zeros := func(n int) string {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, err := io.WriteString(w, `{"pageToken":"`+strings.Repeat("0", n)+`"}`)
		must(t, err)
		must(t, w.Close())
		return packed.String()
	}
	tests := []struct {
		name, path, body, packed string
		status                   int
		want, encoding           string
	}{
		{"large response", tooldv1.ToolService_ListTools_FullMethodName, "{}", "", 200, "", "gzip"},
		{"small response", tooldv1.CallService_ListCalls_FullMethodName, "{}", "", 200, "", ""},
		{"the document", "/openapi.json", "", "", 200, "", "gzip"},
		{"packed request", tooldv1.CallService_ListCalls_FullMethodName, zeros(10), "gzip", 400, "page_token", ""},
		{"packed bomb", tooldv1.CallService_ListCalls_FullMethodName, zeros(20 << 20), "gzip", 429, "larger than configured max", ""},
		{"large request", tooldv1.CallService_ListCalls_FullMethodName, strings.Repeat(" ", 5<<20), "", 429, "larger than configured max", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			method := http.MethodPost
			if tt.body == "" {
				method = http.MethodGet
			}
			req, err := http.NewRequestWithContext(within(t), method, b.base+tt.path, strings.NewReader(tt.body))
			must(t, err)
			for name, value := range map[string]string{"Authorization": "Bearer " + b.token, "Content-Type": "application/json", "Accept-Encoding": "gzip", "Content-Encoding": tt.packed} {
				if value != "" {
					req.Header.Set(name, value)
				}
			}
			resp, err := http.DefaultClient.Do(req)
			must(t, err)
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			must(t, err)
			if resp.StatusCode != tt.status || resp.Header.Get("Content-Encoding") != tt.encoding || !strings.Contains(string(text), tt.want) {
				t.Errorf("%d, encoding %q, %.300q; want %d, %q, %s", resp.StatusCode, resp.Header.Get("Content-Encoding"), text, tt.status, tt.encoding, tt.want)
			}
		})
	}
}
