package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The page shows that grpcurl can do what the toold command does, with reflection only. The test checks the output of each block and the
// files that the whole page leaves in the workspace.
func TestGrpcurlDoesWhatTooldDoes(t *testing.T) {
	p := newSetup(t)
	wants := []struct {
		in  string
		out []string
	}{
		{"api() {", nil},
		{" list\n", []string{"toold.v1.CallService", "toold.v1.ToolService", "toold.v1.AdminService", "grpc.health.v1.Health", "rpc CallTool"}},
		{"ListTools", []string{`"id": "bash"`, `"id": "write"`, `"tool": {`}},
		{"CountToolCalls", nil},
		{"DescribeCall", []string{`"valid": true`, "VERDICT_ACTION_ALLOW"}},
		{"TryRules", []string{`"defaults"`, `"complete": true`, `"tried"`}},
		{"CallTool", []string{"notes.txt:1:TODO: water the plants", `"accepted"`, `"finished"`, "CALL_STATUS_SUCCEEDED"}},
		{"page_size", []string{`"calls": [`, `"nextPageToken"`}},
		{"by-hand-0000-0001", []string{"CALL_STATUS_SUSPENDED", `"digest"`}},
		{"ListCalls", []string{"by-hand-0000-0001", `"action": "approval"`, `"count": "1"`}},
		{"WatchInbox", []string{`"approve"`}},
		{"ClaimSuspension", []string{`"claimedBy"`, `"subject": "tam"`, `"handedOverBy"`}},
		{"by-hand-decision-1", []string{`"resumed"`, `"attemptStarted"`, "CALL_STATUS_SUCCEEDED"}},
		{"by-hand-decision-2", []string{"CALL_STATUS_CANCELLED", "Declined: the notes are needed"}},
		{"by-hand-decision-3", []string{`"responseSchema"`, "CALL_STATUS_SUCCEEDED", `"data": "3"`}},
		{"WatchCalls", []string{`"sequence": "1"`, `"caughtUp"`, `"cursor"`}},
		{"ReadArtifact", []string{"Z3Jvd2luZwo="}},
		{"SendInput", []string{`"position": "4"`, `"attempt": 1`, "hello Ann", "CALL_STATUS_SUCCEEDED"}},
		{"CancelCall", []string{"CALL_STATUS_CANCELLED", `"killed"`, `"confirmedAt"`}},
		{"EndRun", []string{"RUN_STATE_OPEN", "RUN_STATE_ENDED"}},
		{"Drain", []string{"SERVING", `"epoch": "1"`, `"previous"`, `"deadline"`}},
	}
	blocks := p.run(t, blocksOf(t, "../../docs/reference/grpcurl.md", "sh"))
	if len(blocks) != len(wants) {
		t.Fatalf("the page has %d blocks, %d are known here", len(blocks), len(wants))
	}
	for i, want := range wants {
		if !strings.Contains(blocks[i].text, want.in) {
			t.Errorf("block %d should hold %q:\n%s", i+1, want.in, blocks[i].text)
		}
		for _, out := range want.out {
			if !strings.Contains(blocks[i].output, out) {
				t.Errorf("block %d should print %q:\n%s\nprinted:\n%s", i+1, out, blocks[i].text, blocks[i].output)
			}
		}
	}
	log, err := os.ReadFile(filepath.Join(p.dir, "workspace", "workspace-log.txt"))
	if err != nil || string(log) != "watered\n" {
		t.Errorf("the approved command left %q, %v", log, err)
	}
	if _, err := os.Stat(filepath.Join(p.dir, "workspace", "notes.txt")); err != nil {
		t.Errorf("the declined command has run: %v", err)
	}
	select {
	case err := <-p.ended:
		if p.ended <- err; err != nil {
			t.Errorf("the daemon ended with %v after the drain", err)
		}
	case <-time.After(time.Minute):
		t.Error("the daemon did not end after the drain")
	}
}
