package jsonform_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/http/jsonform"
)

func TestRequests(t *testing.T) {
	tests := []struct{ name, json, arguments string }{
		{"text", `{"spec":{"arguments":"{\"a\":1}"}}`, `{"a":1}`},
		{"text that is not JSON", `{"spec":{"arguments":"{"}}`, `{`}, // The engine reports the error with its position.
		{"object", `{"spec":{"arguments":{"a":1}}}`, `{"a":1}`},
		{"white space stays", "{\n\t\"spec\": {\"arguments\" : {\n\t\"a\": [ ]} }}", "{\n\t\"a\": [ ]}"},
		{"exact number", `{"spec":{"arguments":{"a":123456789012345678901234567890.10e-5}}}`, `{"a":123456789012345678901234567890.10e-5}`},
		{"duplicate members", `{"spec":{"arguments":{"a":1,"a":2}}}`, `{"a":1,"a":2}`}, // The strict parser of the engine refuses this text.
		{"quotes and escapes", `{"spec":{"arguments":{"a":"\"\\\u00e9\ud83d\ude00é/"}}}`, `{"a":"\"\\\u00e9\ud83d\ude00é/"}`},
		{"array", `{"spec":{"arguments":[1,{"b":"]"}]}}`, `[1,{"b":"]"}]`},
		{"number", `{"spec":{"arguments":-1.50}}`, `-1.50`},
		{"boolean", `{"spec":{"arguments":false}}`, `false`},
		{"null is absent", `{"spec":{"arguments":null,"callId":"x","agent":{"spec":{}}}}`, ``},
		{"escaped name", `{"spec":{"argu\u006dents":{}}}`, `{}`},
		{"unknown fields", `{"new":{"arguments":{}},"spec":{"new":[{}],"arguments":{},"other":"\"}"}}`, `{}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got tooldv1.ExecuteToolRequest
			if err := jsonform.Plain().Unmarshal([]byte(tt.json), &got); err != nil {
				t.Fatal(err)
			}
			if got.GetSpec().GetArguments() != tt.arguments {
				t.Errorf("the arguments are %q, want %q", got.GetSpec().GetArguments(), tt.arguments)
			}
		})
	}
}

func TestRequestsRefused(t *testing.T) {
	deep := strings.Repeat("[", 1_000_000)
	tests := []struct{ name, json, want string }{
		{"empty", ``, "empty"},
		{"no JSON", `{"spec":`, "unexpected"},
		{"not an object", `[]`, "unexpected token ["},
		{"text after the end", `{} {}`, "after top-level value"},
		{"duplicate field", `{"spec":{"arguments":{}, "arguments":{}}}`, "duplicate field"},
		{"both names", `{"spec":{"callId":"a","call_id":"a","arguments":{}}}`, "duplicate field"},
		{"object in another field", `{"spec":{"tool":{},"arguments":{}}}`, "invalid value for string field tool"},
		{"invalid UTF-8", "{\"spec\":{\"arguments\":{\"a\":\"\xff\"}}}", "UTF-8"},
		{"too deep", `{"spec":{"arguments":` + deep, "max depth"},
		{"too deep and complete", `{"spec":{"arguments":` + deep + strings.Repeat("]", 1_000_000) + `}}`, "max depth"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := jsonform.Plain().Unmarshal([]byte(tt.json), &tooldv1.ExecuteToolRequest{})
			if err == nil || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 300 {
				t.Errorf("the error is %.300v, want %s", err, tt.want)
			}
		})
	}
}

func TestReadableResponses(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"object", `{"a": [1, 2.50, 12345678901234567890]}`, `{"a":[1,2.50,12345678901234567890]}`},
		{"line breaks", "\n{\r\n\"a\":\ttrue}\n", `{"a":true}`},
		{"no HTML escapes", `{"a":"<b>&"}`, `{"a":"<b>&"}`},
		{"a JSON string stays text", `"yes"`, `"\"yes\""`},
		{"null stays text", `null`, `"null"`},
		{"no JSON", `{"a":`, `"{\"a\":"`},
		{"readers disagree about duplicates", `{"a":1,"a":2}`, `"{\"a\":1,\"a\":2}"`},
		{"lone surrogate", `{"a":"\ud800"}`, `"{\"a\":\"\\ud800\"}"`},
		{"too deep", strings.Repeat("[", 65) + strings.Repeat("]", 65), `"` + strings.Repeat("[", 65) + strings.Repeat("]", 65) + `"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := &tooldv1.Call{CallId: "c", RequestedArguments: tt.text, Status: tooldv1.CallStatus_CALL_STATUS_FAILED,
				Decisions: []*tooldv1.Decision{{Result: tt.text}}, Run: &tooldv1.Run{Labels: map[string]string{"arguments": "{}"}}}
			got, err := jsonform.Readable().Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			want := `{"callId":"c","status":"CALL_STATUS_FAILED","run":{"labels":{"arguments":"{}"}},"requestedArguments":` + tt.want + `,"decisions":[{"result":` + tt.want + `}]}`
			if string(got) != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// FuzzForms checks that a client can send back what it received. The server then reads the same message, except for white space in JSON
// text.
func FuzzForms(f *testing.F) {
	f.Add(`{"a": 1}`, "x", `{"callId":"a","result":{"data":{"x":[]}}}`)
	f.Add(`"x"`, `"}`, "{\"decisions\" : [ {\"arguments\":\t{}} ] }")
	f.Add(` [1e5, null]`, `{`, `{"run":{"labels":{"a":"b"},"agent":{"spec":-1}},"timeouts":{"queue":"1s"}}`)
	f.Fuzz(func(t *testing.T, text, other, request string) {
		m := &tooldv1.Call{CallId: other, RequestedArguments: text, Result: &tooldv1.ToolResult{Data: text, Message: other, Duration: durationpb.New(1)},
			Decisions: []*tooldv1.Decision{{Arguments: text, Reason: other}}, Run: &tooldv1.Run{Labels: map[string]string{other: text}}}
		readable, err := jsonform.Readable().Marshal(m)
		if err == nil {
			if strings.ContainsAny(string(readable), "\r\n") {
				t.Fatalf("a line break: %q", readable)
			}
			var back tooldv1.Call
			if err := jsonform.Readable().Unmarshal(readable, &back); err != nil {
				t.Fatalf("%v: %s", err, readable)
			}
			compacted(m)
			compacted(&back)
			if diff := cmp.Diff(m, &back, protocmp.Transform()); diff != "" {
				t.Fatal(diff)
			}
		}
		var plain, either tooldv1.Call
		if protojson.Unmarshal([]byte(request), &plain) == nil {
			if err := jsonform.Plain().Unmarshal([]byte(request), &either); err != nil || !proto.Equal(&plain, &either) {
				t.Fatalf("another message than protojson: %v", err)
			}
		}
		_ = jsonform.Plain().Unmarshal([]byte(request), &either) // must not panic
	})
}

// compacted removes the white space from the JSON text of a message.
func compacted(m *tooldv1.Call) {
	for _, text := range []*string{&m.RequestedArguments, &m.Result.Data, &m.Decisions[0].Arguments} {
		var b strings.Builder
		if json.Valid([]byte(*text)) {
			enc := json.NewEncoder(&b)
			enc.SetEscapeHTML(false)
			if enc.Encode(json.RawMessage(*text)) == nil {
				*text = strings.TrimSuffix(b.String(), "\n")
			}
		}
	}
}
