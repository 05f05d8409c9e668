package audit_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/plugins/audit"
	"github.com/toold-dev/toold/tool"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

type chain []call.ChainRecord

func (c *chain) add(text string) {
	l := call.ChainRecord{Namespace: "ns", Position: 1, Time: start, Key: "call", CallID: "call", Record: json.RawMessage(text)}
	var before []byte
	if n := len(*c); n > 0 {
		before = (*c)[n-1].Link
		l.Position, l.Time = (*c)[n-1].Position+2, (*c)[n-1].Time.Add(time.Second)
	}
	l.Link = call.Link(before, "ns", l.Key, l.CallID, l.Time, l.Record)
	*c = append(*c, l)
}

func (c chain) source(_ context.Context, namespace string, after int64) iter.Seq2[call.ChainRecord, error] {
	return func(yield func(call.ChainRecord, error) bool) {
		for _, l := range c {
			if namespace == "ns" && l.Position > after && !yield(l, nil) {
				return
			}
		}
	}
}

func (c chain) verify(t rapid.TB, signed []audit.Checkpoint) audit.Report {
	r, err := audit.Verify("ns", c.source(context.Background(), "ns", 0), signed, start.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for size := 1; size <= 3; size++ {
		c.verifyParts(t, signed, size, &r)
	}
	return r
}

// verifyParts verifies the chain in parts of a size, with a new Verifier for each part. All parts together must find what one Verifier
// found.
func (c chain) verifyParts(t rapid.TB, signed []audit.Checkpoint, size int, want *audit.Report) {
	var sum audit.Report
	var after int64
	var link []byte
	for done := false; !done; {
		v := audit.NewVerifier("ns", signed, start.Add(-time.Hour))
		if after > 0 {
			v.Continue(after, link)
		}
		done = true
		for l := range c.source(context.Background(), "ns", after) {
			if v.Report.Records == size {
				done = false
				break
			}
			v.Add(&l)
		}
		report := v.Stop
		if done {
			report = v.End
		}
		part := report()
		sum.Records, sum.Checkpoints, sum.Findings = sum.Records+part.Records, sum.Checkpoints+part.Checkpoints, append(sum.Findings, part.Findings...)
		after, link = v.Last()
	}
	if sum.Records != want.Records || sum.Checkpoints != want.Checkpoints || !slices.Equal(sum.Findings, want.Findings) {
		t.Fatalf("in parts of %d: %+v, want %+v", size, sum, want)
	}
}

func keeper(t rapid.TB, c *chain, dir string) *audit.Keeper {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	k := &audit.Keeper{
		Store: "store", Key: key, File: filepath.Join(dir, "checkpoints.jsonl"), Every: time.Second, Now: func() time.Time { return start.Add(time.Hour) }, Log: zap.NewNop(),
		Source: func(ctx context.Context, ns string, after int64) iter.Seq2[call.ChainRecord, error] {
			return c.source(ctx, ns, after)
		},
	}
	if err := k.Open(); err != nil {
		t.Fatal(err)
	}
	return k
}

func signedBy(t rapid.TB, k *audit.Keeper) []audit.Checkpoint {
	f, err := os.Open(k.File)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	good, bad, err := audit.ReadCheckpoints(f, k.Key.Public().(ed25519.PublicKey))
	if err != nil || len(bad) > 0 {
		t.Fatal(bad, err)
	}
	return good
}

// TestTail checks that the newest checkpoints of one chain are found in a file of many chains, and that thinning keeps the newest.
func TestTail(t *testing.T) {
	var c chain
	k := keeper(t, &c, t.TempDir())
	for n := range 20 {
		c.add(fmt.Sprint(n))
		if err := k.Sign(t.Context(), []string{"ns", "empty"}); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.OpenFile(k.File, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(`{"store_id":"store","namespace":"n`) // an incomplete line, as after a crash
	}
	if err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	all, err := audit.Tail(k.File, "store", "ns")
	if err != nil || len(all) != 20 || all[19].Position != c[19].Position {
		t.Fatalf("%d checkpoints, %v", len(all), err)
	}
	for _, other := range [][2]string{{"store", "n"}, {"another", "ns"}} {
		if found, err := audit.Tail(k.File, other[0], other[1]); err != nil || len(found) > 0 {
			t.Errorf("%v: %v, %v", other, found, err)
		}
	}
	if few := audit.Thin(all, 7); len(few) != 7 || few[6].Position != all[19].Position || len(audit.Thin(all, 20)) != 20 {
		t.Errorf("thinned to %v", few)
	}
	all[3].Position++
	good, bad := audit.Check(all, k.Key.Public().(ed25519.PublicKey))
	if len(good) != 19 || len(bad) != 1 || bad[0].Kind != "SIGNATURE" {
		t.Errorf("%d good, %v", len(good), bad)
	}
	if none, err := audit.Tail(filepath.Join(t.TempDir(), "none"), "store", "ns"); err != nil || none != nil {
		t.Errorf("a missing file: %v, %v", none, err)
	}
}

// The test checks that Verify finds every forgery of records that the newest checkpoint covers, and reports nothing for an unchanged chain.
func TestEveryForgeryIsFound(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		var c chain
		k := keeper(t, &c, dir)
		_ = os.Remove(k.File)
		for i := range rapid.IntRange(2, 20).Draw(t, "records") {
			c.add(fmt.Sprintf(`{"n":%d}`, i))
			if rapid.Bool().Draw(t, "sign") {
				if err := k.Sign(t.Context(), []string{"ns"}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := k.Sign(t.Context(), []string{"ns"}); err != nil {
			t.Fatal(err)
		}
		signed := signedBy(t, k)
		if r := c.verify(t, signed); len(r.Findings) > 0 || r.Records != len(c) || r.Checkpoints != len(signed) || r.Trimmed {
			t.Fatalf("an honest chain: %+v", r)
		}
		forged := slices.Clone(c)
		i := rapid.IntRange(0, len(c)-1).Draw(t, "at")
		switch rapid.SampledFrom([]string{"change", "remove", "cut", "swap", "move", "rewrite"}).Draw(t, "forgery") {
		case "change":
			forged[i].Record = json.RawMessage(`{"n":-1}`)
		case "remove":
			forged = slices.Delete(forged, i, i+1)
		case "cut":
			forged = forged[:i]
		case "swap":
			j := (i + 1) % len(c)
			forged[i].Record, forged[j].Record = c[j].Record, c[i].Record
		case "move":
			forged[i].Time = forged[i].Time.Add(time.Nanosecond)
		case "rewrite":
			var anew chain
			for j, l := range c {
				if j == i {
					l.Record = json.RawMessage(`{"n":-1}`)
				}
				anew.add(string(l.Record))
			}
			forged = anew
		}
		if r := forged.verify(t, signed); len(r.Findings) == 0 {
			t.Fatalf("not found: %+v", r)
		}
	})
}

// The test checks a file whose last line a crash has cut off: the next checkpoint starts a new line. It also checks that a checkpoint
// signed by another key is reported.
func TestCheckpointsSurviveACutLine(t *testing.T) {
	var c chain
	k := keeper(t, &c, t.TempDir())
	for i := range 3 {
		c.add(fmt.Sprintf(`{"n":%d}`, i))
		if err := k.Sign(t.Context(), []string{"ns", "empty"}); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(k.File)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(k.File, append(b, `{"store_id":"sto`...), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := k.Open(); err != nil {
			t.Fatal(err)
		}
	}
	if got := signedBy(t, k); len(got) != 3 || got[2].Position != c[2].Position {
		t.Errorf("checkpoints %+v", got)
	}
	f, err := os.Open(k.File)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	other, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	if good, bad, err := audit.ReadCheckpoints(f, other); err != nil || len(good) != 0 || len(bad) != 3 || bad[0].Kind != "SIGNATURE" {
		t.Errorf("another key: %v %v %v", good, bad, err)
	}
}

// The test checks that records that retention removed from the beginning do not count as a forgery. Retention keeps the newest of the old
// records.
func TestTrimmedBeginning(t *testing.T) {
	var c chain
	for i := range 5 {
		c.add(fmt.Sprintf(`{"n":%d}`, i))
	}
	r, err := audit.Verify("ns", c[2:].source(t.Context(), "ns", 0), nil, start.Add(time.Hour))
	if err != nil || len(r.Findings) > 0 || !r.Trimmed || r.Records != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

func input() *hook.Input {
	return &hook.Input{Namespace: "ns", CallID: "call", Requested: `{"secret":"s3cr3t"}`, Caller: tool.Principal{Namespace: "ns", Subject: "alice"}}
}

// A record contains names and IDs, but no content of the call.
func TestRecordsTellNoContent(t *testing.T) {
	record := audit.New().Record(input())
	var recorded []string
	for _, ev := range []call.Event{
		{Type: call.EventAccepted, Accepted: &call.Accepted{Tool: "pay", Run: "r"}},
		{Type: call.EventAttemptStarted, Attempt: 1},
		{Type: call.EventProgress, Progress: &tool.Progress{Message: "s3cr3t"}},
		{Type: call.EventOutput, Output: &call.Output{Bytes: []byte("s3cr3t")}},
		{Type: call.EventSuspended, Suspension: &call.Suspension{ID: "s-1", Message: "s3cr3t", Digest: "d"}},
		{Type: call.EventResumed, Decision: &tool.Decision{ID: "d-1", Action: tool.Resume, Reason: "s3cr3t", Result: `"s3cr3t"`, DecidedBy: tool.Principal{Subject: "bob"}}},
		{Type: call.EventResumed, Decision: &tool.Decision{ID: "d-2", Action: tool.Resume, ResultInstead: &tool.ResultInstead{Data: `"s3cr3t"`, Message: "s3cr3t", Error: true}}},
		{Type: call.EventCancelRequested, Cancel: &call.CancelRequest{Reason: "s3cr3t", Cause: "CLIENT"}},
		{Type: call.EventFinished, Outcome: &call.Outcome{Status: call.Failed, Executed: call.NotStarted, Result: &tool.Result{
			Message: "s3cr3t", Error: &tool.Error{Code: tool.Denied, Reason: "NO", Message: "s3cr3t"}}}},
	} {
		for _, r := range record(&ev) {
			if r.Kind != audit.Kind || r.Key != "call" || strings.Contains(string(r.Bytes), "s3cr3t") {
				t.Errorf("record %s", r.Bytes)
			}
			var e audit.Entry
			if err := json.Unmarshal(r.Bytes, &e); err != nil {
				t.Error(err)
			}
			recorded = append(recorded, string(e.Event))
			if i := e.Instead; (i != nil) != (e.Decision == "d-2") || i != nil && (len(i.Data) != 64 || len(i.Message) != 64 || i.Data == i.Message || !i.Error) {
				t.Errorf("record %s", r.Bytes)
			}
		}
	}
	if want := "accepted attempt_started suspended resumed resumed cancel_requested finished"; strings.Join(recorded, " ") != want {
		t.Errorf("recorded %q", recorded)
	}
}

// BenchmarkCall measures the three records of a call that runs and ends.
func BenchmarkCall(b *testing.B) {
	f := audit.New()
	events := []call.Event{
		{Type: call.EventAccepted, Accepted: &call.Accepted{Tool: "read", Run: "r"}},
		{Type: call.EventAttemptStarted, Attempt: 1},
		{Type: call.EventFinished, Outcome: &call.Outcome{Status: call.Succeeded, Executed: call.Finished, Result: &tool.Result{}}},
	}
	in := input()
	b.ReportAllocs()
	for b.Loop() {
		record := f.Record(in)
		for i := range events {
			record(&events[i])
		}
	}
}
