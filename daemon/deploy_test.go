package daemon

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc/codes"

	"github.com/toold-dev/toold/tool"
)

const (
	alertsFile    = "../deploy/prometheus/alerts.yaml"
	dashboardFile = "../deploy/grafana/toold.json"
	monitorPage   = "../docs/how-to/monitor.md"
)

// alertRules is the file of alert rules.
type alertRules struct {
	Groups []struct {
		Name  string
		Rules []alertRule
	}
}

type alertRule struct {
	Alert       string            `yaml:"alert,omitempty"`
	Record      string            `yaml:"record,omitempty"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

func readAlerts(t *testing.T) []alertRule {
	t.Helper()
	var file alertRules
	must(t, yaml.Unmarshal([]byte(readText(t, alertsFile)), &file))
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) < 20 {
		t.Fatalf("%s has %d groups; want one with all alerts", alertsFile, len(file.Groups))
	}
	return file.Groups[0].Rules
}

// A dashboardPanel has the fields of a Grafana panel that the dashboard uses. The test refuses other fields, because Grafana ignores
// misspelt ones.
type dashboardPanel struct {
	ID          int             `json:"id"`
	Type        string          `json:"type"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Collapsed   bool            `json:"collapsed"`
	Datasource  json.RawMessage `json:"datasource"`
	GridPos     struct{ X, Y, W, H int }
	FieldConfig struct {
		Defaults struct {
			Unit   string
			Min    float64
			Custom struct {
				FillOpacity int
				Stacking    struct{ Mode string }
			}
		}
		Overrides []any
	}
	Panels  []dashboardPanel
	Targets []struct {
		RefID        string          `json:"refId"`
		Datasource   json.RawMessage `json:"datasource"`
		Expr         string          `json:"expr"`
		LegendFormat string          `json:"legendFormat"`
	}
}

// readDashboard returns the panels of the dashboard. It checks that no panel covers another one, and that their ids differ.
func readDashboard(t *testing.T) []dashboardPanel {
	t.Helper()
	var all struct{ Panels []json.RawMessage }
	must(t, json.Unmarshal([]byte(readText(t, dashboardFile)), &all))
	var panels []dashboardPanel
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, raw := range all.Panels {
		decoder := json.NewDecoder(strings.NewReader(string(raw)))
		decoder.DisallowUnknownFields()
		var p dashboardPanel
		if err := decoder.Decode(&p); err != nil {
			t.Fatalf("%s: %v in %s", dashboardFile, err, raw)
		}
		if ids[p.ID] || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("the panel %d %q has no own id, no title or no expression", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if cells[cell] != "" || cell[0] > 23 {
					t.Errorf("the panel %q covers the panel %q, or leaves the dashboard", p.Title, cells[cell])
				}
				cells[cell] = p.Title
			}
		}
		panels = append(panels, p)
	}
	return panels
}

// expressions returns the PromQL expressions of alerts and dashboard by the name of the alert or panel.
func expressions(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, r := range readAlerts(t) {
		all[r.Alert] = append(all[r.Alert], r.Expr)
	}
	for _, p := range readDashboard(t) {
		for _, target := range p.Targets {
			all[p.Title] = append(all[p.Title], strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(target.Expr))
		}
	}
	return all
}

var (
	notMetrics  = regexp.MustCompile(`"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)|\b(offset|bool)\s+\w*`)
	identifier  = regexp.MustCompile(`\b[a-zA-Z_:][a-zA-Z0-9_:]*\b(\s*\()?`)
	labelValues = regexp.MustCompile(`\b(outcome|code)\s*[=!]~?\s*"([^"]*)"`)
)

