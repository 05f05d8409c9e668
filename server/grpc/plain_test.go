package grpcserver_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// overPlain calls unary methods with plain JSON, as a small client does. It uses Connect for streams.
func overPlain(base string, streams endpoint) endpoint {
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	return func(ctx context.Context, m protoreflect.MethodDescriptor, token string) error {
		if m.IsStreamingServer() || m.IsStreamingClient() {
			return streams(ctx, m, token)
		}
		defer client.CloseIdleConnections()
		got, err := post(ctx, client, base+nameOf(m), token, "application/json", `{}`, nil)
		if err != nil || got.Status == http.StatusOK {
			return err
		}
		var e struct {
			Code    string
			Details []struct{ Debug struct{ Reason string } }
		}
		if err := json.Unmarshal([]byte(got.Body), &e); err != nil {
			return err
		}
		var code codes.Code
		if err := code.UnmarshalJSON([]byte(`"` + strings.ToUpper(e.Code) + `"`)); err != nil {
			return err
		}
		st := status.New(code, got.Body)
		for _, d := range e.Details {
			if d.Debug.Reason != "" {
				st, _ = st.WithDetails(&errdetails.ErrorInfo{Reason: d.Debug.Reason})
			}
		}
		return st.Err()
	}
}

// answered is what a client sees of a response.
type answered struct {
	Status int
	Header http.Header
	Body   string
}

func post(ctx context.Context, client *http.Client, url, token, contentType, body string, headers map[string]string) (got answered, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return got, err
	}
	r.Header.Set("Content-Type", contentType)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	res, err := client.Do(r)
	if err != nil {
		return got, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	res.Header.Del("Date")
	return answered{res.StatusCode, res.Header, string(text)}, err
}

// ofConnect is a header that only Connect sends.
const ofConnect = "Accept-Encoding"

// TestPlainRequests checks that plain requests, which toold serves itself, get the same responses as those that it leaves to Connect.
func TestPlainRequests(t *testing.T) {
	w := newWorld(t, options{})
	base, _ := w.overHTTP()
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	call := `{"spec":{"tool":"echo","callId":"plain-0123456789-a","run":{"runId":"r","threadId":"t"},"arguments":`
	requests := map[string]string{
		"a call": call + `"{\"text\":\"é\\n\\\"\"}"}}`, "the same call": call + `"{\"text\":\"é\\n\\\"\"}"}}`, "JSON in a field": call + `{"text":"é\n\""}}}`,
		"other arguments": call + `"{}"}}`, "an unknown tool": `{"spec":{"tool":"none","arguments":"{}","run":{"runId":"r","threadId":"t"},"callId":"plain-0123456789-b"}}`,
		"no JSON": `{"spec":`, "not an object": `[]`, "two values": `{} {}`, "an unknown field": `{"new":1}`, "a wrong type": `{"spec":7}`, "invalid UTF-8": "{\"spec\":{\"tool\":\"\xff\"}}",
		"empty": ``, "white space": ` `, "too large": `{"spec":{"arguments":"` + strings.Repeat("x", 4<<20) + `"}}`,
		"large": call + `"{\"text\":\"` + strings.Repeat("x", 1<<20) + `\"}"}}`,
	}
	prepare := func(path, body string) {
		t.Helper()
		got, err := post(within(t), client, base+path, tokenOf("alice"), "application/json", body, nil)
		must(t, err)
		if got.Status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, got.Status, got.Body)
		}
	}
	prepare(tooldv1.CallService_CallTool_FullMethodName, requests["a call"])
	prepare(tooldv1.CallService_CallTool_FullMethodName, requests["an unknown tool"])
	prepare(tooldv1.CallService_ListCalls_FullMethodName, "{}") // The list waits until the calls are stored. Otherwise their records could change between two requests.
	for name, body := range requests {
		for _, contentType := range []string{"application/json", "application/json; charset=utf-8", "application/json; form=readable", "Application/JSON", "application/json;charset=utf-8", "text/plain", ""} {
			for _, token := range []string{tokenOf("alice"), "wrong-0123456789-0123456789", ""} {
				url := base + tooldv1.CallService_CallTool_FullMethodName
				want, err := post(within(t), client, url, token, contentType, body, map[string]string{"Accept-Encoding": "identity"})
				must(t, err)
				got, err := post(within(t), client, url, token, contentType, body, nil)
				must(t, err)
				if name == "a call" && contentType == "application/json" && token == tokenOf("alice") && got.Header.Get(ofConnect) != "" {
					t.Error("Connect serves plain requests")
				}
				want.Header.Del(ofConnect)
				got.Header.Del(ofConnect)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s as %q with token %.5q (-Connect +plain):\n%.2000s", name, contentType, token, diff)
				}
			}
		}
	}
}
