package crash_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold-dev/toold/sdk/go/worker"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/store/postgres/pgtest"
)

// laborer is the principal of the workers.
const laborer = "laborer"

// paced are flags for short leases: the PostgreSQL server frees the store after 300 ms (a third of the lease) without contact.
var paced = []string{
	"--failover-start", "100ms", "--failover-lease", "900ms", "--failover-kill", "200ms", "--failover-hold", "1300ms",
	"--workers-lease", "5s", "--timeouts-linger", "never",
}

// stops returns how often owners are stopped: TOOLD_CRASH_STOPS, or a few in the landing check and 500 in the nightly run.
func stops(t *testing.T) int {
	t.Helper()
	text := os.Getenv("TOOLD_CRASH_STOPS")
	if text == "" {
		return landing(2, 500)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("TOOLD_CRASH_STOPS=%q: want a number of 1 or more", text)
	}
	return n
}

// A shop is one store with two daemons, an owner and a standby. Clients make calls without a pause. Each daemon has a worker, which counts its
// executions.
type shop struct {
	t      *testing.T
	rng    *rand.Rand
	homes  [2]*home
	fronts [2]*front // each front forwards connections to the daemon of its home
	owner  atomic.Pointer[daemon]
	tag    string
	number atomic.Int64

	mu    sync.Mutex
	sales map[string]*sale

	tally
}

// tally counts events of the test.
type tally struct {
	stopped, lostAlone, reconciled, notRun atomic.Int64
}

// A sale is one call, as its client and its worker see it.
type sale struct {
	begun     int           // executions that started
	ended     int           // executions that ended
	published *tooldv1.Call // the call's record with its outcome
	bash      bool
	lines     int // number of lines in the call's file when its outcome was published
}

func newShop(t *testing.T, server *pgtest.Server, number int, seed uint64) *shop {
	t.Helper()
	s := &shop{t: t, rng: rand.New(rand.NewPCG(seed, uint64(number))), tag: fmt.Sprintf("%05x-%02d", seed&0xfffff, number), sales: map[string]*sale{}, fronts: [2]*front{newFront(t), newFront(t)}}
	s.homes[0] = newHome(t)
	f, err := os.OpenFile(s.homes[0].config, os.O_APPEND|os.O_WRONLY, 0o600)
	must(t, err)
	_, err = fmt.Fprintf(f, "    - {name: %s, roles: [worker], hash: %q}\n", laborer, hash(laborer))
	must(t, errors.Join(err, f.Close()))
	s.homes[0].serveWith = append([]string{"--store", server.URL(fmt.Sprint("shop", number))}, paced...)
	other := *s.homes[0]
	other.data = filepath.Join(other.dir, "other")
	s.homes[1] = &other
	return s
}