// metricsOf returns the names of the metrics in an expression.
func metricsOf(expr string) (names []string) {
	quoted := notMetrics.ReplaceAllStringFunc(expr, func(part string) string {
		if part[0] == '"' || part[0] == '{' || part[0] == '[' {
			return ""
		}
		return " "
	})
	for _, name := range identifier.FindAllString(quoted, -1) {
		if !strings.HasSuffix(name, "(") && !slices.Contains([]string{"and", "or", "unless"}, name) {
			names = append(names, name)
		}
	}
	return names
}

// Alerts and dashboard name only metrics that the daemon serves, and outcomes and codes that exist.
func TestAlertsAndDashboardNameServedMetrics(t *testing.T) {
	p := newSite(t, "").start("--metrics-listen", "127.0.0.1:0")
	_, body := getMetrics(t, p, http.MethodGet, "/metrics", p.ready.Metrics)
	served := map[string]bool{"up": true} // Prometheus adds this metric itself
	for _, m := range regexp.MustCompile("(?m)^# TYPE (toold_[a-z_]+) ([a-z]+)").FindAllStringSubmatch(body, -1) {
		if m[2] != "histogram" {
			served[m[1]] = true
			continue
		}
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			served[m[1]+part] = true
		}
	}
	known := map[string]bool{"SUCCEEDED": true, "FAILED": true}
	for _, code := range []tool.Code{
		tool.InvalidArguments, tool.ExecutionFailed, tool.Denied, tool.NotFound, tool.Internal, tool.Timeout, tool.Cancelled, tool.Expired,
		tool.Interrupted, tool.InDoubt, tool.Sandbox, tool.ResourceExhausted, tool.Upstream,
	} {
		known[string(code)] = true
	}
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		known[code.String()] = true
	}
	for of, exprs := range expressions(t) {
		for _, expr := range exprs {
			names := metricsOf(expr)
			if len(names) == 0 {
				t.Errorf("%s: %s names no metric", of, expr)
			}
			for _, name := range names {
				if !served[name] {
					t.Errorf("%s: the daemon serves no metric %s", of, name)
				}
			}
			for _, m := range labelValues.FindAllStringSubmatch(expr, -1) {
				for value := range strings.SplitSeq(m[2], "|") {
					if !known[value] {
						t.Errorf("%s: no call or request has the %s %s", of, m[1], value)
					}
				}
			}
		}
	}
}

// promtool runs Debian's promtool. scripts/test.sh installs it.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command("promtool", args...).CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v; if it is missing: sudo apt-get install -y --no-install-recommends prometheus\n%s", strings.Join(args, " "), err, out)
	}
}

// The alerts fire as their tests expect, and Prometheus accepts every expression of the dashboard.
func TestPromtoolAcceptsAlertsAndDashboard(t *testing.T) {
	promtool(t, "check", "rules", alertsFile)
	promtool(t, "test", "rules", "../deploy/prometheus/alerts_test.yaml")
	var file alertRules
	file.Groups = append(file.Groups, struct {
		Name  string
		Rules []alertRule
	}{Name: "dashboard"})
	for _, exprs := range expressions(t) {
		for _, expr := range exprs {
			file.Groups[0].Rules = append(file.Groups[0].Rules, alertRule{Record: fmt.Sprintf("dashboard:%d", len(file.Groups[0].Rules)), Expr: expr})
		}
	}
	text, err := yaml.Marshal(file)
	must(t, err)
	rules := filepath.Join(t.TempDir(), "dashboard.yaml")
	must(t, os.WriteFile(rules, text, 0o600))
	promtool(t, "check", "rules", rules)
}

