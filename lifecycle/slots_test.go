package lifecycle_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// ward is a tool whose executions wait until the test ends them one by one.
type ward struct {
	mu      sync.Mutex
	running []*tool.Call
	let     map[string]chan struct{}
	order   []string // namespace and subject of each call that was started, in order
	most    map[string]int
}

func newWard() *ward { return &ward{let: map[string]chan struct{}{}, most: map[string]int{}} }

func (w *ward) tool(id string) tool.Tool {
	return made(id, mutating, func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		let := w.enter(c)
		select {
		case <-let:
		case <-ctx.Done():
		}
		w.leave(c)
		return tool.Text("done"), nil
	})
}

func (w *ward) enter(c *tool.Call) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	let := make(chan struct{})
	w.let[c.ID] = let
	w.running = append(w.running, c)
	w.order = append(w.order, c.Namespace+"/"+c.Caller.Subject)
	count := map[string]int{}
	for _, r := range w.running {
		for _, k := range []string{"all", r.Namespace, r.Namespace + "/" + r.Caller.Subject, "tool " + r.Tool} {
			count[k]++
		}
	}
	for k, n := range count {
		w.most[k] = max(w.most[k], n)
	}
	return let
}

func (w *ward) leave(c *tool.Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running = slices.DeleteFunc(w.running, func(r *tool.Call) bool { return r.ID == c.ID })
}

// next ends the oldest execution. It returns after the call that gets the freed slot has begun.
func (w *ward) next() bool {
	w.mu.Lock()
	if len(w.running) == 0 {
		w.mu.Unlock()
		return false
	}
	let := w.let[w.running[0].ID]
	w.mu.Unlock()
	close(let)
	synctest.Wait()
	return true
}

func (w *ward) came() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.order, " ")
}

// beginAs starts a detached call of the given principal.
func (w *world) beginAs(namespace, subject, id string) error {
	w.t.Helper()
	p := tool.Principal{Namespace: namespace, Subject: subject, Roles: []string{"caller"}}
	s := spec(id, "")
	s.Run = tool.Run{}
	watcher, err := w.e.Execute(w.t.Context(), p, s, call.ExecuteOptions{})
	if err == nil {
		watcher.Close()
	}
	return err
}

func (w *world) beginMany(n int, namespace, subject, id string) {
	w.t.Helper()
	for range n {
		if err := w.beginAs(namespace, subject, id); err != nil {
			w.t.Fatal(err)
		}
	}
	synctest.Wait()
}

