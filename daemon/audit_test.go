package daemon

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/cli"
	"github.com/toold-dev/toold/plugins/audit"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/store/postgres/pgtest"
)

const auditOn = "audit: {enabled: true, every: 1s}\n"

// lie returns a copy of a record with changed content, as a forger would write it.
func lie(r auditRow) auditRow {
	r.bytes = append(slices.Clip(r.bytes[:call.LinkSize]), strings.ReplaceAll(string(r.bytes[call.LinkSize:]), "RESUME", "CANCEL")...)
	return r
}

// forgeries are changes to the store of a running daemon that toold audit verify must find.
var forgeries = []struct {
	name, want string
	do         func(f *forger)
}{
	{"changed row", "CHANGED", func(f *forger) {
		rows := f.rows()
		i := slices.IndexFunc(rows, func(r auditRow) bool { return strings.Contains(string(r.bytes), "RESUME") })
		f.put(lie(rows[i]))
	}},
	{"row taken out", "CHANGED", func(f *forger) {
		f.exec("DELETE FROM records WHERE position = $1", f.rows()[3].position)
	}},
	{"removed tail", "MISSING_TAIL", func(f *forger) {
		rows := f.rows()
		f.exec("DELETE FROM records WHERE kind = 'audit' AND position >= $1", rows[len(rows)-4].position)
	}},
	{"removed beginning", "MISSING_HEAD", func(f *forger) {
		f.exec("DELETE FROM records WHERE kind = 'audit' AND position <= $1", f.rows()[2].position)
	}},
	{"rewritten chain", "REWRITTEN", func(f *forger) {
		var before []byte
		for _, r := range f.rows() {
			r = lie(r)
			before = call.Link(before, "default", r.key, r.callID, time.Unix(0, r.created), r.bytes[call.LinkSize:])
			r.bytes = append(slices.Clip(before), r.bytes[call.LinkSize:]...)
			f.put(r)
		}
	}},
}

func TestAuditFindsForgeriesOnSQLite(t *testing.T) {
	findForgeries(t, newPluginSite(t, auditOn), forgeSQLite)
}

func TestAuditFindsForgeriesOnPostgres(t *testing.T) {
	server, err := pgtest.Start()
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	url := server.URL("audit")
	findForgeries(t, newPluginSite(t, auditOn, "--store", url), forgePostgres(url))
}

// findForgeries checks that both the command and the daemon find each forgery: a changed row, a removed row, a chain without its end or its
// beginning, and a rewritten chain. It also checks that they accept an unchanged chain.
func findForgeries(t *testing.T, p *pluginSite, opened func(*testing.T, *pluginSite) *forger) {
	t.Helper()
	asking(t, p.p, "one")
	new(run).do(t, p.data, "answer", "store-tests-call-one", "blue").wants(t, 0, "")
	for range 5 {
		if e := p.call("glob", `{"pattern":"*"}`).GetError(); e != nil {
			t.Fatal(e)
		}
	}
	p.p.stop()
	checkpoints := filepath.Join(p.data, "audit", "checkpoints.jsonl")
	key := strings.TrimSpace(new(run).do(t, p.data, "audit", "key", "--data", p.data).out)
	f := opened(t, p)
	whole := f.rows()
	f.close()

	d := p.again()
	verifyHonest(t, p, checkpoints, key)
	d.stop()

	for _, forgery := range forgeries {
		f := opened(t, p)
		f.restore(whole)
		forgery.do(f)
		f.close()
		signed, err := os.ReadFile(checkpoints) // Keep a copy of the checkpoints from before the forgery, because the running daemon also signs forged records.
		must(t, err)
		elsewhere := filepath.Join(t.TempDir(), "checkpoints.jsonl")
		must(t, os.WriteFile(elsewhere, signed, 0o600))
		d := p.again()
		got := new(run).do(t, p.data, "audit", "verify", "--checkpoints", elsewhere, "--key", key)
		if got.code != cli.ExitFailed || !strings.Contains(got.out, forgery.want) {
			t.Errorf("%s: exit %d, want %s in\n%s%s", forgery.name, got.code, forgery.want, got.out, got.err)
		}
		got = new(run).do(t, p.data, "audit", "check", "--checkpoints", elsewhere)
		if got.code != cli.ExitFailed || !strings.Contains(got.out, forgery.want) {
			t.Errorf("%s: the daemon finds %d, want %s in\n%s%s", forgery.name, got.code, forgery.want, got.out, got.err)
		}
		d.stop()
		must(t, os.WriteFile(checkpoints, signed, 0o600))
	}
}

