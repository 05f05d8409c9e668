package sqlite_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/sqlite"
	"github.com/toold-dev/toold/tool"
)

var benchRows = flag.Int("benchRows", 20_000, "calls in the journal of the reading benchmarks; a million at night")

// benchCall returns a call as the engine makes it, with 200 bytes of arguments.
func benchCall(id string) *call.Call {
	arguments := fmt.Sprintf(`{"path":"/workspace/project/internal/server/handler.go","text":"%0120d","limit":10}`, 7)
	return &call.Call{Namespace: "ns", ID: id, Tool: "edit_file", ToolDigest: "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b",
		Run: tool.Run{ID: "run-" + id[:8], Thread: "thread-" + id[:6]}, Caller: tool.Principal{Namespace: "ns", Subject: "orchestrator", Roles: []string{"caller"}, Method: "token"},
		RequestDigest: "d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35", Requested: arguments, Effective: arguments,
		Class: call.Sync, Status: call.New, Executed: call.NotStarted, Created: time.Now(), Revision: 1, LastSequence: 1, Epochs: []call.EpochStart{{Epoch: 1, First: 1}}}
}

func benchStep(c *call.Call, to call.Status, kind call.EventType) *store.Change {
	next := *c
	next.Revision++
	next.LastSequence++
	e := call.Event{Sequence: next.LastSequence, Time: time.Now(), Type: kind}
	if next.Status = to; to.Terminal() {
		next.Ended, next.Executed = time.Now(), call.Finished
		next.Result = &tool.Result{ToolName: next.Tool, Status: tool.StatusSuccess, Data: `{"replaced":1}`, Message: "Replaced 1 occurrence."}
		e.Outcome = &call.Outcome{Status: to, Executed: call.Finished, Result: next.Result}
	} else {
		next.Attempts = []call.Attempt{{Number: 1, Epoch: 1, Started: time.Now()}}
		e.Attempt = 1
	}
	*c = next
	return &store.Change{Call: &next, Events: []call.Event{e}}
}

func must(b *testing.B, err error) {
	if err != nil {
		b.Error(err)
	}
}

// BenchmarkTransitions measures durable transitions. Each call has three: accepted, started and finished. For comparison, it appends the
// same number of bytes to a file and syncs them with fdatasync in the same batches.
func BenchmarkTransitions(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s := open(b, sqlite.Config{Dir: filepath.Join(b.TempDir(), "data")})
			var ids atomic.Int64
			var cpu, durable, raw time.Duration
			const rounds = 5 // Alternate between the two measurements, because the speed of the disk varies.
			each := max(b.N/rounds, 3*writers)
			for range rounds {
				began, used := time.Now(), cpuTime(b)
				spread(writers, each, func(n int) {
					for ; n > 0; n -= 3 {
						c := benchCall(fmt.Sprintf("%016d", ids.Add(1)))
						must(b, s.Commit(b.Context(), creation(c)))
						must(b, s.Commit(b.Context(), benchStep(c, call.Running, call.EventAttemptStarted)))
						must(b, s.Commit(b.Context(), benchStep(c, call.Succeeded, call.EventFinished)))
					}
				})
				durable, cpu = durable+time.Since(began), cpu+cpuTime(b)-used
				raw += rawAppend(b, writers, each, 1100)
			}
			b.ReportMetric(float64(3*ids.Load())/durable.Seconds(), "transitions/s")
			b.ReportMetric(float64(cpu.Microseconds())/float64(3*ids.Load()), "cpu-µs/transition")
			b.ReportMetric(float64(rounds*each)/raw.Seconds(), "raw/s")
			b.ReportMetric(float64(3*ids.Load())/float64(rounds*each)*raw.Seconds()/durable.Seconds(), "ratio")
		})
	}
}

func cpuTime(b *testing.B) time.Duration {
	var r unix.Rusage
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// spread runs f in several goroutines. Each goroutine does its share of n.
func spread(writers, n int, f func(n int)) {
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() { f((n + writers - 1) / writers) })
	}
	wg.Wait()
}

