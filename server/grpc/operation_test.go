package grpcserver_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/server/service"
	"github.com/toold-dev/toold/tool"
)

// operations collects the reported operations.
type operations struct {
	mu  sync.Mutex
	all []service.Operation
}

func (o *operations) add(_ context.Context, op service.Operation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, op)
}

func (o *operations) take() []service.Operation {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.all
	o.all = nil
	return all
}

// TestOperationsOfOperators checks that requests for operators and admins are reported before they run, except requests that only read.
func TestOperationsOfOperators(t *testing.T) {
	var reported operations
	var only []access.Token
	for _, role := range []string{"operator", "admin"} {
		only = append(only, access.Token{Hash: hashOf(tokenOf("only-" + role)), Principal: tool.Principal{Namespace: "default", Subject: "only-" + role, Roles: []string{role}}})
	}
	w := newWorld(t, options{tokens: only, config: func(c *service.Config) { c.Operation = reported.add }})
	readers := []string{"ListDeadLetters", "ListTokens", "ListQuarantinedTools", "ReadAudit", "VerifyAudit", "ListAuditCheckpoints", "GetLoad", "TryRules"}
	table := mayCall()
	for _, m := range registered(t, w.as("vera")) {
		roles := table["/"+string(m.Parent().FullName())+"/"+string(m.Name())]
		for _, role := range roles {
			if slices.ContainsFunc(roles, func(r string) bool { return r != "operator" && r != "admin" }) {
				break
			}
			_ = probe(t, w, role, m, true)
			got := reported.take()
			reads := slices.Contains(readers, string(m.Name()))
			if reads != (len(got) == 0) || !reads && (got[0].Method != string(m.Name()) || got[0].By.Subject != "only-"+role || got[0].Refused != "") {
				t.Errorf("%s: reported %+v", m.Name(), got)
			}
		}
	}
}

// TestOperations checks that a report contains ids and settings, but never text that people typed. Refusals are reported too.
func TestOperations(t *testing.T) {
	var reported operations
	w := newWorld(t, options{config: func(c *service.Config) { c.Operation = reported.add }})
	ctx := within(t)
	alice, oscar := w.calls("alice"), tooldv1.NewAdminServiceClient(w.as("oscar"))
	_, err := alice.SetPermissionMode(ctx, &tooldv1.SetPermissionModeRequest{Selector: &tooldv1.SetPermissionModeRequest_ThreadId{ThreadId: "t1"}, Mode: "plan"})
	must(t, err)
	_, err = alice.DescribeCall(ctx, &tooldv1.DescribeCallRequest{Spec: &tooldv1.CallSpec{Tool: "write", Arguments: `{"text":"typed"}`, Run: &tooldv1.Run{RunId: "r1"}}})
	must(t, err)
	_, _ = alice.DescribeCall(ctx, &tooldv1.DescribeCallRequest{Spec: &tooldv1.CallSpec{Tool: strings.Repeat("é", 1000)}})
	_, _ = alice.RevokeRule(ctx, &tooldv1.RevokeRuleRequest{RuleId: "nothing"})
	_, _ = alice.EndRun(ctx, &tooldv1.EndRunRequest{RunId: "nowhere", Reason: "typed"})
	_, err = tooldv1.NewAdminServiceClient(w.as("adam")).Drain(ctx, &tooldv1.DrainRequest{Period: durationpb.New(time.Minute)})
	must(t, err)
	_, _ = oscar.ReleaseCalls(ctx, &tooldv1.ReleaseCallsRequest{CallIds: []string{"one", "two"}, End: true, Reason: "typed"})
	_, err = alice.GetCall(ctx, &tooldv1.GetCallRequest{CallId: "another-call-0001"})
	if err == nil {
		t.Error("a call that there is not")
	}
	_, _ = oscar.Purge(ctx, &tooldv1.PurgeRequest{RunId: "r1"})
	_, err = tooldv1.NewAdminServiceClient(w.as("alice")).Reload(ctx, &tooldv1.ReloadRequest{}) // This request is not reported, because alice may not call the method.
	if err == nil {
		t.Error("a caller reloads")
	}
	var got []string
	for _, op := range reported.take() {
		line := fmt.Sprintf("%s %s %v %s", op.By.Subject, op.Method, op.Of, op.Refused)
		if strings.Contains(line, "typed") {
			t.Errorf("reported text that a person typed: %s", line)
		}
		got = append(got, strings.TrimSpace(line))
	}
	want := []string{
		"alice SetPermissionMode map[mode:plan thread_id:t1]",
		"alice DescribeCall map[arguments_sha256:54ed1f00b8c59aabd75190117d37244fe9b91a2b538db39a3920e3d00c5b8961 run_id:r1 tool:write]",
		"alice DescribeCall map[tool:" + strings.Repeat("é", 128) + "]", "alice DescribeCall map[tool:" + strings.Repeat("é", 128) + "] INVALID_FIELD",
		"alice RevokeRule map[rule_id:nothing]", "alice RevokeRule map[rule_id:nothing] RULE_NOT_FOUND",
		"alice EndRun map[run_id:nowhere]", "alice EndRun map[run_id:nowhere] RUN_NOT_FOUND",
		"adam Drain map[period:1m0s]",
		"oscar ReleaseCalls map[call_id:one calls:2 end:true]", "oscar ReleaseCalls map[call_id:one calls:2 end:true] CALL_NOT_FOUND",
		"oscar Purge map[run_id:r1]", "oscar Purge map[run_id:r1] RUN_NOT_FOUND",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("reported\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