// Each alert has a severity, a text, a test, and a section of the page that says what to do. Each section is about an alert.
func TestEachAlertHasASection(t *testing.T) {
	page, tests := readText(t, monitorPage), readText(t, "../deploy/prometheus/alerts_test.yaml")
	var sections, alerts []string
	for _, m := range regexp.MustCompile(`(?m)^### (.+)$`).FindAllStringSubmatch(page, -1) {
		sections = append(sections, m[1])
	}
	for _, r := range readAlerts(t) {
		alerts = append(alerts, r.Alert)
		if got, want := r.Annotations["runbook_url"], "https://github.com/toold-dev/toold/blob/main/docs/how-to/monitor.md#"+strings.ToLower(r.Alert); got != want {
			t.Errorf("%s: runbook_url %q, want %q", r.Alert, got, want)
		}
		if s := r.Labels["severity"]; s != "critical" && s != "warning" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s: severity %q, annotations %q", r.Alert, s, r.Annotations)
		}
		if !strings.Contains(tests, "alertname: "+r.Alert+"\n        exp_alerts:") {
			t.Errorf("no test expects %s", r.Alert)
		}
	}
	slices.Sort(sections)
	slices.Sort(alerts)
	if !slices.Equal(sections, alerts) {
		t.Errorf("%s has the sections\n%q\nthe alerts are\n%q", monitorPage, sections, alerts)
	}
}

// A probe is the part of a probe in a Kubernetes manifest that the daemon answers.
type probe struct {
	HTTPGet struct{ Path string } `yaml:"httpGet"`
}

// A statefulSet has the parts of a Kubernetes manifest that the daemon reads or answers.
type statefulSet struct {
	Spec struct {
		Template struct {
			Spec struct {
				Containers []struct {
					Env       []struct{ Name, Value string }
					Startup   probe `yaml:"startupProbe"`
					Liveness  probe `yaml:"livenessProbe"`
					Readiness probe `yaml:"readinessProbe"`
				}
			}
		}
	}
}

// writeCertificate writes a certificate for 127.0.0.1 with its key, and returns a client that trusts it.
func writeCertificate(t *testing.T, dir string) *http.Client {
	t.Helper()
	from := httptest.NewTLSServer(nil)
	t.Cleanup(from.Close)
	pair := from.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "tls.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))
	return from.Client()
}

// A daemon with the environment of the Kubernetes manifests, and the configuration of their page, starts and answers the probes.
func TestKubernetesManifestStartsADaemon(t *testing.T) {
	var set statefulSet
	must(t, yaml.Unmarshal([]byte(readText(t, "../deploy/kubernetes/base/statefulset.yaml")), &set))
	c := set.Spec.Template.Spec.Containers[0]
	dir := t.TempDir()
	client := writeCertificate(t, dir)
	_, config, found := strings.Cut(readText(t, "../docs/how-to/run-in-kubernetes.md"), "# toold.yaml\n")
	if !found {
		t.Fatal("the page has no toold.yaml")
	}
	config, _, _ = strings.Cut(config, "```")
	must(t, os.WriteFile(filepath.Join(dir, "toold.yaml"), []byte(strings.ReplaceAll("\n"+config, "\n   ", "\n")), 0o600))
	here := strings.NewReplacer("/etc/toold-tls/", dir+"/", "/etc/toold/", dir+"/", ":7130", ":0", ":7131", ":0", ":7132", ":0")
	for _, e := range c.Env {
		if e.Name != "TOOLD_DATA" && e.Name != "TOOLD_WORKSPACE" { // the test's site sets these itself
			t.Setenv(e.Name, here.Replace(e.Value))
		}
	}
	p := newSite(t, "").start("--listen-tcp", "0.0.0.0:0")
	defer client.CloseIdleConnections()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(p.ready.HTTP, "https://"))
	must(t, err)
	for _, asked := range []probe{c.Startup, c.Liveness, c.Readiness} {
		req, err := http.NewRequestWithContext(within(t), http.MethodGet, "https://127.0.0.1:"+port+asked.HTTPGet.Path, nil)
		must(t, err)
		resp, err := client.Do(req)
		must(t, err)
		must(t, resp.Body.Close())
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", asked.HTTPGet.Path, resp.Status)
		}
	}
	_, port, err = net.SplitHostPort(p.ready.Metrics)
	must(t, err)
	p.ready.Metrics = "127.0.0.1:" + port
	if code, body := getMetrics(t, p, http.MethodGet, "/metrics", "toold.toold.svc:7132"); code != http.StatusOK || !p.ready.TLS {
		t.Errorf("metrics: %d %s; ready: %+v", code, body, p.ready)
	}
	if strings.Contains(p.log.String(), "TOOLD_") {
		t.Errorf("the daemon warns about a variable:\n%s", p.log)
	}
}