// rawAppend measures the limit of the disk: writers pass records to one goroutine, which appends the waiting records and syncs once.
func rawAppend(b *testing.B, writers, n, size int) time.Duration {
	f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var mu sync.Mutex
	queue := []chan struct{}{}
	arrived := sync.NewCond(&mu)
	stopping := false
	var writer sync.WaitGroup
	writer.Go(func() {
		for {
			mu.Lock()
			for len(queue) == 0 && !stopping {
				arrived.Wait()
			}
			group := queue
			queue = nil
			mu.Unlock()
			if len(group) == 0 {
				return
			}
			if _, err := f.Write(make([]byte, size*len(group))); err != nil {
				b.Error(err)
			}
			must(b, unix.Fdatasync(int(f.Fd())))
			for _, done := range group {
				close(done)
			}
		}
	})
	began := time.Now()
	spread(writers, n, func(n int) {
		for range n {
			done := make(chan struct{})
			mu.Lock()
			queue = append(queue, done)
			arrived.Signal()
			mu.Unlock()
			<-done
		}
	})
	elapsed := time.Since(began)
	mu.Lock()
	stopping = true
	arrived.Signal()
	mu.Unlock()
	writer.Wait()
	return elapsed
}

// packed returns the change that stores a finished read-only call, as the engine writes it: one row.
func packed(id string) *store.Change {
	c := benchCall(id)
	c.Class, c.Run = call.Behind, tool.Run{ID: "bench-run", Thread: "bench-thread"}
	change := benchStep(c, call.Succeeded, call.EventFinished)
	change.Call.Revision, change.Call.LastSequence = 1, 3
	change.Create, change.Durability = true, store.Normal
	change.Events = []call.Event{
		{Sequence: 1, Time: c.Created, Type: call.EventAccepted, Accepted: &call.Accepted{Tool: c.Tool, ToolDigest: c.ToolDigest, Class: c.Class, Run: c.Run.ID, Thread: c.Run.Thread}},
		{Sequence: 2, Time: c.Created, Type: call.EventAttemptStarted, Attempt: 1}, change.Events[0],
	}
	change.Events[2].Sequence = 3
	return change
}

// BenchmarkReadOnly writes finished read-only calls in the BEHIND class, 64 at a time. It does not count the time to make the calls.
func BenchmarkReadOnly(b *testing.B) {
	s := open(b, sqlite.Config{Dir: filepath.Join(b.TempDir(), "data")})
	var all sync.WaitGroup
	var took, used time.Duration
	for i := 0; i < b.N; i += 64 {
		var group []*store.Change
		for j := range 64 {
			group = append(group, packed(fmt.Sprintf("bench-%020d", i+j)))
		}
		all.Add(len(group))
		began, cpu := time.Now(), cpuTime(b)
		for _, c := range group {
			s.Submit(c, func(err error) { must(b, err); all.Done() })
		}
		all.Wait()
		took, used = took+time.Since(began), used+cpuTime(b)-cpu
	}
	calls := float64((b.N + 63) / 64 * 64)
	b.ReportMetric(float64(took.Nanoseconds())/calls, "ns/call")
	b.ReportMetric(float64(used.Nanoseconds())/calls, "cpu-ns/call")
}

