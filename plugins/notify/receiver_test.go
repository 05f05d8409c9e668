package notify_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/plugins/notify"
	"github.com/toold-dev/toold/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

func secrets(t testing.TB, lines ...string) []notify.Secret {
	t.Helper()
	s, err := notify.ParseSecrets([]byte(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// outbox stores letters in memory, as the engine does on disk.
type outbox struct {
	mu      sync.Mutex
	letters map[string][]notify.Letter // letters by target
	dead    map[string]string          // reason of each dead letter, by ID
	next    int64
	changed chan struct{}
	own     func(context.Context) error // nil means that no other daemon can own the letters
}

func newOutbox() *outbox {
	return &outbox{letters: map[string][]notify.Letter{}, dead: map[string]string{}, changed: make(chan struct{})}
}

func (o *outbox) Letters(_ context.Context, target string, after int64, limit int) (page []notify.Letter, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range o.letters[target] {
		if l.Position > after && len(page) < limit {
			page = append(page, l)
		}
	}
	return page, nil
}

func (o *outbox) Settle(_ context.Context, l *notify.Letter, _ int, failed string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for target, list := range o.letters {
		o.letters[target] = slices.DeleteFunc(slices.Clone(list), func(other notify.Letter) bool { return other.ID == l.ID })
	}
	if failed != "" {
		o.dead[l.ID] = failed
	}
	close(o.changed)
	o.changed = make(chan struct{})
	return nil
}

func (o *outbox) Own(ctx context.Context) error {
	if o.own == nil {
		return nil
	}
	return o.own(ctx)
}

func (o *outbox) Epoch() int64 { return 7 }

func (o *outbox) Keep(ctx context.Context, targets []string) error {
	o.mu.Lock()
	var removed []notify.Letter
	for target, list := range o.letters {
		if !slices.Contains(targets, target) {
			removed = append(removed, list...)
		}
	}
	o.mu.Unlock()
	for i := range removed {
		_ = o.Settle(ctx, &removed[i], 0, "gone")
	}
	return nil
}

// put stores the letters of an event, as the engine does.
func (o *outbox) put(n *notify.Notifier, in hook.Notice) {
	for _, p := range n.Notify(in) {
		o.mu.Lock()
		o.next++
		o.letters[p.Queue] = append(o.letters[p.Queue], notify.Letter{
			Namespace: in.Call.Namespace, ID: "a-" + strconv.FormatInt(o.next, 10), CallID: in.Call.ID, Position: o.next, Body: p.Payload,
		})
		o.mu.Unlock()
		n.Wake(p.Queue)
	}
}

// empty waits until no letter waits for a target.
func (o *outbox) empty(t *testing.T, target string) {
	t.Helper()
	for {
		o.mu.Lock()
		left, changed := len(o.letters[target]), o.changed
		o.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-changed:
		case <-time.After(time.Minute):
			t.Fatalf("%d letters to %s still wait", left, target)
		}
	}
}

func suspended(id string) hook.Notice {
	c := &call.Call{Namespace: "ns", ID: id, Tool: "write", Status: call.Suspended, Executed: call.NotStarted, Requested: `{"path":"SECRET"}`, Effective: `{"path":"SECRET"}`}
	c.Run = tool.Run{ID: "run-1", Thread: "thread-1"}
	return hook.Notice{StoreID: "store-1", Call: c, Event: &call.Event{Type: call.EventSuspended, Time: time.Unix(1000, 0), Sequence: 2, Suspension: &call.Suspension{
		ID: "s-" + id, Action: "approval", Message: "May I <write>?", ExpiresAt: call.StampOf(time.Unix(2000, 0)), Parameters: json.RawMessage(`"SECRET"`),
		Pending: call.Pending{ID: id, Arguments: "SECRET"}, Description: tool.Description{Title: "Write SECRET"},
	}}}
}

func finished(id string) hook.Notice {
	n := suspended(id)
	n.Call.Description.Title = "Write SECRET"
	n.Event = &call.Event{Type: call.EventFinished, Time: time.Unix(3000, 0), Sequence: 4, Outcome: &call.Outcome{
		Status: call.Failed, Executed: call.Finished, Result: &tool.Result{Status: tool.StatusError, Error: &tool.Error{Code: tool.Denied, Reason: "DECLINED", Message: "SECRET"}},
	}}
	return n
}

type got struct {
	id, event, subject, kind string
	body                     string
	data                     map[string]any
}

// receiver is a server that checks requests against Standard Webhooks and CloudEvents with independent code.
type receiver struct {
	*httptest.Server
	t       *testing.T
	secrets []string // in base64; each request must contain a signature with each of these secrets

	mu   sync.Mutex
	seen []got
}

// receive starts a receiver. answer handles the n-th letter.
func receive(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, n int, l got), keys ...string) *receiver {
	r := &receiver{t: t}
	for _, k := range append(keys, key)[:max(len(keys), 1)] {
		r.secrets = append(r.secrets, strings.TrimPrefix(k, "whsec_"))
	}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		l := r.read(req)
		r.mu.Lock()
		r.seen = append(r.seen, l)
		n := len(r.seen)
		r.mu.Unlock()
		answer(w, req, n, l)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) read(req *http.Request) got {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		r.t.Errorf("body: %v", err)
	}
	l := got{id: req.Header.Get("webhook-id"), body: string(body)}
	stamp := req.Header.Get("webhook-timestamp")
	if at, err := strconv.ParseInt(stamp, 10, 64); err != nil || time.Since(time.Unix(at, 0)).Abs() > 5*time.Minute {
		r.t.Errorf("timestamp %q", stamp)
	}
	signed := strings.Fields(req.Header.Get("webhook-signature"))
	for _, secret := range r.secrets {
		raw, err := base64.StdEncoding.DecodeString(secret)
		mac := hmac.New(sha256.New, raw)
		io.WriteString(mac, l.id+"."+stamp+"."+l.body)
		if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); err != nil || !slices.Contains(signed, want) {
			r.t.Errorf("signatures %q, want %q", signed, want)
		}
	}
	var e struct {
		SpecVersion, ID, Source, Type, Subject, DataContentType string
		Time                                                    time.Time
		Data                                                    map[string]any
	}
	if err := json.Unmarshal(body, &e); err != nil || e.SpecVersion != "1.0" || e.ID == "" || e.Source != "urn:toold:store:store-1" || e.Time.IsZero() ||
		req.Header.Get("Content-Type") != "application/cloudevents+json" || req.Method != http.MethodPost {
		r.t.Errorf("%s %q %s: %v", req.Method, req.Header, body, err)
	}
	l.event, l.subject, l.kind, l.data = e.ID, e.Subject, e.Type, e.Data
	return l
}

func (r *receiver) all() []got {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

// target returns a target with retries without delay.
func (r *receiver) target(name string) notify.Target {
	return notify.Target{
		Name: name, URL: r.URL, Secrets: secrets(r.t, key), CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw}),
		First: time.Millisecond, Most: 4 * time.Millisecond,
	}
}

// deliver runs a notifier until the test ends.
func deliver(t *testing.T, o *outbox, targets ...notify.Target) *notify.Notifier {
	t.Helper()
	n, err := notify.New(notify.Config{Targets: targets})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx, o, zap.NewNop()) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	return n
}

func fine(w http.ResponseWriter, _ *http.Request, _ int, _ got) { w.WriteHeader(http.StatusNoContent) }
