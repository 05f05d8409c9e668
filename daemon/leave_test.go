package daemon

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/daemon/wire"
	"github.com/toold-dev/toold/lifecycle"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/server/access"
	grpcserver "github.com/toold-dev/toold/server/grpc"
	"github.com/toold-dev/toold/server/service"
	"github.com/toold-dev/toold/store/memory"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/shell"
)

// TestP6LeavesInTime (P6) checks that the daemon is ready to exit within the drain period and five seconds, whatever ignores the shutdown.
// The clock is fake, so that a busy machine does not matter.
func TestP6LeavesInTime(t *testing.T) {
	const period = 10 * time.Second
	for _, tt := range []struct {
		name            string
		call, job, loop time.Duration // how long each continues after it was asked to end; zero means that it does not exist
		atLeast, atMost time.Duration
	}{
		{name: "nothing runs"},
		{name: "a call that ends when it is cancelled", call: time.Second, atLeast: period, atMost: period + time.Second},
		{name: "a call that does not", call: time.Hour, atLeast: period, atMost: period + 5*time.Second},
		{name: "a shell in the background", job: time.Hour, atMost: period + 5*time.Second},
		{name: "an MCP server", loop: time.Hour, atMost: period + 5*time.Second},
		{name: "an MCP server after a slow call", call: 3400 * time.Millisecond, loop: 3 * time.Second, atLeast: period, atMost: period + 5*time.Second},
		{name: "all of them", call: time.Hour, job: time.Hour, loop: time.Hour, atLeast: period, atMost: period + 5*time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runner, err := sandbox.New(sandbox.Config{Owner: "leave", StateDir: t.TempDir()})
			must(t, err)
			defer runner.Close()
			synctest.Test(t, func(t *testing.T) {
				over := make(chan struct{}) // closed at the end of the test, to release everything that ignores the shutdown
				d := &daemon{logs: logs{log: zap.NewNop()}, isolated: isolated{runner: runner}, failed: make(chan error, 1), leaving: make(chan struct{})}
				tools, jobs, err := shell.New(shell.Config{
					Exec: stubborn{over, map[string]time.Duration{"call": tt.call, "job": tt.job}}, Dir: "/", Background: shell.Background{Exec: stubborn{over, map[string]time.Duration{"job": tt.job}}},
				})
				must(t, err)
				d.jobs = jobs
				watch := d.serveInBubble(t, tools)
				for name, lasts := range map[string]time.Duration{"call": tt.call, "job": tt.job} {
					if lasts > 0 {
						w, err := d.engine.Execute(t.Context(), tool.Principal{Namespace: "default", Subject: "ann", Roles: []string{"caller"}}, call.Spec{
							ID: "leave-in-time-" + name, Tool: "bash", Run: tool.Run{ID: "run of the " + name, Thread: "thread of the " + name},
							Arguments: `{"command":"` + name + `","background":` + strconv.FormatBool(name == "job") + `}`,
						}, call.ExecuteOptions{})
						must(t, err)
						w.Close()
					}
				}
				loopEnds, stop := context.WithCancel(context.Background())
				var loops sync.WaitGroup
				loops.Go(func() {
					<-loopEnds.Done()
					lastFor(over, tt.loop)
				})
				synctest.Wait()
				began := time.Now()
				err = d.leave(period, stop, &loops)
				took := time.Since(began)
				if took < tt.atLeast || took > tt.atMost {
					t.Errorf("it took %v; want between %v and %v", took, tt.atLeast, tt.atMost)
				}
				if (err != nil) != (tt.call == time.Hour) {
					t.Errorf("error: %v", err)
				}
				if f := watch(); err == nil && f.GetClosing().GetReason() != tooldv1.ClosingReason_CLOSING_REASON_DRAIN { // After an error, the watcher may not have received every event.
					t.Errorf("the last frame is %v", f)
				}
				close(over)
			})
		})
	}
}

// stubborn runs fake processes. The command of a process says how long it continues after it was asked to end.
type stubborn struct {
	over  chan struct{}
	lasts map[string]time.Duration
}

func (s stubborn) Run(ctx context.Context, spec sandbox.Spec) (*sandbox.Exit, error) {
	if spec.Started != nil {
		spec.Started()
	}
	<-ctx.Done()
	lastFor(s.over, s.lasts[spec.Args[len(spec.Args)-1]])
	return &sandbox.Exit{Code: -1, Signal: "SIGKILL"}, context.Cause(ctx)
}

func lastFor(over chan struct{}, d time.Duration) {
	select {
	case <-over:
	case <-time.After(d):
	}
}

// serveInBubble starts the engine, the server and a watcher of the namespace. It returns a function that waits for the watcher's last
// frame.
func (d *daemon) serveInBubble(t *testing.T, tools []tool.Tool) func() *tooldv1.Frame {
	t.Helper()
	d.tools = registry.New(registry.Config{Trusted: []string{builtin}})
	must(t, d.tools.Register(builtin, tools...))
	const token = "a-token-of-the-test-0123456789"
	auth, err := access.NewAuth([]access.Token{{Hash: fmt.Sprintf("%x", sha256.Sum256([]byte(token))), Principal: tool.Principal{Namespace: "default", Subject: "ann", Roles: []string{"viewer"}}}}, nil)
	must(t, err)
	d.engine, err = lifecycle.New(lifecycle.Config{Store: memory.New(memory.Config{}), Tools: wire.Definitions(d.tools), Answers: wire.Answers(d.tools), Grace: 5 * time.Second, Heartbeat: time.Minute})
	must(t, err)
	_, err = d.engine.Recover(t.Context())
	must(t, err)
	d.service, err = service.New(service.Config{Engine: wire.Engine(d.engine), DeadLetters: d.engine.Outbox(), Tools: wire.Tools(d.tools, nil), Policy: wire.Policy(wire.PolicyConfig{}), Admin: adminOf{d}, Auth: auth, Log: d.log})
	must(t, err)
	d.server, err = grpcserver.New(grpcserver.Config{Service: d.service})
	must(t, err)
	lis := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- d.server.Serve(lis) }()
	conn, err := grpc.NewClient("passthrough:///daemon", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(bearer(token)),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return lis.Dial() }))
	must(t, err)
	stream, err := tooldv1.NewCallServiceClient(conn).WatchCalls(t.Context(), &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_Namespace{Namespace: true}, Follow: true})
	must(t, err)
	return func() *tooldv1.Frame {
		t.Helper()
		var last *tooldv1.Frame
		for {
			f, err := stream.Recv()
			if err == nil {
				last = f.GetFrame()
				continue
			}
			if !errors.Is(err, io.EOF) {
				t.Logf("the stream ends with %v", err)
			}
			must(t, conn.Close())
			must(t, <-served)
			return last
		}
	}
}