// The Compose file names only settings that exist.
func TestComposeSettings(t *testing.T) {
	var file struct {
		Services map[string]struct{ Environment map[string]string }
	}
	must(t, yaml.Unmarshal([]byte(readText(t, "../deploy/compose.yaml")), &file))
	r := &run{environ: []string{"TOOLD_WORKSPACE=" + t.TempDir()}}
	for name, value := range file.Services["toold"].Environment {
		r.environ = append(r.environ, name+"="+value)
	}
	r.do(t, t.TempDir(), "config", "show")
	for _, e := range r.environ {
		if name, _, _ := strings.Cut(e, "="); !strings.Contains(r.out, "environment "+name) {
			t.Errorf("no setting comes from %s:\n%s%s", e, r.out, r.err)
		}
	}
}

var (
	inlineCommand = regexp.MustCompile("`(toold [a-z][^`]*)`")
	fencedCommand = regexp.MustCompile(`(?m)(?:^ *|&& |\| |-- )(?:sudo (?:-u toold )?)?(toold [^|&\n#]*)`)
	fence         = regexp.MustCompile("(?ms)^ *```(?:sh)?\n(.*?)^ *```$|^(    [^\n]*)$")
	verb          = regexp.MustCompile(`^[a-z][a-z-]*$`)
)

// The pages for operators name only commands and flags that exist.
func TestCommandsOfOperatorsPages(t *testing.T) {
	for _, page := range []string{"install.md", "back-up.md", "manage-tokens.md", "move-a-store.md", "monitor.md", "rotate.md", "run-in-kubernetes.md"} {
		text := readText(t, "../docs/how-to/"+page)
		var commands []string
		for _, m := range inlineCommand.FindAllStringSubmatch(text, -1) {
			commands = append(commands, m[1])
		}
		for _, m := range fence.FindAllStringSubmatch(text, -1) {
			for _, c := range fencedCommand.FindAllStringSubmatch(m[1]+m[2], -1) {
				commands = append(commands, c[1])
			}
		}
		if len(commands) < 3 {
			t.Errorf("%s: the test finds only the commands %q", page, commands)
		}
		for _, command := range commands {
			checkCommand(t, page, strings.Fields(command)[1:])
		}
	}
}

var usage = regexp.MustCompile(`(?m)^Usage:\n  toold((?: [a-z-]+)*)(.*)$`)

// checkCommand checks that the command line has the verbs and the flags of a command.
func checkCommand(t *testing.T, page string, words []string) {
	t.Helper()
	end := slices.IndexFunc(words, func(word string) bool { return !verb.MatchString(word) })
	if end < 0 {
		end = len(words)
	}
	help := new(run).do(t, t.TempDir(), append(slices.Clone(words[:min(end, 3)]), "--help")...)
	found := usage.FindStringSubmatch(help.out)
	if found == nil {
		t.Errorf("%s: toold %s --help: %s", page, strings.Join(words, " "), help.err)
		return
	}
	verbs := strings.Fields(found[1])
	if end > 0 && len(verbs) == 0 || end > len(verbs) && !strings.ContainsAny(found[2], "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		t.Errorf("%s: there is no command toold %s", page, strings.Join(words, " "))
	}
	for _, word := range words {
		if flag, _, _ := strings.Cut(word, "="); strings.HasPrefix(flag, "--") && flag != "--" && !strings.Contains(help.out, flag+" ") {
			t.Errorf("%s: toold %s has no flag %s", page, strings.Join(verbs, " "), flag)
		}
	}
}
