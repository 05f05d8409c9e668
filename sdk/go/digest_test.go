package toold_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	toold "github.com/toold-dev/toold/sdk/go"
)

func read(t *testing.T, file string, into any) {
	t.Helper()
	b, err := os.ReadFile("../../call/testdata/" + file)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestCanonical(t *testing.T) {
	var all struct {
		Vectors []struct{ Name, Text, Canonical string }
	}
	read(t, "canonical.json", &all)
	if len(all.Vectors) == 0 {
		t.Fatal("no vectors")
	}
	for _, v := range all.Vectors {
		if got, err := toold.Canonical(v.Text); err != nil || got != v.Canonical {
			t.Errorf("%s: %s, %v", v.Name, got, err)
		}
	}
}

func TestDigest(t *testing.T) {
	var all struct{ Approvals []map[string]string }
	read(t, "digests.json", &all)
	if len(all.Approvals) == 0 {
		t.Fatal("no vectors")
	}
	for _, a := range all.Approvals {
		at, err := time.Parse(time.RFC3339Nano, a["expires_at"])
		if err != nil {
			t.Fatal(err)
		}
		isolation := map[string]tooldv1.IsolationLevel{"none": tooldv1.IsolationLevel_ISOLATION_LEVEL_NONE, "full": tooldv1.IsolationLevel_ISOLATION_LEVEL_FULL}
		network := map[string]tooldv1.NetworkMode{
			"none": tooldv1.NetworkMode_NETWORK_MODE_NONE, "proxy": tooldv1.NetworkMode_NETWORK_MODE_PROXY, "open": tooldv1.NetworkMode_NETWORK_MODE_OPEN,
		}
		c := &tooldv1.Call{
			Namespace: a["namespace"], CallId: a["call_id"], Caller: &tooldv1.Principal{Subject: a["caller"]}, Run: &tooldv1.Run{OnBehalfOf: a["on_behalf_of"]},
			Tool: a["tool"], ToolDigest: a["tool_digest"], EffectiveArguments: a["arguments"],
			Isolation: &tooldv1.Isolation{Required: isolation[a["required_isolation"]], Network: network[a["required_network"]]},
			Suspension: &tooldv1.Suspension{
				SuspensionId: a["suspension_id"], ResumeMode: tooldv1.ResumeMode(tooldv1.ResumeMode_value["RESUME_MODE_"+a["resume_mode"]]),
				ExpiresAt: timestamppb.New(at), Message: a["message"], Parameters: a["parameters"], ResponseSchema: a["response_schema"], Digest: a["digest"],
			},
		}
		if err := toold.Verify(c); err != nil {
			t.Errorf("%s: %v", a["name"], err)
		}
		c.Suspension.Message += " "
		if err := toold.Verify(c); err == nil {
			t.Errorf("%s: another message has the same digest", a["name"])
		}
	}
}
