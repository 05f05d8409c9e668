package daemon

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toold-dev/toold/daemon/config"

	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// webhookReceiver is a webhook receiver. While it is not open, it refuses requests.
type webhookReceiver struct {
	*httptest.Server
	mu    sync.Mutex
	open  bool
	tried map[string]string // webhook-id by CloudEvent id
	taken map[string]int
	twice []string // events that were sent with two different ids
}

func newWebhookReceiver(t *testing.T) *webhookReceiver {
	e := &webhookReceiver{tried: map[string]string{}, taken: map[string]int{}}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var event struct{ ID, Type string }
		_ = json.Unmarshal(body, &event)
		e.mu.Lock()
		defer e.mu.Unlock()
		id := r.Header.Get("Webhook-Id")
		if before, known := e.tried[event.ID]; known && before != id {
			e.twice = append(e.twice, event.ID)
		}
		e.tried[event.ID] = id
		if !e.open {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		e.taken[event.ID]++
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *webhookReceiver) set(open bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open = open
}

func (e *webhookReceiver) took(event string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.taken[event]
}

const otherWebhookKey = "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=\n"

const webhookKey = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n"

// notifySite returns a site with a target "ops". more is added to the settings of the target.
func notifySite(t *testing.T, url, more string) (s *site, file, secret string) {
	s = newSite(t, "rules:\n  - {action: ask, tools: [bash]}\n")
	dir := filepath.Dir(s.data)
	file, secret = filepath.Join(dir, "config"), filepath.Join(dir, "webhook")
	must(t, os.WriteFile(secret, []byte(webhookKey), 0o600))
	must(t, os.WriteFile(file, fmt.Appendf(nil, "notify:\n  targets:\n    - {name: ops, url: %q, secret_file: %q%s}\n", url, secret, more), 0o600))
	return s, file, secret
}

// TestNotifySurvivesKills checks the delivery of events while the daemon is killed repeatedly between commit and delivery. Each event
// arrives at least once. All deliveries of an event have the same id. After a completed delivery, the event is not sent again.
func TestNotifySurvivesKills(t *testing.T) {
	e := newWebhookReceiver(t)
	s, file, _ := notifySite(t, e.URL, "")
	var events []string
	for i := range 4 {
		p := s.start("--config", file)
		for j := range 3 {
			id := fmt.Sprintf("notify-kill-call-%d-%d", i, j)
			got, err := p.calls.CallTool(within(t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "bash", CallId: id, Arguments: `{"command":"true"}`}})
			must(t, err)
			open := got.GetCall().GetSuspension().GetSuspensionId()
			if open == "" {
				t.Fatalf("not suspended: %v", got)
			}
			events = append(events, "default/"+id+"/"+open)
		}
		p.kill()
	}
	e.set(true)
	p := s.start("--config", file, "--metrics-listen", "127.0.0.1:0")
	for _, event := range events {
		eventually(t, event, func() bool { return e.took(event) > 0 })
	}
	_, err := p.calls.CancelCall(within(t), &tooldv1.CancelCallRequest{CallId: "notify-kill-call-0-0", Wait: durationpb.New(5 * time.Second)})
	must(t, err)
	eventually(t, "the end", func() bool { return e.took("default/notify-kill-call-0-0/finished") == 1 })
	eventually(t, "the daemon has received the acknowledgement", func() bool {
		waiting, ok := scrape(t, p)[`toold_notify_waiting{target="ops"}`]
		return ok && waiting == 0
	})
	p.signal(syscall.SIGTERM)
	p.wait(hangs)
	before := len(e.tried)
	p = s.start("--config", file)
	_, err = p.calls.CancelCall(within(t), &tooldv1.CancelCallRequest{CallId: "notify-kill-call-0-1", Wait: durationpb.New(5 * time.Second)})
	must(t, err)
	eventually(t, "the next end", func() bool { return e.took("default/notify-kill-call-0-1/finished") == 1 })
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.twice) > 0 || len(e.tried) != before+1 {
		t.Errorf("events with two ids %q; %d events, then %d", e.twice, before, len(e.tried))
	}
	for event, n := range e.taken {
		if n != 1 { // Exactly one request, because the daemon was not killed after the first delivery.
			t.Errorf("%s arrived %d times", event, n)
		}
	}
}

// TestP6NotifyAndStreamsCloseTogether (P6) checks two waits at shutdown: for a receiver that does not answer, and for a client that does not
// disconnect. They must run at the same time.
func TestP6NotifyAndStreamsCloseTogether(t *testing.T) {
	const after = 2*closeStreams - 150*time.Millisecond // the time that both waits would take one after the other
	var took time.Duration
	for range 10 { // Try several times, because a busy machine may delay the daemon.
		if took = timeToCut(t); took <= after {
			return
		}
	}
	t.Errorf("it had %v", took)
}