// BenchmarkReadPacked reads calls that are stored in packs.
func BenchmarkReadPacked(b *testing.B) {
	s := open(b, sqlite.Config{Dir: filepath.Join(b.TempDir(), "data")})
	var all sync.WaitGroup
	slots := make(chan struct{}, 2048)
	all.Add(*benchRows)
	for i := range *benchRows {
		slots <- struct{}{}
		s.Submit(packed(fmt.Sprintf("bench-%020d", i)), func(err error) { must(b, err); <-slots; all.Done() })
	}
	all.Wait()
	measured(b, "call", func(i int) error {
		_, err := s.Call(b.Context(), key(fmt.Sprintf("bench-%020d", i*7919%*benchRows)))
		return err
	})
	for name, q := range map[string]call.Query{"newest50": {Namespace: "ns"}, "run50": {Namespace: "ns", Run: "bench-run"}} {
		measured(b, name, func(int) error {
			page, err := s.Calls(b.Context(), q)
			if err == nil && len(page.Calls) != 50 {
				err = fmt.Errorf("%d calls", len(page.Calls))
			}
			return err
		})
	}
}

// filled returns a journal with many calls. Every tenth call is suspended.
func filled(b *testing.B) *sqlite.Store {
	b.Helper()
	s := open(b, sqlite.Config{Dir: filepath.Join(b.TempDir(), "data")})
	var wg sync.WaitGroup
	slots := make(chan struct{}, 2048)
	for i := range *benchRows {
		c := benchCall(fmt.Sprintf("%016d", i))
		change := creation(c)
		change.Durability = store.Normal
		if i%10 == 0 {
			c.Status = call.Suspended
			c.Rounds = []call.Round{{Suspension: call.Suspension{ID: "s" + c.ID, Round: 1, Action: "approval", Message: "May it?", Digest: c.RequestDigest, ExpiresAt: call.StampOf(time.Now().Add(time.Hour))}}}
		}
		wg.Add(1)
		slots <- struct{}{}
		s.Submit(change, func(err error) { must(b, err); <-slots; wg.Done() })
	}
	wg.Wait()
	return s
}

// measured invokes f repeatedly. It also reports the CPU time of each call of f, which varies less on a busy machine.
func measured(b *testing.B, name string, f func(i int) error) {
	b.Run(name, func(b *testing.B) {
		used := cpuTime(b)
		i := 0
		for ; b.Loop(); i++ {
			if err := f(i); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64((cpuTime(b)-used).Nanoseconds())/float64(i), "cpu-ns/op")
	})
}

func BenchmarkRead(b *testing.B) {
	s := filled(b)
	page := func(q call.Query) func(int) error {
		q.Namespace, q.Limit = "ns", 50
		return func(int) error {
			page, err := s.Calls(b.Context(), q)
			if err == nil && len(page.Calls) != 50 {
				err = fmt.Errorf("%d calls", len(page.Calls))
			}
			return err
		}
	}
	measured(b, "call", func(i int) error {
		_, err := s.Call(b.Context(), key(fmt.Sprintf("%016d", i*7919%*benchRows)))
		return err
	})
	measured(b, "oldest50", page(call.Query{Statuses: []call.Status{call.Suspended}, OldestFirst: true}))
	var walk int64 // The position where the next page begins: each round reads another page.
	measured(b, "next50", func(int) error {
		page, err := s.Calls(b.Context(), call.Query{Namespace: "ns", Limit: 50, Statuses: []call.Status{call.Suspended}, OldestFirst: true, After: walk})
		walk = page.Next
		return err
	})
	measured(b, "inbox50", page(call.Query{Action: "approval", OldestFirst: true}))
	measured(b, "newest50", page(call.Query{}))
	c, err := s.Call(b.Context(), key(fmt.Sprintf("%016d", 0)))
	must(b, err)
	record, err := call.EncodeCall(c)
	must(b, err)
	measured(b, "decode", func(int) error { // This measures the share of decoding in a get.
		_, err := call.DecodeCall(record)
		return err
	})
}

// BenchmarkUnknown looks up unknown ids, as each new call does.
func BenchmarkUnknown(b *testing.B) {
	s := filled(b)
	measured(b, "id", func(i int) error {
		if _, err := s.Call(b.Context(), call.Key{Namespace: "ns", ID: "0190a0c3e7b1d7c529f6e0d8b5a4c3e21"}); !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("call %d: %w", i, err)
		}
		return nil
	})
}