// verifyHonest verifies an unchanged chain of the running daemon, and an export of it.
func verifyHonest(t *testing.T, p *pluginSite, checkpoints, key string) {
	t.Helper()
	new(run).do(t, p.data, "audit", "verify", "--checkpoints", checkpoints, "--key", key).wants(t, 0, "records of default", "checkpoints")
	new(run).do(t, p.data, "audit", "check", "--checkpoints", checkpoints).wants(t, 0, "the chain is unchanged", "checkpoints compared")
	wrong := strings.Repeat("ab", 32)
	new(run).do(t, p.data, "audit", "verify", "--checkpoints", checkpoints, "--key", wrong).wants(t, cli.ExitFailed, "SIGNATURE")
	export := new(run).do(t, p.data, "audit", "export").out
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	must(t, os.WriteFile(file, []byte(export), 0o600))
	new(run).do(t, p.data, "audit", "verify", file, "--checkpoints", checkpoints).wants(t, 0, "records of default")
	none := filepath.Join(t.TempDir(), "none.jsonl")
	must(t, os.WriteFile(none, nil, 0o600))
	new(run).do(t, p.data, "audit", "verify", file, "--checkpoints", none).wants(t, 0, "no checkpoint of default")
	wantEntries(t, export)
}

// wantEntries checks the audit records of the test's calls.
func wantEntries(t *testing.T, export string) {
	t.Helper()
	counts := map[string]int{}
	d := json.NewDecoder(strings.NewReader(export))
	for d.More() {
		var l call.ChainRecord
		must(t, d.Decode(&l))
		var e audit.Entry
		must(t, json.Unmarshal(l.Record, &e))
		counts[string(e.Event)]++
		if strings.Contains(string(l.Record), "blue") || strings.Contains(string(l.Record), "colour") {
			t.Errorf("a record contains the answer: %s", l.Record)
		}
		if e.Event == call.EventResumed && (e.By.Subject == "" || e.Decision == "" || e.Digest == "") {
			t.Errorf("who decided what: %s", l.Record)
		}
	}
	if counts["accepted"] != 6 || counts["finished"] != 6 || counts["suspended"] != 1 || counts["resumed"] != 1 {
		t.Errorf("records %v", counts)
	}
}

