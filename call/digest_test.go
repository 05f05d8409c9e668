package call_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// digestVectors is the published file of test vectors. Clients in other languages test their digests with the same file. The vectors were
// computed by a program that does not use this package.
type digestVectors struct {
	Approvals []struct {
		Name           string          `json:"name"`
		Namespace      string          `json:"namespace"`
		CallID         string          `json:"call_id"`
		SuspensionID   string          `json:"suspension_id"`
		Caller         string          `json:"caller"`
		OnBehalfOf     string          `json:"on_behalf_of"`
		Tool           string          `json:"tool"`
		ToolDigest     string          `json:"tool_digest"`
		Arguments      string          `json:"arguments"`
		ResumeMode     tool.ResumeMode `json:"resume_mode"`
		Isolation      string          `json:"required_isolation"`
		Network        string          `json:"required_network"`
		ExpiresAt      time.Time       `json:"expires_at"`
		Message        string          `json:"message"`
		Parameters     string          `json:"parameters"`
		ResponseSchema string          `json:"response_schema"`
		Digest         string          `json:"digest"`
	} `json:"approvals"`
	Requests []struct {
		Name       string `json:"name"`
		Arguments  string `json:"arguments"`
		Tool       string `json:"tool"`
		Caller     string `json:"caller"`
		OnBehalfOf string `json:"on_behalf_of"`
		Run        string `json:"run_id"`
		Thread     string `json:"thread_id"`
		Digest     string `json:"digest"`
	} `json:"requests"`
	Keys []struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
		CallID    string `json:"call_id"`
		Arguments string `json:"arguments"`
		Key       string `json:"key"`
	} `json:"idempotency_keys"`
}

func TestDigestVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/digests.json")
	var v digestVectors
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil || len(v.Approvals) < 5 || len(v.Requests) < 4 || len(v.Keys) < 2 {
		t.Fatalf("%d, %d and %d vectors, %v", len(v.Approvals), len(v.Requests), len(v.Keys), err)
	}
	for _, a := range v.Approvals {
		args, err := call.Parse(a.Arguments).Arguments(0)
		if err != nil {
			t.Fatal(err)
		}
		approval := call.Approval{
			Namespace: a.Namespace, CallID: a.CallID, SuspensionID: a.SuspensionID, Caller: a.Caller, OnBehalfOf: a.OnBehalfOf,
			Tool: a.Tool, ToolDigest: a.ToolDigest, Arguments: args, ResumeMode: a.ResumeMode, Isolation: a.Isolation, Network: a.Network,
			ExpiresAt: a.ExpiresAt, Message: a.Message, Parameters: json.RawMessage(a.Parameters), ResponseSchema: json.RawMessage(a.ResponseSchema),
		}
		if got := approval.Digest(); got != a.Digest {
			t.Errorf("approval %q: %s, want %s", a.Name, got, a.Digest)
		}
	}
	for _, r := range v.Requests {
		spec := call.Spec{Tool: r.Tool, OnBehalfOf: r.OnBehalfOf, Run: tool.Run{ID: r.Run, Thread: r.Thread}}
		if got := call.RequestDigest(&spec, call.Parse(r.Arguments), r.Caller); got != r.Digest {
			t.Errorf("request %q: %s, want %s", r.Name, got, r.Digest)
		}
	}
	for _, k := range v.Keys {
		c := tool.Call{Namespace: k.Namespace, ID: k.CallID, Arguments: tool.NewArguments(k.Arguments, nil)}
		if got := c.IdempotencyKey(); got != k.Key {
			t.Errorf("key %q: %s, want %s", k.Name, got, k.Key)
		}
	}
}
