package notify_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/plugins/notify"
	"github.com/toold-dev/toold/tool"
)

// TestLetters checks that a letter contains the ids and the state of its call, and no arguments or results.
func TestLetters(t *testing.T) {
	before := "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA="
	r := receive(t, fine, key, before)
	target, o := r.target("ops"), newOutbox()
	target.Secrets = secrets(t, key, "", before)
	n := deliver(t, o, target)
	n.Link("https://toold.example")
	o.put(n, suspended("call-1"))
	o.put(n, finished("call-1"))
	o.empty(t, "ops")
	all := r.all()
	if len(all) != 2 {
		t.Fatalf("%d letters", len(all))
	}
	want := []string{
		`a-1 ns/call-1/s-call-1 dev.toold.call.suspended map[action:approval call_id:call-1 executed:NOT_STARTED expires_at:1970-01-01T00:33:20Z link:https://toold.example/inbox/s-call-1 message:May I <write>? namespace:ns run_id:run-1 status:SUSPENDED suspension_id:s-call-1 thread_id:thread-1 tool:write]`,
		`a-2 ns/call-1/finished dev.toold.call.finished map[call_id:call-1 error_code:DENIED error_reason:DECLINED executed:FINISHED link:https://toold.example/calls/call-1 namespace:ns run_id:run-1 status:FAILED thread_id:thread-1 tool:write]`,
	}
	for i, l := range all {
		if text := fmt.Sprint(l.id, " ", l.event, " ", l.kind, " ", l.data); text != want[i] || l.subject != "call-1" {
			t.Errorf("letter\n%s, want\n%s", text, want[i])
		}
		if strings.Contains(l.body, "SECRET") {
			t.Errorf("content in %s", l.body)
		}
	}
	for n.Stats()[0].Waiting != 0 {
		runtime.Gosched() // Waits, because the outbox settles a letter before the queue counts it.
	}
	if s := n.Stats()[0]; s.Delivered != 2 || s.Failed != 0 || s.Dead != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestContent(t *testing.T) {
	r := receive(t, fine)
	target, o := r.target("ops"), newOutbox()
	target.Content = true
	n := deliver(t, o, target)
	long := finished("call-2")
	long.Event.Outcome.Result = &tool.Result{Message: strings.Repeat("ü\x00", 100_000), Error: nil}
	for _, in := range []hook.Notice{suspended("call-1"), finished("call-1"), long} {
		o.put(n, in)
	}
	o.empty(t, "ops")
	for _, l := range r.all() {
		if l.data["title"] != "Write SECRET" || len(l.body) > 64<<10 {
			t.Errorf("letter of %d bytes: %.300s", len(l.body), l.body)
		}
	}
}

func TestMatch(t *testing.T) {
	r := receive(t, fine)
	targets := map[string]notify.Target{}
	var list []notify.Target
	for _, name := range []string{"ends", "reads", "other"} {
		targets[name] = r.target(name)
	}
	for name, t := range targets {
		switch name {
		case "ends":
			t.Events = []notify.Event{notify.Finished}
		case "reads":
			t.Match.Tools = []string{"read*", "wr?te"}
		case "other":
			t.Match.Namespaces = []string{"other"}
		}
		list = append(list, t)
	}
	n, err := notify.New(notify.Config{Targets: list})
	if err != nil {
		t.Fatal(err)
	}
	queues := func(in hook.Notice) string {
		var names []string
		for _, p := range n.Notify(in) {
			names = append(names, p.Queue)
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	other := suspended("x")
	other.Call.Namespace, other.Call.Tool = "other", "grep"
	for want, in := range map[string]hook.Notice{"reads": suspended("x"), "ends reads": finished("x"), "other": other} {
		if got := queues(in); got != want {
			t.Errorf("queues %q, want %q", got, want)
		}
	}
}

// The test checks that a letter is sent until the receiver accepts it, always with the same IDs and bytes. The letters of one call are sent
// one after another.
func TestAReceiverThatFails(t *testing.T) {
	var down atomic.Int64
	r := receive(t, func(w http.ResponseWriter, req *http.Request, n int, l got) {
		switch down.Add(1) % 4 {
		case 1:
			w.WriteHeader(http.StatusInternalServerError)
		case 2:
			panic(http.ErrAbortHandler) // closes the connection
		case 3:
			http.Redirect(w, req, "/elsewhere", http.StatusPermanentRedirect)
		}
	})
	o := newOutbox()
	n := deliver(t, o, r.target("ops"))
	const calls = 30
	for i := range calls {
		o.put(n, suspended(fmt.Sprint("call-", i)))
	}
	for i := range calls {
		o.put(n, finished(fmt.Sprint("call-", i)))
	}
	o.empty(t, "ops")
	bodies, ended := map[string]string{}, map[string]bool{}
	for _, l := range r.all() {
		if before, known := bodies[l.id]; known && before != l.body {
			t.Errorf("letter %s was %s, then %s", l.id, before, l.body)
		}
		bodies[l.id] = l.body
		if l.kind == "dev.toold.call.finished" {
			ended[l.subject] = true
		} else if ended[l.subject] {
			t.Errorf("%s came after the end", l.event)
		}
	}
	if len(bodies) != 2*calls || len(ended) != calls || len(o.dead) != 0 {
		t.Errorf("%d letters, %d ends, dead %v", len(bodies), len(ended), o.dead)
	}
	if s := n.Stats()[0]; s.Delivered != 2*calls || s.Failed == 0 {
		t.Errorf("stats %+v", s)
	}
}

// TestRestart checks that a restarted daemon sends exactly the letters that are not delivered or dead, in the same order.
func TestRestart(t *testing.T) {
	refuse := atomic.Bool{}
	refuse.Store(true)
	first := make(chan struct{}, 100)
	r := receive(t, func(w http.ResponseWriter, _ *http.Request, _ int, l got) {
		if refuse.Load() && l.subject == "call-1" {
			first <- struct{}{}
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	o := newOutbox()
	t.Run("before", func(t *testing.T) {
		n := deliver(t, o, r.target("ops"))
		for i := range 3 {
			o.put(n, suspended(fmt.Sprint("call-", i)))
			o.put(n, finished(fmt.Sprint("call-", i)))
		}
		<-first
	})
	refuse.Store(false)
	before := len(r.all())
	deliver(t, o, r.target("ops"))
	o.empty(t, "ops")
	var events []string
	for _, l := range r.all()[before:] {
		if l.subject == "call-1" {
			events = append(events, l.event)
		}
	}
	// A letter that was in flight when the first daemon ended may arrive twice, but in order.
	if want := []string{"ns/call-1/s-call-1", "ns/call-1/finished"}; !slices.Equal(slices.Compact(events), want) {
		t.Errorf("after the restart %q, want %q", events, want)
	}
}

// When a daemon ends, it waits for the answers to letters that it has sent. The next daemon then does not send these letters again. A
// receiver that does not answer delays the end only briefly.
func TestShutdownAwaitsAnswers(t *testing.T) {
	arrived, answers := make(chan struct{}, 1), make(chan struct{})
	r := receive(t, func(http.ResponseWriter, *http.Request, int, got) { arrived <- struct{}{}; <-answers })
	o := newOutbox()
	end := func() {
		n, err := notify.New(notify.Config{Targets: []notify.Target{r.target("ops")}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- n.Run(ctx, o, zap.NewNop()) }()
		o.put(n, finished("call-1"))
		<-arrived
		stop()
		if len(r.all()) == 2 {
			close(answers)
		}
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
	}
	end()
	if len(o.letters["ops"]) != 1 {
		t.Errorf("without an answer %d letters wait, want 1", len(o.letters["ops"]))
	}
	o.letters["ops"] = nil
	end()
	if len(o.letters["ops"]) != 0 {
		t.Error("it was taken, and would be sent again")
	}
}

// The test checks that a receiver that does not answer delays neither other receivers nor the calls.
func TestAReceiverThatHangs(t *testing.T) {
	hold := make(chan struct{})
	hanging := receive(t, func(http.ResponseWriter, *http.Request, int, got) { <-hold })
	t.Cleanup(func() { close(hold) }) // must run before the server waits for its handlers
	quick := receive(t, fine)
	o := newOutbox()
	n := deliver(t, o, hanging.target("hangs"), quick.target("quick"))
	for i := range 500 {
		o.put(n, finished(fmt.Sprint("call-", i)))
	}
	o.empty(t, "quick")
	if all := len(quick.all()); all != 500 {
		t.Errorf("%d letters", all)
	}
	if s := n.Stats()[0]; s.Waiting > 256 || s.Delivered != 0 {
		t.Errorf("of the one that hangs: %+v", s)
	}
}

// The test checks that only the status decides whether a letter was accepted, even when the body never ends. No status at the deadline is a
// failure.
func TestEndlessAnswers(t *testing.T) {
	r := receive(t, func(w http.ResponseWriter, req *http.Request, n int, _ got) {
		if n == 1 {
			<-req.Context().Done()      // ends when the client gives up the request
			panic(http.ErrAbortHandler) // a plain return would answer 200, possibly before the client notices its deadline
		}
		for req.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	})
	target, o := r.target("ops"), newOutbox()
	target.Timeout = 200 * time.Millisecond
	n := deliver(t, o, target)
	o.put(n, finished("call-1"))
	o.empty(t, "ops")
	if s := n.Stats()[0]; s.Delivered != 1 || s.Failed == 0 {
		t.Errorf("stats %+v", s)
	}
}

// TestGone checks that after 410 Gone the waiting letters become dead letters, and that no more letters are written until the target is
// configured again.
func TestGone(t *testing.T) {
	var back atomic.Bool
	r := receive(t, func(w http.ResponseWriter, _ *http.Request, _ int, _ got) {
		if !back.Load() {
			w.WriteHeader(http.StatusGone)
		}
	})
	o := newOutbox()
	target := r.target("ops")
	target.AtOnce = 1
	n := deliver(t, o, target)
	for i := range 20 {
		o.put(n, suspended(fmt.Sprint("call-", i)))
	}
	o.empty(t, "ops")
	if asked := len(r.all()); asked != 1 || len(o.dead) == 0 || !strings.HasPrefix(o.dead["a-1"], "410 Gone") {
		t.Errorf("asked %d times; dead %v", asked, o.dead)
	}
	if posts := n.Notify(finished("call-1")); posts != nil || !n.Stats()[0].Gone {
		t.Errorf("still writes %v, %+v", posts, n.Stats())
	}
	back.Store(true)
	if err := n.Swap([]notify.Target{target}); err != nil {
		t.Fatal(err)
	}
	o.put(n, finished("call-1"))
	o.empty(t, "ops")
	if all := r.all(); all[len(all)-1].kind != "dev.toold.call.finished" {
		t.Errorf("last %+v", all[len(all)-1])
	}
}

// TestSwap checks that new settings apply to waiting letters, and that letters to a removed target become dead letters.
func TestSwap(t *testing.T) {
	tried := make(chan struct{}, 1000)
	old := receive(t, func(w http.ResponseWriter, _ *http.Request, _ int, _ got) {
		tried <- struct{}{}
		w.WriteHeader(http.StatusNotFound)
	})
	moved := receive(t, fine)
	o := newOutbox()
	n := deliver(t, o, old.target("moves"), old.target("goes"))
	o.put(n, finished("call-1"))
	<-tried
	if err := n.Swap([]notify.Target{moved.target("moves"), {Name: "moves"}}); err == nil || len(n.Stats()) != 2 {
		t.Fatalf("Swap = %v", err)
	}
	if err := n.Swap([]notify.Target{moved.target("moves")}); err != nil {
		t.Fatal(err)
	}
	o.empty(t, "moves")
	o.empty(t, "goes")
	if all := moved.all(); len(all) != 1 || all[0].event != "ns/call-1/finished" || o.dead["a-2"] != "gone" {
		t.Errorf("moved %v, dead %v", all, o.dead)
	}
}

func TestPurge(t *testing.T) {
	began := make(chan struct{}, 1)
	r := receive(t, func(_ http.ResponseWriter, req *http.Request, n int, l got) {
		if l.subject == "call-1" && n == 1 {
			began <- struct{}{}
			<-req.Context().Done()
		}
	})
	o := newOutbox()
	target := r.target("ops")
	target.AtOnce = 1
	n := deliver(t, o, target)
	o.put(n, suspended("call-1"))
	o.put(n, finished("call-1"))
	<-began
	o.put(n, finished("call-2"))
	o.mu.Lock()
	o.letters["ops"] = o.letters["ops"][2:] // the store also removes the letters of purged calls
	o.mu.Unlock()
	n.PurgeCalls("ns", []string{"call-1"})
	o.empty(t, "ops")
	if all := r.all(); len(all) != 2 || all[1].subject != "call-2" {
		t.Errorf("letters %+v", all)
	}
}

// The test checks that, however the receiver behaves, each letter arrives and the letters of a call are accepted in order.
func TestOrderUnderChaos(t *testing.T) {
	taken := make(chan got, 10_000)
	r := receive(t, func(w http.ResponseWriter, _ *http.Request, _ int, l got) {
		if rand.N(3) > 0 {
			w.WriteHeader([]int{400, 429, 500, 503}[rand.N(4)])
			return
		}
		taken <- l
	})
	o := newOutbox()
	target := r.target("ops")
	target.AtOnce = 16
	n := deliver(t, o, target)
	for i := range 400 { // 400 letters are more than fit in memory
		in := suspended(fmt.Sprint("call-", i%40))
		in.Event.Suspension.ID = fmt.Sprintf("%03d", i/40)
		o.put(n, in)
	}
	o.empty(t, "ops")
	close(taken)
	last := map[string]string{}
	for l := range taken {
		if l.event <= last[l.subject] {
			t.Errorf("%s after %s", l.event, last[l.subject])
		}
		last[l.subject] = l.event
	}
	for subject, event := range last {
		if !strings.HasSuffix(event, "/009") {
			t.Errorf("last of %s: %s", subject, event)
		}
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	r := receive(t, fine)
	r.TLS.MaxVersion = tls.VersionTLS11
	target, o := r.target("ops"), newOutbox()
	target.GiveUp = time.Millisecond
	n := deliver(t, o, target)
	o.put(n, finished("call-1"))
	o.empty(t, "ops")
	if len(r.all()) != 0 || !strings.Contains(o.dead["a-1"], "protocol version") {
		t.Errorf("seen %d, dead %v", len(r.all()), o.dead)
	}
}