func TestSlotsAreRoundRobin(t *testing.T) {
	tests := []struct {
		name string
		came func(w *world)
		want string
	}{
		{"namespaces", func(w *world) {
			w.beginMany(5, "a", "x", "t")
			w.beginMany(2, "b", "x", "t")
			w.beginMany(1, "c", "x", "t")
		}, "a/x a/x b/x c/x a/x b/x a/x a/x"},
		{"principals of a namespace", func(w *world) {
			w.beginMany(4, "a", "x", "t")
			w.beginMany(2, "a", "y", "t")
			w.beginMany(1, "b", "x", "t")
		}, "a/x a/x b/x a/y a/x a/y a/x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newWard()
			inBubble(t, []tool.Tool{d.tool("t")}, func(c *lifecycle.Config) { c.Concurrency, c.QueueTimeout = 1, time.Hour }, func(t *testing.T, w *world) {
				tt.came(w)
				for d.next() {
				}
				if got := d.came(); got != tt.want {
					t.Errorf("came in\n%s, want\n%s", got, tt.want)
				}
				if st := w.e.Stats(); st.Running != 0 || st.Queued != 0 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

func TestConcurrencyLimits(t *testing.T) {
	tests := []struct {
		name   string
		change func(*lifecycle.Config)
		most   map[string]int
	}{
		{"in all", func(c *lifecycle.Config) { c.Concurrency = 5 }, map[string]int{"all": 5}},
		{"of a namespace", func(c *lifecycle.Config) { c.NamespaceConcurrency = 3 }, map[string]int{"all": 6, "a": 3, "b": 3}},
		{"of a principal", func(c *lifecycle.Config) { c.PrincipalConcurrency = 2 }, map[string]int{"all": 8, "a/x": 2, "a/y": 2, "b/x": 2}},
		{"of a tool", func(c *lifecycle.Config) { c.ToolConcurrency = []call.ToolLimit{{Tools: "s*", Calls: 1}} }, map[string]int{"tool slow": 1, "tool t": 16}},
		{"of two tools, each alone", func(c *lifecycle.Config) { c.ToolConcurrency = []call.ToolLimit{{Tools: "*", Calls: 3}} }, map[string]int{"tool slow": 3, "tool t": 3, "all": 6}},
		{"of all sorts", func(c *lifecycle.Config) {
			c.Concurrency, c.NamespaceConcurrency, c.PrincipalConcurrency = 5, 4, 3
			c.ToolConcurrency = []call.ToolLimit{{Tools: "slow", Calls: 2}}
		}, map[string]int{"all": 5, "a": 4, "a/x": 3, "tool slow": 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newWard()
			long := func(c *lifecycle.Config) { c.QueueTimeout = time.Hour }
			inBubble(t, []tool.Tool{d.tool("t"), d.tool("slow")}, both(long, tt.change), func(t *testing.T, w *world) {
				for _, who := range []string{"a x", "a y", "b x", "b y"} {
					namespace, subject, _ := strings.Cut(who, " ")
					w.beginMany(4, namespace, subject, "slow")
					w.beginMany(4, namespace, subject, "t")
				}
				for d.next() {
				}
				if n := len(strings.Fields(d.came())); n != 32 {
					t.Errorf("%d calls ran, want 32", n)
				}
				for k, n := range tt.most {
					if d.most[k] != n {
						t.Errorf("%s: %d at once, want %d", k, d.most[k], n)
					}
				}
				if st := w.e.Stats(); st.Running != 0 || st.Queued != 0 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// namespacedTools has a separate source for each namespace, as workers do.
type namespacedTools struct{ lifecycle.Tools }

func (n namespacedTools) Lookup(namespace, id string) (*lifecycle.Definition, bool) {
	def, ok := n.Tools.Lookup(namespace, id)
	if !ok {
		return nil, false
	}
	own, d := *def, *def.Descriptor
	d.Source = "worker:" + namespace + "/pool"
	own.Descriptor = &d
	return &own, true
}

// TestT125ToolsOfTwoNamespacesShareNoLimit checks tools with the same id in two namespaces. The limit of a tool counts their calls
// separately.
func TestT125ToolsOfTwoNamespacesShareNoLimit(t *testing.T) {
	d := newWard()
	change := func(c *lifecycle.Config) {
		c.ToolConcurrency, c.QueueTimeout = []call.ToolLimit{{Tools: "*", Calls: 2}}, time.Hour
		c.Tools = namespacedTools{c.Tools}
	}
	inBubble(t, []tool.Tool{d.tool("slow")}, change, func(t *testing.T, w *world) {
		w.beginMany(3, "a", "x", "slow")
		w.beginMany(3, "b", "x", "slow")
		if a, b, st := d.most["a"], d.most["b"], w.e.Stats(); a != 2 || b != 2 || st.Queued != 2 {
			t.Errorf("%d calls of a and %d of b run, %d wait; want 2 of each", a, b, st.Queued)
		}
		for d.next() {
		}
	})
}

// TestLimitedToolDelaysNoOtherCall checks a call that waits because of the limit of its tool. It does not delay calls of other tools of the
// same caller.
func TestLimitedToolDelaysNoOtherCall(t *testing.T) {
	d := newWard()
	change := func(c *lifecycle.Config) { c.ToolConcurrency = []call.ToolLimit{{Tools: "slow", Calls: 1}} }
	inBubble(t, []tool.Tool{d.tool("slow"), echo("t", mutating), echo("read", reading)}, change, func(t *testing.T, w *world) {
		w.beginMany(5, "ns", "alice", "slow")
		for _, id := range []string{"t", "read"} {
			if c := w.do(spec(id, "")); c.Status != call.Succeeded {
				t.Errorf("%s is %s", id, c.Status)
			}
		}
		if st := w.e.Stats(); st.Running != 1 || st.Queued != 4 {
			t.Errorf("%+v", st)
		}
		for d.next() {
		}
	})
}

func TestQueueLengthOfEach(t *testing.T) {
	d := newWard()
	change := func(c *lifecycle.Config) {
		c.Concurrency, c.QueueLength, c.NamespaceQueue, c.PrincipalQueue, c.QueueTimeout = 1, 6, 4, 3, time.Hour
	}
	inBubble(t, []tool.Tool{d.tool("t")}, change, func(t *testing.T, w *world) {
		full := func(namespace, subject, message string) {
			t.Helper()
			err := w.beginAs(namespace, subject, "t")
			wantRefusal(t, err, call.ResourceExhausted, "QUEUE_FULL")
			if !strings.Contains(err.Error(), message) {
				t.Errorf("%v, want %q", err, message)
			}
		}
		w.beginMany(4, "a", "x", "t") // One of these calls runs, the others wait.
		full("a", "x", "your calls")
		w.beginMany(1, "a", "y", "t")
		full("a", "y", "this namespace")
		w.beginMany(2, "b", "x", "t")
		full("b", "x", "too many calls are waiting")
		full("c", "x", "too many calls are waiting")
		d.next()
		w.beginMany(1, "c", "x", "t")
		for d.next() {
		}
		if n := len(strings.Fields(d.came())); n != 8 {
			t.Errorf("%d calls ran, want 8", n)
		}
	})
}

// TestQueueLengthOfThreads checks calls that wait for their turn in a thread. The queue limits apply to them even when slots are free.
func TestQueueLengthOfThreads(t *testing.T) {
	d := newWard()
	change := func(c *lifecycle.Config) { c.QueueLength, c.PrincipalQueue, c.QueueTimeout = 100, 6, time.Hour }
	inBubble(t, []tool.Tool{d.tool("t")}, change, func(t *testing.T, w *world) {
		of := func(subject, thread string) error {
			s := spec("t", "")
			s.Run = tool.Run{Thread: thread}
			watcher, err := w.e.Execute(t.Context(), tool.Principal{Namespace: "ns", Subject: subject, Roles: []string{"caller"}}, s, call.ExecuteOptions{})
			if err == nil {
				watcher.Close()
			}
			synctest.Wait()
			return err
		}
		for _, thread := range []string{"a", "b"} {
			for range 4 { // One of these calls runs, the others wait.
				if err := of("alice", thread); err != nil {
					t.Fatal(err)
				}
			}
		}
		wantRefusal(t, of("alice", "c"), call.ResourceExhausted, "QUEUE_FULL")
		if err := of("bob", "d"); err != nil {
			t.Errorf("somebody else: %v", err)
		}
		d.next()
		if err := of("alice", "c"); err != nil {
			t.Errorf("when one less waits: %v", err)
		}
		for d.next() {
		}
		if n := len(strings.Fields(d.came())); n != 10 {
			t.Errorf("%d calls ran, want 10", n)
		}
	})
}

func TestQueueDeadlineNamesItsClock(t *testing.T) {
	d := newWard()
	change := func(c *lifecycle.Config) { c.PrincipalConcurrency, c.QueueTimeout = 1, 30*time.Second }
	inBubble(t, []tool.Tool{d.tool("t"), echo("other", mutating)}, change, func(t *testing.T, w *world) {
		w.beginMany(1, "ns", "alice", "t")
		c := w.do(spec("other", ""))
		if e := c.Result.Error; c.Status != call.Failed || c.Executed != call.NotStarted || e.Code != tool.Timeout || e.Reason != "QUEUE" || !e.Retryable {
			t.Errorf("%s %s %+v", c.Status, c.Executed, e)
		}
		if st := w.e.Stats(); st.Queued != 0 {
			t.Errorf("%+v", st)
		}
		d.next()
	})
}

// TestP11FloodLeavesOthersServed checks a caller with 10,000 waiting calls that sends even more. The other callers still get their slots in
// turn, and the waiting calls use bounded memory.
func TestP11FloodLeavesOthersServed(t *testing.T) {
	d := newWard()
	const flood, others = 10_000, 20
	change := func(c *lifecycle.Config) {
		c.Concurrency, c.QueueLength, c.NamespaceQueue, c.PrincipalQueue, c.QueueTimeout = 4, 12_000, 11_000, flood, time.Hour
	}
	inBubble(t, []tool.Tool{d.tool("t")}, change, func(t *testing.T, w *world) {
		before := inUse()
		w.beginMany(4+flood, "flood", "mallory", "t")
		each := (inUse() - before) / flood
		if each > 32<<10 {
			t.Errorf("a call that waits takes %d bytes", each)
		}
		t.Logf("a call that waits takes %d bytes", each)
		for range 100 {
			wantRefusal(t, w.beginAs("flood", "mallory", "t"), call.ResourceExhausted, "QUEUE_FULL")
		}
		for i := range others {
			w.beginMany(2, "quiet", fmt.Sprint("caller-", i), "t")
		}
		// Every second slot that becomes free goes to the quiet namespace. Its callers get these slots in turn.
		for range 4 * others {
			d.next()
		}
		served := map[string]int{}
		for _, who := range strings.Fields(d.came()) {
			served[who]++
		}
		for i := range others {
			if n := served[fmt.Sprint("quiet/caller-", i)]; n != 2 {
				t.Errorf("caller %d was served %d times of 2", i, n)
			}
		}
		if served["flood/mallory"] < others {
			t.Errorf("the flood was served %d times: it has its turns too", served["flood/mallory"])
		}
	})
}

// inUse returns the bytes of objects and stacks in use.
func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