// pay is the worker's tool. It must not run twice for a call.
func (s *shop) pay(ctx context.Context, c *worker.Call, _ struct{}) (string, error) {
	s.begin(c.GetCallId())
	select {
	case <-time.After(time.Duration(c.GetAttempt()*20) * time.Millisecond):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sales[c.GetCallId()].ended++
	return "paid", nil
}

// begin counts an execution. It reports a failure if this is the second execution of the call, or if the call's outcome was already
// published.
func (s *shop) begin(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.sales[id]
	if it.begun++; it.begun > 1 {
		s.t.Errorf("call %s runs %d times", id, it.begun)
	}
	if it.published != nil {
		s.t.Errorf("call %s runs after its outcome was published: %v", id, it.published.GetStatus())
	}
}

// reconcile reports what happened in an attempt. The answer is exact, because the worker counts its executions.
func (s *shop) reconcile(_ context.Context, c *worker.Call) (*tooldv1.WorkerResult, error) {
	s.reconciled.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch it := s.sales[c.GetCallId()]; {
	case it.begun == 0:
		s.notRun.Add(1)
		return nil, worker.ErrNotRun
	case it.ended > 0:
		return &tooldv1.WorkerResult{Status: tooldv1.ResultStatus_RESULT_STATUS_SUCCESS, Data: `"paid"`}, nil
	}
	return nil, nil
}

// labor serves the tool to the daemon of one home until ctx ends. Its connection survives while the daemon is stopped, so that messages
// from the resumed daemon arrive.
func (s *shop) labor(ctx context.Context, at *front) {
	w := worker.New(worker.Config{Address: at.address(), Token: token(laborer), Pool: "shop", MaxCalls: 16, DrainTime: time.Second})
	worker.Add(w, worker.Tool{ID: "pay", Description: "Pays.", Observe: true, ConcurrencySafe: true, Reconcile: s.reconcile}, s.pay)
	if err := w.Run(ctx); err != nil && ctx.Err() == nil {
		s.t.Errorf("the worker ended: %v", err)
	}
}

// sell makes one call after another at the current owner.
func (s *shop) sell(ctx context.Context) {
	for ctx.Err() == nil {
		d := s.owner.Load()
		c, err := dial(d.address)
		if err != nil {
			s.t.Error(err)
			return
		}
		for d == s.owner.Load() && ctx.Err() == nil && err == nil {
			err = s.ask(ctx, c, s.order())
		}
		c.close()
		pause(ctx, 5*time.Millisecond)
	}
}

// order returns the next call. One in eight is a command; the worker runs the others.
func (s *shop) order() *tooldv1.CallSpec {
	n := s.number.Add(1)
	id := fmt.Sprintf("call-%s-%06d", s.tag, n)
	spec := &tooldv1.CallSpec{Tool: "pay", CallId: id, Arguments: "{}", Run: &tooldv1.Run{RunId: "run"}, LingerNever: true}
	if n%8 == 0 {
		spec.Tool, spec.Arguments = "bash", jsonText(object{"command": trace(original, id) + "; sleep 0.03"})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sales[id] = &sale{bash: spec.GetTool() == "bash"}
	return spec
}

// ask makes a call and records its end.
func (s *shop) ask(ctx context.Context, c *client, spec *tooldv1.CallSpec) error {
	ctx, cancel := context.WithTimeout(identified(ctx, auto), 3*time.Second)
	defer cancel()
	answer, err := c.calls.CallTool(ctx, &tooldv1.CallToolRequest{Spec: spec})
	if err == nil {
		s.tell(answer.GetCall())
	}
	return err
}

// tell records the end of a call. It returns false when the call has not ended.
func (s *shop) tell(c *tooldv1.Call) (over bool) {
	switch c.GetStatus() {
	case tooldv1.CallStatus_CALL_STATUS_SUCCEEDED, tooldv1.CallStatus_CALL_STATUS_FAILED, tooldv1.CallStatus_CALL_STATUS_CANCELLED:
	default:
		return false
	}
	lines := s.lines(c.GetCallId())
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.sales[c.GetCallId()]
	if it.published == nil {
		it.published, it.lines = c, lines
	} else if it.published.GetStatus() != c.GetStatus() {
		s.t.Errorf("call %s has the outcomes %v and %v", c.GetCallId(), it.published.GetStatus(), c.GetStatus())
	}
	return true
}

// lines counts the executions of a command.
func (s *shop) lines(id string) int {
	b, _ := os.ReadFile(filepath.Join(s.homes[0].workspace, counts, id))
	return strings.Count(string(b), "\n")
}

// open starts the daemon of a home. If the daemon exits, open starts it again: on a busy machine a starting daemon may be too slow for its
// lease.
func (s *shop) open(h *home) (*daemon, error) {
	for until := time.Now().Add(startWithin); ; {
		d, err := h.start("")
		if err != nil {
			return nil, err
		}
		select {
		case <-d.ready:
			return d, nil
		case <-d.standby:
			return d, nil
		case <-d.ended:
			s.lostAlone.Add(1)
		case <-time.After(startWithin):
		}
		if time.Now().After(until) {
			d.kill()
			return nil, fmt.Errorf("the daemon does not serve\n%s", d.log)
		}
	}
}

// serves waits until the daemon of a home is the owner and returns it.
func (s *shop) serves(h *home, d *daemon) (_ *daemon, err error) {
	for {
		select {
		case <-d.ready:
			s.fronts[slices.Index(s.homes[:], h)].lead(d.address)
			s.owner.Store(d)
			return d, nil
		case <-d.ended:
			if d, err = s.open(h); err != nil {
				return nil, err
			}
		case <-time.After(startWithin):
			d.kill()
			return nil, fmt.Errorf("nobody took over\n%s", d.log)
		}
	}
}

// play stops one owner after another while more returns true.
func (s *shop) play(more func() bool) error {
	first, err := s.open(s.homes[0])
	if err != nil {
		return err
	}
	if first, err = s.serves(s.homes[0], first); err != nil {
		return err
	}
	daemons := [2]*daemon{first, nil}
	defer func() {
		for _, d := range daemons {
			if d != nil {
				d.kill()
			}
		}
	}()
	ctx, end := context.WithCancel(s.t.Context())
	var people sync.WaitGroup
	defer people.Wait()
	defer end()
	working, leave := context.WithCancel(s.t.Context())
	defer leave()
	for _, f := range s.fronts {
		people.Go(func() { s.labor(working, f) })
	}
	for range 4 {
		people.Go(func() { s.sell(ctx) })
	}
	at := 0
	for more() {
		if daemons[1-at], err = s.open(s.homes[1-at]); err != nil {
			return err
		}
		time.Sleep(time.Duration(50+s.rng.IntN(300)) * time.Millisecond)
		if daemons[1-at], err = s.stop(daemons[at], s.homes[1-at], daemons[1-at]); err != nil {
			return err
		}
		at = 1 - at
	}
	end()
	daemons[at], err = s.settle(s.homes[at], daemons[at])
	return err
}

// stop stops an owner (SIGSTOP) until another daemon has taken over, sometimes for longer than the hold. Then it resumes the owner, which
// must exit.
func (s *shop) stop(owner *daemon, at *home, next *daemon) (_ *daemon, err error) {
	if owner.cmd.Process.Signal(syscall.SIGSTOP) != nil {
		s.lostAlone.Add(1)
		return s.serves(at, next)
	}
	if next, err = s.serves(at, next); err != nil {
		return nil, err
	}
	s.stopped.Add(1)
	time.Sleep(time.Duration(s.rng.IntN(2500)) * time.Millisecond)
	_ = owner.cmd.Process.Signal(syscall.SIGCONT)
	if !owner.dead() {
		return next, fmt.Errorf("the daemon that was stopped lives on\n%s", owner.log)
	}
	return next, nil
}

// settle waits until all calls have ended, and returns the daemon that serves at that time. It does not wait for a call that the daemon
// does not know, because such a call was never stored.
func (s *shop) settle(at *home, d *daemon) (*daemon, error) {
	c, err := dial(d.address)
	if err != nil {
		return d, err
	}
	defer func() { c.close() }()
	s.mu.Lock()
	ids := make([]string, 0, len(s.sales))
	for id := range s.sales {
		ids = append(ids, id)
	}
	s.mu.Unlock()
	for _, id := range ids {
		for until := time.Now().Add(startWithin); ; time.Sleep(20 * time.Millisecond) {
			ctx, cancel := as(s.t.Context(), auto)
			answer, err := c.get(ctx, id)
			cancel()
			if _, reason, _ := refusal(err); err == nil && s.tell(answer.GetCall()) || reason == "CALL_NOT_FOUND" {
				break
			} else if time.Now().After(until) {
				return d, fmt.Errorf("call %s does not end: %v, %v", id, answer.GetCall().GetStatus(), err)
			}
			select {
			case <-d.ended:
			default:
				continue
			}
			if d, err = s.serves(at, d); err != nil {
				return nil, err
			}
			c.close()
			if c, err = dial(d.address); err != nil {
				return d, err
			}
		}
	}
	return d, nil
}

// check compares the calls with their published outcomes, and counts the outcomes.
func (s *shop) check(outcomes map[string]int) {
	for id, it := range s.sales {
		begun := it.begun
		if it.bash {
			if begun = s.lines(id); begun > 1 {
				s.t.Errorf("command %s ran %d times", id, begun)
			}
			if it.published != nil && begun > it.lines {
				s.t.Errorf("command %s ran after its outcome was published: %v", id, it.published.GetStatus())
			}
		}
		if it.published == nil {
			if outcomes["never came to be"]++; begun > 0 {
				s.t.Errorf("call %s ran, and no daemon knows it", id)
			}
			continue
		}
		end := it.published.GetStatus().String()
		if e := it.published.GetResult().GetError(); e != nil {
			end += " " + e.GetCode().String() + " " + e.GetReason()
		}
		outcomes[strings.ReplaceAll(strings.ReplaceAll(end, "CALL_STATUS_", ""), "ERROR_CODE_", "")]++
		if it.published.GetStatus() == tooldv1.CallStatus_CALL_STATUS_SUCCEEDED && begun != 1 {
			s.t.Errorf("call %s succeeded and ran %d times", id, begun)
		}
		if it.published.GetExecuted() == tooldv1.Executed_EXECUTED_NOT_STARTED && begun > 0 {
			s.t.Errorf("call %s is published as not started and ran %d times", id, begun)
		}
	}
}

// TestT126StoppedOwners stops the owners of several stores under load, while calls are starting. It waits until the lock of each owner has
// expired, and then resumes the owner. No tool may run twice, and nothing may run after the outcome of its call was published.
func TestT126StoppedOwners(t *testing.T) {
	server, err := pgtest.Start()
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	n, began := stops(t), time.Now()
	shops := make([]*shop, min(n, 6))
	for i := range shops {
		shops[i] = newShop(t, server, i, seed(t))
	}
	var left atomic.Int64
	left.Store(int64(n))
	var all sync.WaitGroup
	for _, s := range shops {
		all.Go(func() {
			if err := s.play(func() bool { return left.Add(-1) >= 0 }); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	var sum tally
	calls, outcomes := 0, map[string]int{}
	for _, s := range shops {
		s.check(outcomes)
		calls += len(s.sales)
		sum.stopped.Add(s.stopped.Load())
		sum.lostAlone.Add(s.lostAlone.Load())
		sum.reconciled.Add(s.reconciled.Load())
		sum.notRun.Add(s.notRun.Load())
	}
	t.Logf("ran: %d owners of %d stores stopped beyond their lock (%d more lost it alone) in %v; %d calls: %v; %d attempts reconciled, %d of them not run",
		sum.stopped.Load(), len(shops), sum.lostAlone.Load(), time.Since(began).Round(time.Second), calls, outcomes, sum.reconciled.Load(), sum.notRun.Load())
}

// A front forwards connections to the daemon of one home.
type front struct {
	lis net.Listener
	to  atomic.Pointer[string]
	all sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func newFront(t *testing.T) *front {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	f := &front{lis: lis, conns: map[net.Conn]struct{}{}}
	f.lead("")
	f.all.Go(f.accept)
	t.Cleanup(func() {
		lis.Close()
		f.mu.Lock()
		for c := range f.conns {
			c.Close()
		}
		f.mu.Unlock()
		f.all.Wait()
	})
	return f
}

func (f *front) address() string { return f.lis.Addr().String() }

// lead sets the address for new connections.
func (f *front) lead(to string) { f.to.Store(&to) }

func (f *front) accept() {
	for {
		near, err := f.lis.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", *f.to.Load())
		if err != nil {
			near.Close()
			continue
		}
		for from, to := range map[net.Conn]net.Conn{near: far, far: near} {
			f.mu.Lock()
			f.conns[from] = struct{}{}
			f.mu.Unlock()
			f.all.Go(func() { f.pass(from, to) })
		}
	}
}

func (f *front) pass(from, to net.Conn) {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			_, err = to.Write(b[:n])
		}
		if err != nil {
			break
		}
	}
	from.Close()
	to.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, from)
}

// TestT126HoldsForWorkers stops an owner while a worker runs a call. Until the hold ends, the old owner could resume and act. Until then,
// the next owner must not ask a worker about the attempt, and must not start another call of the thread.
func TestT126HoldsForWorkers(t *testing.T) {
	const hold = 6 * time.Second
	server, err := pgtest.Start()
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	s := newShop(t, server, 0, seed(t))
	for _, h := range s.homes {
		h.serveWith = append(slices.Clone(h.serveWith), "--failover-hold", hold.String(), "--workers-lease", "500ms")
	}
	began, acts := make(chan struct{}, 2), make(chan time.Time, 2)
	pay := func(ctx context.Context, c *worker.Call, _ struct{}) (string, error) {
		began <- struct{}{}
		if strings.HasPrefix(c.GetCallId(), "call-that-is-held") {
			<-ctx.Done() // the owner is stopped meanwhile
			return "", ctx.Err()
		}
		acts <- time.Now()
		return "paid", nil
	}
	reconcile := func(context.Context, *worker.Call) (*tooldv1.WorkerResult, error) {
		acts <- time.Now()
		return &tooldv1.WorkerResult{Status: tooldv1.ResultStatus_RESULT_STATUS_SUCCESS, Data: `"paid"`}, nil
	}
	ctx, leave := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	defer workers.Wait()
	defer leave()
	for _, f := range s.fronts {
		workers.Go(func() {
			w := worker.New(worker.Config{Address: f.address(), Token: token(laborer), Pool: "shop", MaxCalls: 4, DrainTime: time.Second})
			worker.Add(w, worker.Tool{ID: "pay", Description: "Pays.", Observe: true, Reconcile: reconcile}, pay)
			_ = w.Run(ctx)
		})
	}
	daemons := [2]*daemon{}
	defer func() {
		for _, d := range daemons {
			if d != nil {
				d.kill()
			}
		}
	}()
	for i, h := range s.homes {
		daemons[i], err = s.open(h)
		must(t, err)
		if i == 0 {
			daemons[0], err = s.serves(h, daemons[0])
			must(t, err)
		}
	}
	start := func(d *daemon, id string) {
		c, err := dial(d.address)
		must(t, err)
		defer c.close()
		for until := time.Now().Add(startWithin); ; time.Sleep(20 * time.Millisecond) {
			ctx, cancel := as(t.Context(), auto)
			answer, err := c.calls.CallTool(ctx, &tooldv1.CallToolRequest{Wait: durationpb.New(0), Spec: &tooldv1.CallSpec{
				Tool: "pay", CallId: id, Arguments: "{}", Run: &tooldv1.Run{RunId: "run", ThreadId: "thread"}, LingerNever: true,
			}})
			cancel()
			if err == nil && answer.GetCall().GetResult().GetError().GetCode() != tooldv1.ErrorCode_ERROR_CODE_NOT_FOUND {
				return
			}
			if id += "+"; time.Now().After(until) { // The worker has not registered its tool yet.
				t.Fatalf("%v %v\n%s", err, answer, d.log)
			}
		}
	}
	start(daemons[0], "call-that-is-held-1")
	<-began
	stopped := time.Now()
	must(t, daemons[0].cmd.Process.Signal(syscall.SIGSTOP))
	daemons[1], err = s.serves(s.homes[1], daemons[1])
	must(t, err)
	start(daemons[1], "call-that-waits-1")
	for range 2 {
		select {
		case at := <-acts:
			if since := at.Sub(stopped); since < hold {
				t.Errorf("the successor acts %v after the owner was stopped, before the hold of %v is over", since, hold)
			}
		case <-time.After(startWithin):
			t.Fatalf("the call is not recovered\n%s", daemons[1].log)
		}
	}
}
