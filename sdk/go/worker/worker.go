package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	toold "github.com/toold-dev/toold/sdk/go"
	"github.com/toold-dev/toold/sdk/go/internal/address"
)

// Config holds the settings of a worker.
type Config struct {
	Address string // host:port or unix:/path; required
	Token   string // empty means no token; the daemon's own user needs none at the Unix socket
	// TokenSource returns the token for each connection, in place of Token. Use it for tokens that expire or are rotated. When the token of
	// an admitted worker ends, the worker connects again, until TokenSource returns a valid token.
	TokenSource func(context.Context) (string, error)
	TLS         credentials.TransportCredentials // nil means no TLS; then a token is sent only to this machine
	Pool        string                           // the pool to which the tools belong; required

	Name     string            // name of this worker for people; empty means host and process id
	Version  string            // version of the worker, shown to people
	Labels   map[string]string // calls select workers by labels
	MaxCalls int               // concurrent calls; 0 means 16
	// DrainTime is how long running calls may continue after Run's context ends. 0 means 30 s.
	DrainTime time.Duration
	// Log is called with one sentence for each change of the connection. Nil means no log.
	Log func(string)
}

// ErrLost is the cancellation cause of a call's context when the daemon has given up the call. The daemon then ignores the function's
// result.
var ErrLost = errors.New("the daemon gave the call up")

// ErrStopped is the cancellation cause of a call's context when the call still runs after DrainTime.
var ErrStopped = errors.New("the worker stops")

// maxStart is the largest message that a worker accepts, in bytes. Arguments, checkpoint and documents have their own limits.
const maxStart = 64 << 20

// A Worker serves tools. Call Add for all tools before Run. Call Run once.
type Worker struct {
	cfg   Config
	tools map[string]*entry

	out  chan *tooldv1.ConnectRequest // messages to send; they survive a broken connection
	over chan struct{}                // closed when no more messages are sent
	stir chan struct{}                // receives a value when a job is removed

	mu   sync.Mutex
	jobs map[string]*job

	completing map[[2]string]*completion // key: call id and operation id

	lease   time.Duration // as reported by the daemon
	last    string        // the worker id from the last connection
	fence   fence
	input   bool // the daemon supports input
	running sync.WaitGroup
}

type entry struct {
	tool  *Tool
	offer *tooldv1.WorkerTool
	run   func(ctx context.Context, c *Call) (*tooldv1.WorkerResult, error)
	ask   func(ctx context.Context, kind tooldv1.WorkKind, c *Call) (result *tooldv1.WorkerResult, notRun bool)
}

// New returns a worker without tools. Add adds them.
func New(cfg Config) *Worker {
	if cfg.Name == "" {
		host, _ := os.Hostname()
		cfg.Name = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	cfg.DrainTime = cmp.Or(cfg.DrainTime, 30*time.Second)
	if cfg.Log == nil {
		cfg.Log = func(string) {}
	}
	return &Worker{cfg: cfg, tools: map[string]*entry{}, out: make(chan *tooldv1.ConnectRequest, 1024), over: make(chan struct{}), stir: make(chan struct{}, 1), jobs: map[string]*job{}, completing: map[[2]string]*completion{}}
}

// Run serves until ctx ends and then waits for running calls, at most DrainTime. It returns an error only when the daemon will never accept
// the worker with this configuration.
func (w *Worker) Run(ctx context.Context) error {
	secure := w.cfg.TLS
	if secure == nil {
		if err := address.CheckToken(w.cfg.Address); err != nil && (w.cfg.Token != "" || w.cfg.TokenSource != nil) {
			return err
		}
		secure = insecure.NewCredentials()
	}
	conn, err := grpc.NewClient(w.cfg.Address, grpc.WithTransportCredentials(secure), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxStart)), grpc.WithConnectParams(grpc.ConnectParams{
		Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second}, MinConnectTimeout: 5 * time.Second,
	}))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer w.running.Wait()
	defer w.stopAll(ErrStopped)
	defer close(w.over)
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		began := time.Now()
		err := w.connect(ctx, conn)
		switch {
		case err == nil:
			return nil
		case w.final(err):
			return err
		case ctx.Err() != nil && w.idle():
			return nil
		}
		w.cfg.Log("connection lost: " + err.Error())
		if time.Since(began) > 10*time.Second {
			pause = 100 * time.Millisecond
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if w.idle() {
				return nil
			}
		}
	}
}

// final reports whether the same error would come again on each new connection.
func (w *Worker) final(err error) bool {
	if errors.Is(err, toold.ReasonVersionMismatch) {
		return true
	}
	switch status.Code(err) {
	case codes.Unauthenticated:
		return w.cfg.TokenSource == nil || w.last == ""
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unimplemented:
		return true
	}
	return false
}

func (w *Worker) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.jobs) == 0
}

func (w *Worker) stopAll(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.jobs {
		j.cancel(cause)
	}
}

func (w *Worker) register() *tooldv1.ConnectRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &tooldv1.WorkerRegister{
		Pool: w.cfg.Pool, Name: w.cfg.Name, Version: w.cfg.Version, Labels: w.cfg.Labels, MaxCalls: int32(w.cfg.MaxCalls),
		Held: slices.Collect(maps.Keys(w.jobs)), Previous: w.last,
	}
	for _, id := range slices.Sorted(maps.Keys(w.tools)) {
		r.Tools = append(r.Tools, w.tools[id].offer)
	}
	return &tooldv1.ConnectRequest{Message: &tooldv1.ConnectRequest_Register{Register: r}}
}

