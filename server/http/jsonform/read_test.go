package jsonform_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/http/jsonform"
)

// usual are requests that ReadUsual reads itself.
var usual = []string{
	`{}`,
	` { "spec" : { "tool" : "read", "callId" : "", "run" : { "runId":"r", "mode":"RUN_MODE_ATTENDED" } } }` + "\n",
	`{"spec":{"tool":"a","arguments":"{\"path\":\"a\\\\b\",\"n\":\"\\n\"}","lingerNever":true}}`,
	`{"spec":{"arguments":"é😀\/\b\f\n\r\t\\","run":{}}}`,
}

// unusual are requests that only protojson reads, and requests that must be refused.
var unusual = []string{
	``, `null`, `[]`, `{}{}`, `{} x`, `{"spec":null}`, `{"spec":{"tool":"a","tool":"b"}}`, `{"spec":{"tool":"","tool":""}}`, `{"spec":{"call_id":"a"}}`,
	`{"spec":{"call_id":"a","callId":"b"}}`, `{"spec":{"arguments":{}}}`, `{"spec":{"tool":"\u0061"}}`, `{"spec":{"tool":"\ud800"}}`, `{"spec":{"tool":"\x"}}`,
	"{\"spec\":{\"tool\":\"\xff\"}}", "{\"spec\":{\"tool\":\"a\nb\"}}", "{\"spec\":{\"tool\":\"a\x00\"}}", `{"spec":{"run":{"mode":"NO"}}}`, `{"spec":{"run":{"mode":1}}}`,
	`{"spec":{"run":{"labels":{"a":"b"}}}}`, `{"spec":{"timeouts":{"queue":"1s"}}}`, `{"spec":{"lingerNever":truex}}`, `{"spec":{"lingerNever":"true"}}`,
	`{"spec":{"tool":"a",}}`, `{"spec":{"tool":"a"`, `{"spec":{"tool":"a\`, `{"new":1}`, "\u00a0{}", "{}\v", `{"spec":{,}}`, `{"spec" "a"}`,
}

func TestReadUsual(t *testing.T) {
	for _, text := range usual {
		if !jsonform.ReadUsual([]byte(text), &tooldv1.CallToolRequest{}) {
			t.Errorf("%s is left to protojson", text)
		}
	}
	for _, text := range unusual {
		if jsonform.ReadUsual([]byte(text), &tooldv1.CallToolRequest{}) {
			t.Errorf("%s is not left to protojson", text)
		}
	}
}

// FuzzReadUsual checks that protojson reads the same message from each text that ReadUsual accepts.
func FuzzReadUsual(f *testing.F) {
	for _, text := range append(usual, unusual...) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got, want tooldv1.CallToolRequest
		got.Spec = &tooldv1.CallSpec{RetryOf: "of an earlier request"}
		if !jsonform.ReadUsual(text, &got) {
			return
		}
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, &want); err != nil {
			t.Fatalf("protojson refuses %q: %v", text, err)
		}
		if diff := cmp.Diff(&want, &got, protocmp.Transform()); diff != "" {
			t.Errorf("%q (-protojson +read):\n%s", text, diff)
		}
	})
}
