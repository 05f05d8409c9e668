package daemon

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// scrape reads the metrics as Prometheus does and returns them by series.
func scrape(t *testing.T, p *proc) map[string]float64 {
	t.Helper()
	code, body := getMetrics(t, p, http.MethodGet, "/metrics", p.ready.Metrics)
	if code != http.StatusOK {
		t.Fatalf("%d: %s", code, body)
	}
	found, kinds, last := map[string]float64{}, map[string]string{}, ""
	for line := range strings.Lines(body) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			if kinds[name] != "" {
				t.Errorf("%s is documented twice", name)
			}
			kinds[name], last = kind, name
			continue
		}
		if strings.HasPrefix(line, "# HELP ") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		name, _, _ := strings.Cut(line[:at], "{")
		if kinds[last] == "histogram" {
			name = regexp.MustCompile("_(bucket|sum|count)$").ReplaceAllString(name, "")
		}
		if name != last {
			t.Errorf("%q stands under %s", line, last)
		}
		found[line[:at]] = v
	}
	return found
}

func getMetrics(t *testing.T, p *proc, method, path, host string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t), method, "http://"+p.ready.Metrics+path, nil)
	must(t, err)
	req.Host, req.Close = host, true
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(body)
}

func (p *proc) callTool(tool, arguments string) *tooldv1.Call {
	p.t.Helper()
	got, err := p.calls.CallTool(within(p.t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: tool, Arguments: arguments}})
	must(p.t, err)
	return got.GetCall()
}

// TestT68Metrics (T68) checks that only this machine can read the metrics. A request is refused when its Host header is a foreign name,
// even if that name resolves to this machine.
func TestT68Metrics(t *testing.T) {
	p := newSite(t, "").start("--metrics-listen", "127.0.0.1:0")
	for _, tt := range []struct {
		method, path, host string
		code               int
	}{
		{http.MethodGet, "/metrics", p.ready.Metrics, http.StatusOK},
		{http.MethodGet, "/metrics", "localhost", http.StatusOK},
		{http.MethodGet, "/metrics", "evil.test", http.StatusForbidden},
		{http.MethodPost, "/metrics", p.ready.Metrics, http.StatusMethodNotAllowed},
		{http.MethodGet, "/", p.ready.Metrics, http.StatusNotFound},
		{http.MethodGet, "/debug/pprof/", p.ready.Metrics, http.StatusNotFound},
	} {
		code, body := getMetrics(t, p, tt.method, tt.path, tt.host)
		if code != tt.code || (code == http.StatusOK) != strings.Contains(body, "toold_") {
			t.Errorf("%s %s for %s: %d %s", tt.method, tt.path, tt.host, code, body)
		}
	}
}

func TestMetrics(t *testing.T) {
	s := newSite(t, "")
	p := s.start("--metrics-listen", "127.0.0.1:0")
	must(t, os.WriteFile(s.workspace+"/a.txt", []byte("one\n"), 0o600))
	for range 3 {
		p.callTool("read", `{"path":"a.txt"}`)
	}
	p.callTool("read", `{"path":7}`)
	p.callTool("evil\"} 1\nmade_up{x=\"", "{}")
	asked := p.callTool("write", `{"path":"b.txt","content":"secret-content"}`)
	if asked.GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUSPENDED {
		t.Fatalf("%v", asked)
	}
	got := scrape(t, p)
	want := map[string]float64{
		`toold_calls_total{tool="read",outcome="SUCCEEDED"}`:         3,
		`toold_calls_total{tool="read",outcome="INVALID_ARGUMENTS"}`: 1,
		`toold_calls_total{tool="other",outcome="NOT_FOUND"}`:        1,
		`toold_questions_total{tool="write"}`:                        1,
		`toold_kill_unverified_total{tool="read"}`:                   0,
		`toold_questions_open{action="approval"}`:                    1,
		`toold_questions_open{action="in_doubt"}`:                    0,
		`toold_calls_stored{status="SUSPENDED"}`:                     1,
		`toold_call_seconds_count{tool="read"}`:                      4,
		`toold_attempt_seconds_bucket{tool="read",le="+Inf"}`:        3,
		`toold_calls_queued`:                                         0, `toold_calls_running`: 0, `toold_disk_full`: 0, `toold_watchers`: 0,
		`toold_journal_waiting{lane="durable"}`: 0,
	}
	for series, v := range want {
		if have, ok := got[series]; !ok || have != v {
			t.Errorf("%s is %v (%t), want %v", series, have, ok, v)
		}
	}
	for _, series := range []string{`toold_events_total`, `toold_journal_sync_seconds_count`, `toold_journal_group_changes_count`, `toold_disk_free_bytes`, `toold_oldest_question_seconds`} {
		if got[series] <= 0 {
			t.Errorf("%s is %v", series, got[series])
		}
	}
	if n := got[`toold_call_seconds_count{tool="write"}`]; n != 0 {
		t.Errorf("%v calls of write are timed, though people were asked", n)
	}
	for series := range got {
		for _, no := range []string{asked.GetCallId(), "secret-content", "made_up", "a.txt"} {
			if strings.Contains(series, no) {
				t.Errorf("%s tells %q", series, no)
			}
		}
	}
	_, err := p.calls.CancelCall(within(t), &tooldv1.CancelCallRequest{CallId: asked.GetCallId(), Wait: durationpb.New(0)})
	must(t, err)
	after := scrape(t, p)
	if after[`toold_calls_total{tool="write",outcome="CANCELLED"}`] != 1 || after[`toold_questions_open{action="approval"}`] != 0 || after[`toold_oldest_question_seconds`] != 0 {
		t.Error("the cancelled call is not counted, or still waits")
	}
}

// docs/reference/metrics.md lists exactly the metrics that the daemon serves.
func TestMetricsNames(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/metrics.md")
	must(t, err)
	var written []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(toold_[a-z_]+)").FindAllStringSubmatch(string(page), -1) {
		written = append(written, m[1])
	}
	p := newSite(t, "").start("--metrics-listen", "127.0.0.1:0")
	_, body := getMetrics(t, p, http.MethodGet, "/metrics", p.ready.Metrics)
	var served []string
	for _, m := range regexp.MustCompile("(?m)^# TYPE (toold_[a-z_]+)").FindAllStringSubmatch(body, -1) {
		served = append(served, m[1])
	}
	slices.Sort(written)
	slices.Sort(served)
	if !slices.Equal(written, served) {
		t.Errorf("docs/reference/metrics.md has\n%q\nserved are\n%q", written, served)
	}
}