// timeToCut returns how long after SIGTERM the daemon cut the connection to the receiver.
func timeToCut(t *testing.T) time.Duration {
	t.Helper()
	arrived, cut := make(chan struct{}, 1), make(chan time.Time, 1)
	e := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		<-r.Context().Done() // wait until the daemon cuts the request
		cut <- time.Now()
	}))
	t.Cleanup(e.Close)
	s, file, _ := notifySite(t, e.URL, "")
	s.write(bashAllowed)
	p := s.start("--config", file)
	_, err := p.calls.CallTool(within(t), &tooldv1.CallToolRequest{Spec: bash("told", "true")})
	must(t, err)
	conn, err := net.Dial("tcp", p.ready.TCP)
	must(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")) // a client that never answers, so a graceful shutdown cannot end its connection
	must(t, err)
	<-arrived
	p.signal(syscall.SIGTERM)
	asked := time.Now()
	p.wait(hangs)
	return (<-cut).Sub(asked)
}

// A reload applies changed targets and secrets, and handles letters for removed targets.
func TestNotifyReload(t *testing.T) {
	shut, e := newWebhookReceiver(t), newWebhookReceiver(t)
	e.set(true)
	s, file, secret := notifySite(t, shut.URL, ", events: [finished]")
	p := s.start("--config", file)
	ask := func(id string) {
		t.Helper()
		_, err := p.calls.CallTool(within(t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "bash", CallId: id, Arguments: `{"command":"true"}`}})
		must(t, err)
		_, err = p.calls.CancelCall(within(t), &tooldv1.CancelCallRequest{CallId: id, Wait: durationpb.New(5 * time.Second)})
		must(t, err)
	}
	reload := func(want string) {
		t.Helper()
		got, err := p.admin.Reload(within(t), &tooldv1.ReloadRequest{})
		must(t, err)
		if text := fmt.Sprint(got.GetChanged(), got.GetNeedsRestart()); text != want {
			t.Errorf("reloaded %s, want %s", text, want)
		}
	}
	ask("notify-reload-call-1")
	must(t, os.WriteFile(file, fmt.Appendf(nil, "notify:\n  targets:\n    - {name: ops, url: %q, secret_file: %q}\n", e.URL, secret), 0o600))
	reload("[notify] []")
	eventually(t, "the letter that waited", func() bool { return e.took("default/notify-reload-call-1/finished") == 1 })
	reload("[] []")
	must(t, os.WriteFile(secret, []byte(strings.Replace(webhookKey, "MDEy", "NDU2", 1)+webhookKey), 0o600))
	reload("[notify] []")
	must(t, os.WriteFile(secret, []byte("not a secret\n"), 0o600))
	if _, err := p.admin.Reload(within(t), &tooldv1.ReloadRequest{}); reasonOf(err) != "CONFIG_INVALID" || strings.Contains(err.Error(), "not a secret") {
		t.Errorf("a wrong secret: %v", err)
	}
	ask("notify-reload-call-2")
	eventually(t, "with the old secrets", func() bool { return e.took("default/notify-reload-call-2/finished") == 1 })
}

// TestNotifyByReference checks a target whose key is a reference to a secret. The reference is resolved each time a letter is sent, if the
// target may use the secret. A new key signs the next letter. Without a key, letters wait and are not lost.
func TestNotifyByReference(t *testing.T) {
	signed := make(chan string, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		by := "nobody"
		for _, key := range []string{webhookKey, otherWebhookKey} {
			raw, _ := base64.StdEncoding.DecodeString(strings.TrimSpace(strings.TrimPrefix(key, "whsec_")))
			mac := hmac.New(sha256.New, raw)
			fmt.Fprintf(mac, "%s.%s.%s", r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp"), body)
			if r.Header.Get("Webhook-Signature") == "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
				by = key
			}
		}
		signed <- r.URL.Path + " by " + by
	}))
	defer receiver.Close()
	s, file, key := notifySite(t, receiver.URL, "")
	config := func(tools string) {
		must(t, os.WriteFile(file, fmt.Appendf(nil, "notify:\n  targets:\n    - {name: ops, url: %q, events: [finished], secret: 'secret://hook'}\n"+
			"    - {name: others, url: %q, events: [finished], secret: 'secret://hook', first_delay: 10ms, most_delay: 10ms}\n"+
			"secrets:\n  - {name: hook, file: %q, allow: [{tools: [%s], parameters: [secret]}]}\n", receiver.URL+"/ops", receiver.URL+"/others", key, tools), 0o600))
	}
	received := func() string {
		t.Helper()
		select {
		case by := <-signed:
			return by
		case <-time.After(hangs):
			t.Fatal("no letter came")
			return ""
		}
	}
	config("'notify:ops'")
	p := s.start("--config", file)
	ask := func(id string) {
		t.Helper()
		_, err := p.calls.CallTool(within(t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "bash", CallId: id, Arguments: `{"command":"true"}`}})
		must(t, err)
		_, err = p.calls.CancelCall(within(t), &tooldv1.CancelCallRequest{CallId: id, Wait: durationpb.New(5 * time.Second)})
		must(t, err)
	}
	ask("notify-secret-call-1")
	if by := received(); by != "/ops by "+webhookKey {
		t.Errorf("signed %s", by)
	}
	must(t, os.WriteFile(key, []byte(otherWebhookKey), 0o600))
	ask("notify-secret-call-2")
	if by := received(); by != "/ops by "+otherWebhookKey {
		t.Errorf("with the next key: signed %s", by)
	}
	p.logs(t, "secret refused")
	config("'notify:*'")
	_, err := p.admin.Reload(within(t), &tooldv1.ReloadRequest{})
	must(t, err)
	for range 2 { // the two letters that waited
		if by := received(); by != "/others by "+otherWebhookKey {
			t.Errorf("who is entitled now: signed %s", by)
		}
	}
	if strings.Contains(p.log.String(), "whsec_") {
		t.Error("a key is in the log")
	}
}