// TestAuditOfOperations checks that the audit chain has records of operators' requests and of DescribeCall: one before the request runs,
// and another when it is refused. It also has records of a rule that a decision creates, and of a reload by signal.
func TestAuditOfOperations(t *testing.T) {
	p := newPluginSite(t, auditOn)
	ctx := within(t)
	_, err := p.p.calls.SetPermissionMode(ctx, &tooldv1.SetPermissionModeRequest{Selector: &tooldv1.SetPermissionModeRequest_RunId{RunId: "run"}, Mode: "plan"})
	must(t, err)
	for range 3 {
		_, err = p.p.calls.DescribeCall(ctx, &tooldv1.DescribeCallRequest{Spec: &tooldv1.CallSpec{Tool: "glob", Arguments: `{"pattern":"canary*"}`}})
		must(t, err)
	}
	if e := p.call("glob", `{"pattern":"*"}`).GetError(); e != nil {
		t.Fatal(e)
	}
	_, err = p.p.admin.AcceptTool(ctx, &tooldv1.AcceptToolRequest{Tool: "nothing", Digest: "d"})
	if err == nil {
		t.Error("a tool that there is not was accepted")
	}
	_, err = p.p.calls.ClaimSuspension(ctx, &tooldv1.ClaimSuspensionRequest{SuspensionId: "none", HandOverTo: "ann"})
	if err == nil {
		t.Error("a suspension that there is not was claimed")
	}
	_, err = p.p.admin.Purge(ctx, &tooldv1.PurgeRequest{CallIds: []string{"plugin-tests-call-1"}})
	must(t, err)
	p.p.signal(syscall.SIGHUP)
	p.p.logs(t, "reloaded")
	export := new(run).do(t, p.data, "audit", "export").out
	var recorded []string
	for line := range strings.Lines(export) {
		var l call.ChainRecord
		must(t, json.Unmarshal([]byte(line), &l))
		var e audit.Entry
		must(t, json.Unmarshal(l.Record, &e))
		if e.Event == audit.EventOperation {
			recorded = append(recorded, strings.TrimSpace(fmt.Sprint(e.By.Subject, " ", e.Operation, " ", e.Of, " ", e.Error)))
		}
	}
	describe := "local DescribeCall map[arguments_sha256:3cd3b4d21bcdb092beda8d6121ba679b30b93bf75906d438524d55fdd3cce4d6 tool:glob]"
	want := []string{
		"local SetPermissionMode map[mode:plan run_id:run]", describe, describe, describe,
		"local AcceptTool map[digest:d tool:nothing]", "local AcceptTool map[digest:d tool:nothing] TOOL_NOT_QUARANTINED",
		"local ClaimSuspension map[hand_over_to:ann suspension_id:none]", "local ClaimSuspension map[hand_over_to:ann suspension_id:none] SUSPENSION_NOT_FOUND",
		"local Purge map[call_id:plugin-tests-call-1 calls:1]", "Reload map[signal:SIGHUP]",
	}
	if !slices.Equal(recorded, want) {
		t.Errorf("recorded\n%s\nwant\n%s", strings.Join(recorded, "\n"), strings.Join(want, "\n"))
	}
	p.p.stop()
	d := p.again()
	defer d.stop()
	new(run).do(t, p.data, "audit", "verify", "--checkpoints", filepath.Join(p.data, "audit", "checkpoints.jsonl")).wants(t, 0, "records of default")
}

