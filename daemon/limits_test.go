package daemon

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/setting"
	"github.com/toold-dev/toold/translate"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func TestLimitSettings(t *testing.T) {
	p := newPluginSite(t, "limits: {concurrency_principal: 5, concurrency_tools: [{tools: 'b*', calls: 1}], queue_principal: 7, questions_namespace: 9, circuit_failures: 3, circuit_open: 1m}\n")
	info, err := p.p.admin.GetInfo(within(t), &tooldv1.GetInfoRequest{})
	must(t, err)
	l := info.GetLimits()
	if l.GetRunningCallsPrincipal() != 5 || l.GetRunningCallsNamespace() != 0 || len(l.GetRunningCallsTools()) != 1 || l.GetRunningCallsTools()[0].GetTools() != "b*" ||
		l.GetQueuedCallsPrincipal() != 7 || l.GetQueuedCallsNamespace() != 3072 || l.GetOpenSuspensionsNamespace() != 9 || l.GetOpenSuspensionsPrincipal() != 0 ||
		l.GetCircuitFailures() != 3 || l.GetCircuitOpen().AsDuration() != time.Minute {
		t.Errorf("%v", l)
	}
	running := execute(t, p.p, bash("runs", "echo on; exec sleep 60"))
	eventually(t, "the first one runs", func() bool { return running.has(isOutput) })
	waits := bash("waits", "true")
	waits.Timeouts = &tooldv1.Timeouts{Queue: durationpb.New(50 * time.Millisecond)}
	if e := lastFinished(execute(t, p.p, waits).last(t)).GetResult().GetError(); e.GetCode() != tooldv1.ErrorCode_ERROR_CODE_TIMEOUT || e.GetReason() != "QUEUE" {
		t.Errorf("the second one of the tool: %v", e)
	}
	if e := p.call("glob", `{"pattern":"*"}`).GetError(); e != nil {
		t.Errorf("another tool: %v", e)
	}
}

// TestBoundsOfOwners checks that the bounds in the declarations of settings equal the constants in the packages that enforce them. GetInfo
// must return the same values.
func TestBoundsOfOwners(t *testing.T) {
	owners := map[string]string{
		"limits.output_budget": strconv.Itoa(registry.MaxInline), "timeouts.expiry": setting.DurationText(lifecycle.MaxExpiry),
	}
	for _, s := range config.Settings() {
		if want, owned := owners[s.Key]; owned && s.Tag.Get("max") != want {
			t.Errorf("%s is at most %s, and its owner takes %s", s.Key, s.Tag.Get("max"), want)
		}
		delete(owners, s.Key)
	}
	if len(owners) > 0 {
		t.Errorf("no setting %v", owners)
	}
	info, err := newSite(t, "").start().admin.GetInfo(within(t), &tooldv1.GetInfoRequest{})
	must(t, err)
	if l := info.GetLimits(); l.GetResult() != registry.MaxInline || l.GetTicket() != lifecycle.MaxTicket || l.GetSuspension().AsDuration() != lifecycle.MaxExpiry ||
		l.GetFrame() != translate.MaxFrame || l.GetContent() != translate.MaxContent {
		t.Errorf("GetInfo shows %v", l)
	}
}

func TestLimitsAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"concurrency_namespace: -1":                      "limits.concurrency_namespace: -1 is not between 0 and 100000",
		"queue_principal: 5000":                          "limits.queue_principal: 5000 is more than limits.queue_length, which is 4096",
		"questions_principal: 1000000000":                "is not between 0 and 100000000",
		"circuit_failures: 2000":                         "is not between 0 and 1000",
		"circuit_open: 48h":                              "limits.circuit_open: 2d is not between",
		"concurrency_tools: [{tools: '[', calls: 1}]":    `limits.concurrency_tools[0].tools: "[" is not a pattern`,
		"concurrency_tools: [{tools: 'web_*'}]":          "limits.concurrency_tools[0].calls: 0 is not between 1",
		"concurrency_tools: [{tool: 'web_*', calls: 1}]": `did you mean "limits.concurrency_tools[0].tools"`,
	} {
		if _, err := load(t, "limits: {"+text+"}\n", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}
