package crash_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// soakCalls returns the number of calls of the soak: 2,000 in the landing check, 131,072 in the nightly run. TOOLD_SOAK_CALLS sets another
// number. Each call has its own run. The engine remembers the owners of 65,536 runs, then forgets them and begins again. Each half of the
// nightly run therefore fills this table once, so the halves can be compared.
func soakCalls(t *testing.T) int {
	t.Helper()
	text := os.Getenv("TOOLD_SOAK_CALLS")
	switch {
	case text == "" && os.Getenv("TOOLD_NIGHTLY") != "":
		return 1 << 17
	case text == "":
		return 2000
	}
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

// A soak is one daemon that runs for a long time.
type soak struct {
	*client
	d       *daemon
	tag     string
	next    atomic.Int64
	ended   atomic.Int64
	byKind  sync.Map // kind name to *atomic.Int64
	failure atomic.Pointer[error]
}

// usage is the set of resources that the daemon holds while nothing runs.
type usage struct {
	heap, resident                        int64
	goroutines, descriptors, processes    int64
	active, unwritten, waiting, temporary int64
}

func (u usage) String() string {
	return fmt.Sprintf("heap %.1f MB, resident %.1f MB, %d goroutines, %d descriptors, %d processes, %d temporary files, %d calls in memory",
		float64(u.heap)/1e6, float64(u.resident)/1e6, u.goroutines, u.descriptors, u.processes, u.temporary, u.active)
}

// TestSoak (T93, P11) makes many calls of all kinds. A tenth of the calls are cancelled, and in a twentieth the tool crashes. While nothing
// runs, the daemon must hold no more resources than after the first tenth of the calls.
func TestSoak(t *testing.T) { newHome(t).soak(t, soakCalls(t)) }

func (h *home) soak(t *testing.T, total int) {
	t.Helper()
	temporary := filepath.Join(h.dir, "tmp")
	must(t, os.Mkdir(temporary, 0o700))
	t.Setenv("TMPDIR", temporary)
	t.Setenv("GOGC", "20") // Keep the heap close to the size of the live data.
	settings, err := os.ReadFile(h.config)
	must(t, err)
	must(t, os.WriteFile(h.config, append(settings, "metrics: {listen: \"127.0.0.1:0\"}\n"...), 0o600))
	d, err := h.start("")
	must(t, err)
	defer d.kill()
	if served, err := d.awaitReady(); err != nil || !served {
		t.Fatalf("served = %t, %v\n%s", served, err, d.log)
	}
	c, err := dial(d.address)
	must(t, err)
	defer c.close()
	s := &soak{client: c, d: d, tag: fmt.Sprintf("%05x", os.Getpid()&0xfffff)}
	const parts = 10
	must(t, s.crowd())
	var used []usage
	for range parts {
		s.use(total / parts)
		if failure := s.failure.Load(); failure != nil {
			t.Fatalf("%v\n%s", *failure, d.log)
		}
		used = append(used, s.awaitIdle(t, temporary))
	}
	base, last := used[0], used[parts-1]
	for _, held := range []struct {
		what             string
		base, last, more int64
	}{
		{"goroutines", base.goroutines, last.goroutines, 8},
		{"descriptors", base.descriptors, last.descriptors, 8},
		{"processes", 1, last.processes, 0},
		{"temporary files", base.temporary, last.temporary, 0},
		{"calls in memory", 0, last.active + last.unwritten + last.waiting, 0},
		{"bytes of heap", meanHeap(used[:parts/2]), meanHeap(used[parts/2:]), max(4<<20, int64(total/2)*64)},
	} {
		if held.last > held.base+held.more {
			t.Errorf("%s: %d, after the first part %d", held.what, held.last, held.base)
		}
	}
	for i, u := range used {
		t.Logf("after %d calls: %v", (i+1)*total/parts, u)
	}
	slope := float64(meanHeap(used[parts/2:])-meanHeap(used[:parts/2])) / float64(total/2)
	t.Logf("ran: soak: %d calls (%s); heap %.1f to %.1f MB, %+.1f bytes for each call from the first half to the second; at the end %v", s.ended.Load(), s.kinds(), float64(base.heap)/1e6, float64(last.heap)/1e6, slope, last)
	must(t, d.stop())
}

func meanHeap(all []usage) (mean int64) {
	for _, u := range all {
		mean += u.heap / int64(len(all))
	}
	return mean
}

const clients = 12

// crowd runs one command for each client, all at the same time. The daemon keeps some resources of commands, such as open files, for later
// commands. After crowd, the daemon holds as many of these resources as it will ever hold.
func (s *soak) crowd() error {
	var all sync.WaitGroup
	errs := make([]error, clients)
	for i := range errs {
		all.Go(func() {
			command := fmt.Sprintf("mkdir -p crowd; touch crowd/%d; until [ $(ls crowd | wc -l) = %d ]; do sleep 0.02; done", i, clients)
			errs[i] = s.ends("in a crowd", auto, &tooldv1.CallSpec{Tool: "bash", Arguments: jsonText(object{"command": command}), CallId: fmt.Sprintf("soak-%s-crowd-%04d", s.tag, i), Run: &tooldv1.Run{RunId: "run-crowd-" + s.tag}},
				tooldv1.CallStatus_CALL_STATUS_SUCCEEDED)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// use makes n calls from a dozen clients and waits for their ends.
func (s *soak) use(n int) {
	end := s.next.Load() + int64(n)
	var crew sync.WaitGroup
	for range clients {
		crew.Go(func() {
			for s.failure.Load() == nil {
				i := s.next.Add(1)
				if i > end {
					s.next.Store(end)
					return
				}
				if err := s.one(i); err != nil {
					err = fmt.Errorf("call %d: %w", i, err)
					s.failure.CompareAndSwap(nil, &err)
				}
				s.ended.Add(1)
			}
		})
	}
	crew.Wait()
}

func (s *soak) one(i int64) error {
	id := fmt.Sprintf("soak-%s-%010d", s.tag, i)
	spec := func(tool string, arguments any) *tooldv1.CallSpec {
		return &tooldv1.CallSpec{Tool: tool, Arguments: jsonText(arguments), CallId: id, Run: &tooldv1.Run{RunId: "run-" + id}}
	}
	switch n := i * 37 % 100; {
	case n < 5:
		return s.ends("crashed", auto, spec("bash", object{"command": "echo before; kill -9 $$"}), tooldv1.CallStatus_CALL_STATUS_SUCCEEDED, tooldv1.CallStatus_CALL_STATUS_FAILED)
	case n < 11:
		return s.cancelled(spec("bench_ticks", benchArguments(id)), auto)
	case n < 15:
		return s.cancelled(spec("ask_user", object{"question": "Which?", "options": []string{"red", "blue"}}), asked)
	case n < 18:
		return s.answered("approved", spec("bench_write", benchArguments(id)), approver, "")
	case n < 20:
		return s.answered("answered", spec("ask_user", object{"question": "Which?", "options": []string{"red", "blue"}}), asked, `"blue"`)
	case n < 40:
		return s.ends("durable", auto, spec("bench_write", benchArguments(id)), tooldv1.CallStatus_CALL_STATUS_SUCCEEDED)
	case n < 42:
		return s.ends("with 200 events", auto, spec("bench_progress", benchArguments(id)), tooldv1.CallStatus_CALL_STATUS_SUCCEEDED)
	default:
		return s.ends("read-only", auto, spec("bench_noop", benchArguments(id)), tooldv1.CallStatus_CALL_STATUS_SUCCEEDED)
	}
}

func (s *soak) count(kind string) {
	n, _ := s.byKind.LoadOrStore(kind, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
}

func (s *soak) kinds() string {
	var all []string
	s.byKind.Range(func(k, n any) bool {
		all = append(all, fmt.Sprint(n.(*atomic.Int64).Load(), " ", k))
		return true
	})
	return strings.Join(all, ", ")
}

// ends makes a call and checks that it ends with one of the wanted statuses.
func (s *soak) ends(kind, who string, spec *tooldv1.CallSpec, want ...tooldv1.CallStatus) error {
	s.count(kind)
	ctx, cancel := as(context.Background(), who)
	defer cancel()
	stream, err := s.execute(ctx, spec, "")
	if err != nil {
		return err
	}
	var last *tooldv1.CallEvent
	err = read(stream, func(f *tooldv1.Frame) bool {
		if n := len(f.GetEvents()); n > 0 {
			last = f.GetEvents()[n-1]
		}
		return false
	})
	if err != nil {
		return err
	}
	for _, w := range want {
		if last.GetFinished().GetStatus() == w {
			return nil
		}
	}
	return fmt.Errorf("%s ended with %v", kind, last)
}

func (s *soak) cancelled(spec *tooldv1.CallSpec, who string) error {
	s.count("cancelled")
	ctx, cancel := as(context.Background(), who)
	defer cancel()
	if _, err := s.calls.CallTool(ctx, &tooldv1.CallToolRequest{Spec: spec, Wait: duration(time.Millisecond)}); err != nil {
		return err
	}
	answer, err := s.calls.CancelCall(ctx, &tooldv1.CancelCallRequest{CallId: spec.GetCallId(), Reason: "soak", Wait: duration(10 * time.Second)})
	if err == nil && answer.GetCall().GetResult() == nil {
		err = fmt.Errorf("cancelled, and %v", answer.GetCall().GetStatus())
	}
	return err
}

func (s *soak) answered(kind string, spec *tooldv1.CallSpec, who, result string) error {
	s.count(kind)
	ctx, cancel := as(context.Background(), asked)
	defer cancel()
	answer, err := s.calls.CallTool(ctx, &tooldv1.CallToolRequest{Spec: spec})
	if err != nil {
		return err
	}
	open := answer.GetCall().GetSuspension()
	if open == nil {
		return fmt.Errorf("%s does not wait: %v", kind, answer.GetCall().GetStatus())
	}
	ctx, cancel = as(context.Background(), who)
	defer cancel()
	stream, err := s.resume(ctx, open.GetSuspensionId(), &tooldv1.Decision{
		DecisionId: "decision-" + spec.GetCallId(), Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, ExpectedDigest: open.GetDigest(), Result: result,
	})
	if err != nil {
		return err
	}
	return read(stream, func(*tooldv1.Frame) bool { return false })
}

// awaitIdle waits until the daemon is idle and returns what it then holds.
func (s *soak) awaitIdle(t *testing.T, temporary string) (u usage) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		u = s.look(t, temporary)
		// One process remains: the helper that starts isolated commands.
		if u.active+u.unwritten == 0 && u.processes <= 1 || time.Now().After(deadline) {
			break
		}
	}
	for range 10 { // Use the lowest of these values, because garbage must not count.
		if again := s.look(t, temporary); again.heap < u.heap {
			u = again
		}
		time.Sleep(20 * time.Millisecond)
	}
	return u
}

func (s *soak) look(t *testing.T, temporary string) usage {
	t.Helper()
	numbers := s.metrics(t)
	proc := fmt.Sprint("/proc/", s.d.pid)
	status, err := os.ReadFile(proc + "/status")
	must(t, err)
	_, rss, _ := strings.Cut(string(status), "VmRSS:")
	kilobytes, err := strconv.ParseInt(strings.Fields(rss)[0], 10, 64)
	must(t, err)
	descriptors, err := os.ReadDir(proc + "/fd")
	must(t, err)
	children, err := filepath.Glob(proc + "/task/*/children")
	must(t, err)
	processes := 0
	for _, path := range children {
		b, err := os.ReadFile(path)
		if err == nil { // Skip a thread that has ended meanwhile.
			processes += len(strings.Fields(string(b)))
		}
	}
	files, err := os.ReadDir(temporary)
	must(t, err)
	return usage{
		heap: numbers["toold_heap_bytes"], resident: kilobytes << 10, goroutines: numbers["toold_goroutines"], descriptors: int64(len(descriptors)),
		processes: int64(processes), active: numbers["toold_calls_live"], unwritten: numbers["toold_calls_unwritten"],
		waiting: numbers[`toold_journal_waiting{lane="durable"}`] + numbers[`toold_journal_waiting{lane="other"}`], temporary: int64(len(files)),
	}
}

func (s *soak) metrics(t *testing.T) map[string]int64 {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.d.metrics+"/metrics", http.NoBody)
	must(t, err)
	req.Close = true
	answer, err := http.DefaultClient.Do(req)
	must(t, err)
	defer answer.Body.Close()
	numbers := map[string]int64{}
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if n, err := strconv.ParseFloat(value, 64); ok && err == nil {
			numbers[name] = int64(n)
		}
	}
	return numbers
}