// connect serves over one connection. It returns nil after all running work has ended in a drain.
func (w *Worker) connect(ctx context.Context, conn *grpc.ClientConn) error {
	token := w.cfg.Token
	if w.cfg.TokenSource != nil {
		var err error
		if token, err = w.cfg.TokenSource(ctx); err != nil {
			return fmt.Errorf("no token: %w", err)
		}
	}
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(token))
	}
	if w.last == "" { // the first connection
		if err := toold.CheckVersion(ctx, conn); err != nil {
			return err
		}
	}
	alive, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	stream, err := tooldv1.NewWorkerServiceClient(conn).Connect(alive)
	if err != nil {
		return err
	}
	if err := stream.Send(w.register()); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return w.away(err)
	}
	w.registered(first.GetRegistered())
	c := &connection{Worker: w, stream: stream, hangUp: hangUp, alive: alive, answers: make(chan *tooldv1.ConnectRequest), began: time.Now()}
	var sending sync.WaitGroup
	sending.Go(func() { c.send(ctx) })
	err = c.receive()
	hangUp()
	sending.Wait()
	if c.left.Load() && (errors.Is(err, io.EOF) || w.idle()) {
		return nil
	}
	return w.away(err)
}

// away starts the lease's timer for all running jobs. The worker must connect again and resume them before the lease expires.
func (w *Worker) away(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.jobs {
		if j.patience == nil {
			j.patience = time.AfterFunc(w.lease, func() { j.drop(ErrLost) })
		}
	}
	return err
}

// registered resumes the jobs that the daemon still expects, and drops the others.
func (w *Worker) registered(r *tooldv1.WorkerRegistered) {
	for _, no := range r.GetRefused() {
		w.cfg.Log(fmt.Sprintf("tool %s is not served: %s: %s", no.GetTool(), no.GetReason(), no.GetMessage()))
	}
	w.mu.Lock()
	w.lease, w.last, w.input = r.GetLease().AsDuration(), r.GetWorkerId(), r.GetInput()
	w.fence.meet(r.GetStoreId(), r.GetEpoch())
	var again, lost []*job
	for id, j := range w.jobs {
		if slices.Contains(r.GetKept(), id) {
			again = append(again, j)
		} else {
			lost = append(lost, j)
		}
	}
	w.mu.Unlock()
	w.cfg.Log("connected as " + r.GetWorkerId())
	for _, j := range lost {
		j.drop(ErrLost)
	}
	for _, j := range again {
		j.again()
	}
	w.completeAgain()
}

// A connection is one stream to the daemon.
type connection struct {
	*Worker
	stream       grpc.BidiStreamingClient[tooldv1.ConnectRequest, tooldv1.ConnectResponse]
	alive        context.Context
	hangUp       func()
	began        time.Time    // start time, read with the monotonic clock
	lastReceived atomic.Int64 // time of the last message, in nanoseconds after began

	answers chan *tooldv1.ConnectRequest // answers to questions from this connection

	left atomic.Bool // the worker sends nothing more on this connection
}

// send sends messages and heartbeats until the connection ends or the worker has drained.
func (c *connection) send(ctx context.Context) {
	c.mu.Lock()
	lease := c.lease
	c.mu.Unlock()
	heartbeat := time.NewTicker(max(lease/3, 10*time.Millisecond))
	defer heartbeat.Stop()
	draining, late := ctx.Done(), make(<-chan time.Time)
	drained := false
	say := func(m *tooldv1.ConnectRequest) bool { return c.stream.Send(m) == nil }
	ok := true
	for ok {
		if drained && c.idle() && len(c.out) == 0 {
			c.left.Store(true)
			_ = c.stream.CloseSend()
			return
		}
		select {
		case m := <-c.out:
			ok = say(m)
		case m := <-c.answers:
			ok = say(m)
		case <-heartbeat.C:
			if time.Since(c.began)-time.Duration(c.lastReceived.Load()) > lease {
				c.hangUp()
				return
			}
			ok = say(&tooldv1.ConnectRequest{Message: &tooldv1.ConnectRequest_Heartbeat{Heartbeat: &tooldv1.WorkerHeartbeat{}}})
		case <-draining:
			draining, drained = nil, true
			timer := time.NewTimer(c.cfg.DrainTime)
			defer timer.Stop()
			late = timer.C
			ok = say(&tooldv1.ConnectRequest{Message: &tooldv1.ConnectRequest_Drain{Drain: &tooldv1.WorkerDrain{}}})
		case <-late:
			c.stopAll(ErrStopped)
		case <-c.stir:
		case <-c.alive.Done():
			return
		}
	}
}

func (c *connection) receive() error {
	for {
		m, err := c.stream.Recv()
		if err != nil {
			return err
		}
		c.lastReceived.Store(int64(time.Since(c.began)))
		switch m := m.GetMessage().(type) {
		case *tooldv1.ConnectResponse_Start:
			c.begin(m.Start)
		case *tooldv1.ConnectResponse_Cancel:
			if j := c.job(m.Cancel.GetLeaseId()); j != nil {
				j.cancel(&Cancelled{Code: m.Cancel.GetCode(), Message: m.Cancel.GetMessage()})
			}
		case *tooldv1.ConnectResponse_Lost:
			if j := c.job(m.Lost.GetLeaseId()); j != nil {
				j.drop(ErrLost)
			}
		case *tooldv1.ConnectResponse_Question:
			c.answer(m.Question)
		case *tooldv1.ConnectResponse_Input:
			if j := c.job(m.Input.GetLeaseId()); j != nil {
				j.given(m.Input)
			}
		case *tooldv1.ConnectResponse_Completed:
			c.completed(m.Completed)
		case *tooldv1.ConnectResponse_Ack:
			if j := c.job(m.Ack.GetLeaseId()); j != nil {
				j.acknowledged(m.Ack)
			}
		}
	}
}

func (w *Worker) job(lease string) *job {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.jobs[lease]
}