// TestAuditPages reads the chain newest first with filters, and verifies it in the daemon.
func TestAuditPages(t *testing.T) {
	p := newPluginSite(t, auditOn)
	for range 3 {
		if e := p.call("glob", `{"pattern":"*"}`).GetError(); e != nil {
			t.Fatal(e)
		}
	}
	ctx := within(t)
	_, err := p.p.admin.AcceptTool(ctx, &tooldv1.AcceptToolRequest{Tool: "nothing", Digest: "d"})
	if err == nil {
		t.Error("a tool that there is not was accepted")
	}
	var whole []*tooldv1.AuditRecord
	eventually(t, "the records of three calls and of two operations", func() bool { // Read-only calls are written after they have ended.
		all, err := p.p.admin.ReadAudit(ctx, &tooldv1.ReadAuditRequest{})
		must(t, err)
		whole = all.GetRecords()
		return len(whole) == 3*3+2
	})
	// read returns the records of all pages of a filter.
	read := func(req *tooldv1.ReadAuditRequest) (got []*tooldv1.AuditRecord) {
		t.Helper()
		req.NewestFirst, req.PageSize = true, 2
		for {
			page, err := p.p.admin.ReadAudit(ctx, req)
			must(t, err)
			got = append(got, page.GetRecords()...)
			if req.Before = page.GetNextPosition(); req.Before == 0 {
				return got
			}
		}
	}
	positions := func(records []*tooldv1.AuditRecord) (list []int64) {
		for _, r := range records {
			list = append(list, r.GetPosition())
		}
		return list
	}
	want := positions(whole)
	slices.Reverse(want)
	if got := positions(read(&tooldv1.ReadAuditRequest{})); !slices.Equal(got, want) {
		t.Errorf("newest first: %v, want %v", got, want)
	}
	second := whole[len(whole)/2].GetTime()
	for name, tt := range map[string]struct {
		req  *tooldv1.ReadAuditRequest
		want func(r *tooldv1.AuditRecord) bool
	}{
		"call": {&tooldv1.ReadAuditRequest{CallId: "plugin-tests-call-2"}, func(r *tooldv1.AuditRecord) bool { return r.GetKey() == "plugin-tests-call-2" }},
		"kind": {&tooldv1.ReadAuditRequest{Kinds: []string{"operation", "finished"}}, func(r *tooldv1.AuditRecord) bool {
			return strings.Contains(string(r.GetRecord()), `"event":"operation"`) || strings.Contains(string(r.GetRecord()), `"event":"finished"`)
		}},
		"nobody": {&tooldv1.ReadAuditRequest{Principal: "nobody"}, func(*tooldv1.AuditRecord) bool { return false }},
		"who":    {&tooldv1.ReadAuditRequest{Principal: "local"}, func(r *tooldv1.AuditRecord) bool { return strings.Contains(string(r.GetRecord()), `"local"`) }},
		"after":  {&tooldv1.ReadAuditRequest{StoredAfter: second}, func(r *tooldv1.AuditRecord) bool { return !r.GetTime().AsTime().Before(second.AsTime()) }},
		"before": {&tooldv1.ReadAuditRequest{StoredBefore: second}, func(r *tooldv1.AuditRecord) bool { return r.GetTime().AsTime().Before(second.AsTime()) }},
	} {
		want = want[:0]
		for _, r := range slices.Backward(whole) {
			if tt.want(r) {
				want = append(want, r.GetPosition())
			}
		}
		if got := positions(read(tt.req)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	eventually(t, "a checkpoint of the newest record", func() bool {
		got, err := p.p.admin.ListAuditCheckpoints(ctx, &tooldv1.ListAuditCheckpointsRequest{PageSize: 1})
		must(t, err)
		return len(got.GetCheckpoints()) == 1 && got.GetCheckpoints()[0].GetPosition() == whole[len(whole)-1].GetPosition()
	})
	for _, req := range []*tooldv1.VerifyAuditRequest{{}, {FromCheckpoint: true}, {After: whole[2].GetPosition(), Link: whole[2].GetLink()}} {
		got, err := p.p.admin.VerifyAudit(ctx, req)
		must(t, err)
		if !got.GetDone() || len(got.GetFindings()) > 0 || got.GetCheckpoints() == 0 || got.GetNewest() == nil || got.GetPosition() != whole[len(whole)-1].GetPosition() {
			t.Errorf("%v: %v", req, got)
		}
	}
	got, err := p.p.admin.VerifyAudit(ctx, &tooldv1.VerifyAuditRequest{After: whole[2].GetPosition(), Link: whole[1].GetLink()})
	if err != nil || len(got.GetFindings()) != 1 || got.GetFindings()[0].GetKind() != "CHANGED" {
		t.Errorf("with the link of another record: %v, %v", got, err)
	}
	kept, err := p.p.admin.ListAuditCheckpoints(ctx, &tooldv1.ListAuditCheckpointsRequest{PageSize: 1})
	must(t, err)
	for lines, want := range map[string]string{
		kept.GetCheckpoints()[0].GetLine():                                                    "",
		strings.Replace(kept.GetCheckpoints()[0].GetLine(), `"position":`, `"position":9`, 1): "SIGNATURE",
		"not JSON": "INVALID_FIELD",
		strings.Replace(kept.GetCheckpoints()[0].GetLine(), `"namespace":"default"`, `"namespace":"other"`, 1): "SIGNATURE",
	} {
		got, err := p.p.admin.VerifyAudit(ctx, &tooldv1.VerifyAuditRequest{Checkpoints: lines})
		found := reasonOf(err)
		if len(got.GetFindings()) > 0 {
			found = got.GetFindings()[0].GetKind()
		}
		if found != want {
			t.Errorf("compared with %s: %v, %v; want %q", lines, got, err, want)
		}
	}
	problems, err := p.p.admin.ListProblems(ctx, &tooldv1.ListProblemsRequest{})
	if err != nil || slices.ContainsFunc(problems.GetProblems(), func(p *tooldv1.Problem) bool { return strings.HasPrefix(p.GetCode(), "AUDIT") }) {
		t.Errorf("problems: %v, %v", problems, err)
	}
}
