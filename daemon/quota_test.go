package daemon

import (
	"net/http"
	"strings"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// The output quotas survive kill -9, appear in GetInfo and in the metrics, and a purge frees space in them.
func TestOutputQuotas(t *testing.T) {
	s := newSite(t, bashAllowed)
	settings := []string{"--limits-output-quota-thread", "3000", "--limits-output-quota-namespace", "5000", "--metrics-listen", "127.0.0.1:0"}
	p := s.start(settings...)
	info, err := p.admin.GetInfo(within(t), &tooldv1.GetInfoRequest{})
	must(t, err)
	if l := info.GetLimits(); l.GetOutputQuotaThread() != 3000 || l.GetOutputQuotaNamespace() != 5000 {
		t.Errorf("%v", l)
	}
	cut := func(id, thread string) string {
		t.Helper()
		spec := bash(id, "head -c 2000 /dev/zero | tr '\\0' x")
		spec.Run = &tooldv1.Run{RunId: "run-" + thread, ThreadId: thread}
		r := lastFinished(execute(t, p, spec).last(t)).GetResult()
		if r.GetError() != nil || !strings.Contains(r.GetMessage(), "xxx") {
			t.Errorf("%v", r)
		}
		return r.GetMetadata()["output_cut"]
	}
	want := func(id, thread, reason string) {
		t.Helper()
		if got := cut(id, thread); got != reason {
			t.Errorf("call %s is cut for %q, want %q", id, got, reason)
		}
	}
	want("first", "a", "")
	want("second", "a", "OUTPUT_QUOTA_THREAD")
	want("third", "b", "")
	p.kill()
	p = s.start(settings...)
	want("fourth", "c", "OUTPUT_QUOTA_NAMESPACE")
	_, body := getMetrics(t, p, http.MethodGet, "/metrics", p.ready.Metrics)
	if !strings.Contains(body, `toold_output_stored_bytes{namespace="default"} 4000`) {
		t.Errorf("metrics say %s", body)
	}
	_, err = p.admin.Purge(within(t), &tooldv1.PurgeRequest{CallIds: []string{"serve-tests-call-first"}})
	must(t, err)
	want("fifth", "a", "")
}