func TestNotifySettings(t *testing.T) {
	dir := t.TempDir()
	secret, empty := filepath.Join(dir, "secret"), filepath.Join(dir, "empty")
	must(t, os.WriteFile(secret, []byte(webhookKey), 0o600))
	must(t, os.WriteFile(empty, nil, 0o600))
	for entry, want := range map[string]string{
		"url: 'https://x.example', secret_file: " + secret:                                 "notify.targets[0].name: is required: ",
		"name: a, secret_file: " + secret:                                                  "notify.targets[0].url: is required: ",
		"name: a, url: 'https://x.example'":                                                "notify.targets[0].secret_file: requires a secret",
		"name: a, url: 'https://x.example', secret_file: " + empty:                         "contains no secret",
		"name: a, url: 'https://x.example', secret_file: /no-such-file":                    "no such file",
		"name: a, url: 'http://x.example', secret_file: " + secret:                         "url: http is only allowed for this machine",
		"name: a, url: 'https://x.example', events: [began], secret_file: " + secret:       `events: "began" is not one of suspended, finished`,
		"name: a, url: 'https://x.example', match: {tools: ['[']}, secret_file: " + secret: `match.tools: "[" is not a pattern`,
		"name: a, url: 'https://x.example', give_up: 31d, secret_file: " + secret:          "give_up: ",
		"name: a, url: 'https://x.example', timeout: soon, secret_file: " + secret:         `"soon" is not a duration`,
		"name: a, url: 'https://x.example', secret: 'secret://x', secret_file: " + secret:  "requires either secret or secret_file",
		"name: a, url: 'https://x.example', secret: whsec_x":                               "secret: is not a reference such as secret://name",
		"name: a, url: 'https://x.example', ca: " + secret + ", secret_file: " + secret:    "ca: contains no PEM certificate",
		"name: a, url: 'https://x.example', at_once: 65, secret_file: " + secret:           "at_once: 65 is not between",
		"name: a, url: 'https://x.example', first_delay: 2h, secret_file: " + secret:       "first_delay: ",
		"name: a b, url: 'https://x.example', secret_file: " + secret:                      `name: "a b" is not a name`,
		"name: a, url: 'https://u:p@x.example', secret_file: " + secret:                    "must not contain a user or password",
	} {
		cfg, err := load(t, "notify:\n  targets:\n    - {"+entry+"}\n", nil)
		if err == nil {
			_, err = newPlugins(cfg, nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "toold.yaml:3:") {
			t.Errorf("%s: error %v, want %q and the line and column", entry, err, want)
		}
	}
	text := "notify: {targets: [{name: a, url: 'https://x.example/y', events: [suspended], match: {tools: [x*], namespaces: [n]}, secret_file: '" + secret + "', content: true, give_up: 1d}]}\n"
	cfg, err := load(t, text, nil)
	must(t, err)
	if _, err := newPlugins(cfg, nil); err != nil {
		t.Fatal(err)
	}
	again, err := load(t, config.Text(cfg), nil)
	must(t, err)
	if a, b := fmt.Sprint(cfg.Notify), fmt.Sprint(again.Notify); a != b || len(cfg.Notify.Targets) != 1 {
		t.Errorf("shown as %s, was %s", b, a)
	}
	if _, err := load(t, "workspace: "+dir+"\n"+text, nil); err == nil || !strings.Contains(err.Error(), "notify: a") {
		t.Errorf("a secret in the workspace: %v", err)
	}
}
