package grpcserver_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/daemon/wire"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/lifecycle/policy"
	"github.com/toold-dev/toold/plugins/permission"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/secret"
	"github.com/toold-dev/toold/server/access"
	grpcserver "github.com/toold-dev/toold/server/grpc"
	"github.com/toold-dev/toold/server/service"
	"github.com/toold-dev/toold/store/memory"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// users are the users of the tests, by name. Each has a token.
var users = map[string]tool.Principal{
	"alice":   {Namespace: "default", Roles: []string{"caller"}},
	"bob":     {Namespace: "default", Roles: []string{"caller"}},
	"dora":    {Namespace: "default", Roles: []string{"delegate"}},
	"ann":     {Namespace: "default", Roles: []string{"approver"}},
	"art":     {Namespace: "default", Roles: []string{"approver"}},
	"oscar":   {Namespace: "default", Roles: []string{"operator"}},
	"vera":    {Namespace: "default", Roles: []string{"viewer"}},
	"adam":    {Namespace: "default", Roles: []string{"admin"}},
	"wanda":   {Namespace: "default", Roles: []string{"worker"}},
	"mallory": {Namespace: "other", Roles: []string{"caller", "delegate", "approver", "operator", "viewer"}},
}

// tokenOf returns the token of a user. It has the minimum length that the server requires.
func tokenOf(user string) string { return user + "-0123456789abcdefghijklmnop" }

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

const rules = `
rules:
  - {name: hidden, action: deny, tools: [secret]}
  - {name: stop, action: block, tools: [forbidden], reason: not in this house}
  - {name: two, action: ask, tools: [transfer], count: 2}
`

// options configure a world. The zero value is what most tests use.
type options struct {
	store     *memory.Store
	tokens    []access.Token
	peers     []access.Peer
	heartbeat time.Duration
	config    func(*service.Config)
	prepare   func(*world, *service.Config)
	transport func(*grpcserver.Config)
	log       *zap.Logger
}

// world is a real engine with an in-memory store, behind a real server.
type world struct {
	t       testing.TB
	store   *memory.Store
	engine  *lifecycle.Engine
	tools   *registry.Registry
	gate    *permission.Gate
	admin   *admin
	service *service.Service
	server  *grpcserver.Server
	// workers is nil unless withWorkers set it.
	workers *worker.Hub
	tcp     string
	unix    string
	stop    func()

	mu    sync.Mutex
	conns map[string]*grpc.ClientConn

	writes  atomic.Int64
	release chan struct{} // closed to let calls of the tool "hold" continue
}

func newWorld(t testing.TB, o options) *world {
	t.Helper()
	w := &world{t: t, store: o.store, conns: map[string]*grpc.ClientConn{}, release: make(chan struct{}), admin: &admin{level: "info"}}
	if w.store == nil {
		w.store = memory.New(memory.Config{})
	}
	pins, err := wire.OpenPins(context.Background(), w.store)
	must(t, err)
	w.tools = registry.New(registry.Config{NamespaceOf: worker.NamespaceOf, Pins: pins, Trusted: []string{"test", worker.SourceOf("default", "rude")}})
	w.admin.tools, w.admin.pins = w.tools, pins
	must(t, w.tools.Register("test", w.testTools()...))
	parsed, err := permission.Parse("rules", []byte(rules))
	must(t, err)
	policies := policy.New(w.store)
	w.gate = permission.New(permission.Config{Rules: parsed, Remembered: policies, Modes: policies})
	auth, err := access.NewAuth(append(userTokens(), o.tokens...), o.peers)
	must(t, err)
	w.engine, err = lifecycle.New(lifecycle.Config{
		Store: w.store, Tools: wire.Definitions(w.tools), Answers: wire.Answers(w.tools), Frontend: wire.Frontend(w.tools), People: auth, Hide: w.gate.Hidden,
		Policies: policies, Modes: wire.Modes(w.gate), Absent: wire.Absent(w.tools, w.gate.Hidden),
		Hooks: hook.Set{Gate: []hook.Entry[hook.Gate]{{Name: "permission", Hook: w.gate}}}, Grace: time.Second, Heartbeat: o.heartbeat,
	})
	must(t, err)
	_, err = w.engine.Recover(context.Background())
	must(t, err)
	cfg := service.Config{
		Engine: wire.Engine(w.engine), DeadLetters: w.engine.Outbox(), Tools: wire.Tools(w.tools, w.gate.Hidden),
		Policy: wire.Policy(wire.PolicyConfig{
			Gate: w.gate, Tools: w.tools, List: w.engine.Records().List,
		}),
		Admin: w.admin, Auth: auth, Log: o.log, Guests: grpcserver.Guests(),
	}
	if o.config != nil {
		o.config(&cfg)
	}
	if o.prepare != nil {
		o.prepare(w, &cfg)
	}
	w.service, err = service.New(cfg)
	must(t, err)
	transport := grpcserver.Config{Service: w.service}
	if o.transport != nil {
		o.transport(&transport)
	}
	w.server, err = grpcserver.New(transport)
	must(t, err)
	w.listen(transport.TLS != nil)
	return w
}

// swapRules replaces the rules in force.
func (w *world) swapRules(text string) {
	w.t.Helper()
	parsed, err := permission.Parse("rules", []byte(text))
	must(w.t, err)
	w.gate.Swap(parsed)
}

func (w *world) listen(secure bool) {
	w.t.Helper()
	ctx := context.Background()
	tcp, err := grpcserver.ListenTCP(ctx, "127.0.0.1:0", secure)
	must(w.t, err)
	dir, err := os.MkdirTemp("", "toold") // the path of t.TempDir may be too long for a socket
	must(w.t, err)
	w.tcp, w.unix = tcp.Addr().String(), filepath.Join(dir, "s")
	unix, err := grpcserver.ListenUnix(ctx, w.unix, false)
	must(w.t, err)
	var serving sync.WaitGroup
	serving.Go(func() { check(w.t, w.server.Serve(tcp)) })
	serving.Go(func() { check(w.t, w.server.Serve(unix)) })
	w.server.SetReady(true)
	w.stop = sync.OnceFunc(func() {
		now, cancel := context.WithCancel(ctx)
		cancel()
		w.engine.Drain(now)
		for _, c := range w.conns {
			c.Close()
		}
		closing, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		w.service.Stop()
		w.server.Shutdown(closing)
		serving.Wait()
		os.RemoveAll(dir)
	})
	w.t.Cleanup(w.stop)
}

func userTokens() []access.Token {
	var tokens []access.Token
	for name, p := range users {
		p.Subject = name
		tokens = append(tokens, access.Token{Hash: hashOf(tokenOf(name)), Principal: p})
	}
	return tokens
}

// as returns a connection whose requests carry the token of a user. For the user "" they carry none.
func (w *world) as(user string) *grpc.ClientConn {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.conns[user]; c != nil {
		return c
	}
	token := ""
	if user != "" {
		token = tokenOf(user)
	}
	c, err := grpc.NewClient(w.tcp, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(bearer(token)))
	must(w.t, err)
	w.conns[user] = c
	return c
}

func (w *world) calls(user string) tooldv1.CallServiceClient {
	return tooldv1.NewCallServiceClient(w.as(user))
}

// bearer sends a token; "" sends none.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if b == "" {
		return nil, nil
	}
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }

func withToken(ctx context.Context, header string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", header)
}

// testTools returns one tool for each way in which a call can proceed.
func (w *world) testTools() []tool.Tool {
	reading := tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe, ConcurrencySafe: true}
	text := json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`)
	return []tool.Tool{
		tool.Func(tool.Descriptor{ID: "echo", Description: "says it again", Category: "words", Parameters: text, Effects: reading, Aliases: []string{"say"}},
			func(_ context.Context, c *tool.Call) (*tool.Result, error) {
				return tool.Text(c.Arguments.String("text")), nil
			}),
		tool.Func(tool.Descriptor{ID: "talk", Category: "words", Effects: reading}, talk),
		tool.Func(tool.Descriptor{ID: "write", Category: "files", Parameters: text},
			func(_ context.Context, c *tool.Call) (*tool.Result, error) {
				w.writes.Add(1)
				return tool.Text("wrote " + c.Arguments.String("text")), nil
			}),
		tool.Func(tool.Descriptor{ID: "transfer", Parameters: text},
			func(_ context.Context, c *tool.Call) (*tool.Result, error) {
				return tool.Text("sent " + c.Arguments.String("text")), nil
			}),
		tool.Func(tool.Descriptor{ID: "launch", Effects: tool.Effects{Tier: tool.Escalate}},
			func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("launched"), nil }),
		tool.Func(tool.Descriptor{ID: "ask", Effects: reading}, ask),
		tool.Func(tool.Descriptor{ID: "slow", Effects: reading},
			func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}),
		tool.Func(tool.Descriptor{ID: "hold", Effects: reading},
			func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
				select {
				case <-w.release:
					return tool.Text("held"), nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}),
		tool.Func(tool.Descriptor{ID: "type", Effects: reading}, typed),
		tool.Func(tool.Descriptor{ID: "fail", Effects: reading},
			func(context.Context, *tool.Call) (*tool.Result, error) {
				return tool.FailCode("NO_ROW", "There is no row 7"), nil
			}),
		tool.Func(tool.Descriptor{ID: "secret", Effects: reading},
			func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("never"), nil }),
		tool.Func(tool.Descriptor{ID: "forbidden", Effects: reading},
			func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("never"), nil }),
	}
}

func talk(_ context.Context, c *tool.Call) (*tool.Result, error) {
	return tool.Text("done"), errors.Join(
		c.Progress(tool.ProgressRunning, 0.5, "half"),
		c.Activity("plan", "list", map[string]any{"steps": []string{}}),
		c.ActivityDelta("plan", []map[string]any{{"op": "add", "path": "/steps/-", "value": "one"}}),
		c.Output("stdout", []byte("line\n")),
	)
}

// typed waits until its terminal is resized, then reads its input to the end. The input waits in the terminal until then.
func typed(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	begin, done := make(chan struct{}), make(chan struct{})
	defer close(done)
	in, err := c.Input(tool.Controls{Resize: func(int, int) error {
		close(begin)
		<-done
		return nil
	}})
	if err != nil {
		return nil, err
	}
	defer in.Close()
	select {
	case <-begin:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	b, err := io.ReadAll(in)
	return tool.Text(strconv.Quote(string(b))), err
}

func ask(context.Context, *tool.Call) (*tool.Result, error) {
	return tool.SuspendedWith(tool.Ticket{
		Action: "input", Message: "Which colour?", ResumeMode: tool.UseDecisionAsToolResult,
		ResponseSchema: json.RawMessage(`{"type":"object","properties":{"color":{"enum":["red","blue"]}},"required":["color"]}`),
	}), nil
}

// admin is a fake [service.Admin].
type admin struct {
	tools *registry.Registry
	pins  *wire.Pins
	mu    sync.Mutex
	level string
	bad   error // the error that Reload returns
	hooks []service.HookState
	calls *memory.Store // if set, Audit returns a record for each of its calls

	workers  []service.WorkerState
	load     []service.LoadSample
	problems []service.Problem
}

func (a *admin) Info(context.Context) service.Info {
	return service.Info{Version: "1.2.3", Store: "memory", StoreID: "store", Epoch: 1, Features: []string{"runs", "artifacts"}, Hooks: a.hooks}
}

func (a *admin) Reload(context.Context) (service.Reloaded, error) {
	return service.Reloaded{Changed: []string{"rules"}, NeedsRestart: []string{"listen.tcp", "data"}}, a.bad
}

func (a *admin) Drain(period *time.Duration) (time.Time, int) { return time.Unix(1_800_000_000, 0), 3 }

func (a *admin) Sources() []tool.SourceStatus {
	return []tool.SourceStatus{
		{Name: "builtin", State: tool.SourceReady, Tools: 3},
		{Name: "worker:other/p", Namespace: "other", State: tool.SourceReady, Tools: 1},
		{Name: "worker:other/down", Namespace: "other", State: tool.SourceDown},
		{Name: "mcp:w", State: tool.SourceDown, Since: time.Unix(1, 0), Error: "gone", Refused: []tool.RefusedTool{{Name: "read ", Reason: "a space"}}},
	}
}

func (a *admin) Secrets(_ context.Context, check bool) []secret.State {
	s := secret.State{Name: "db", Backend: "file", Place: "/run/db", Allow: []secret.Allow{{Tools: []string{"report"}}}}
	if check {
		s.Read, s.Problem = time.Unix(1, 0), errors.New("gone")
	}
	theirs := secret.State{Name: "theirs", Place: "/run/theirs", Allow: []secret.Allow{{Namespaces: []string{"oth*", "third"}, Tools: []string{"pay"}}}}
	return []secret.State{s, theirs}
}

func (a *admin) Quarantined() []tool.QuarantinedTool { return a.tools.Quarantined() }

func (a *admin) AcceptTool(p tool.Principal, q *tool.QuarantinedTool) (*tool.Definition, error) {
	return wire.Accept(a.tools, q, p.Subject)
}

func (a *admin) RefuseTool(p tool.Principal, q *tool.QuarantinedTool) error {
	return wire.Refuse(a.tools, q, p.Subject)
}

func (a *admin) Judged(ctx context.Context, source, id string, before int64, limit int) ([]tool.JudgedDefinition, int64, error) {
	return a.pins.History(ctx, source, id, before, limit)
}

func (a *admin) Backup(_ context.Context, _ tool.Principal, directory string) (*call.Backup, error) {
	return &call.Backup{Calls: 3, Files: 2, Bytes: int64(len(directory))}, a.bad
}

func (a *admin) Audit(ctx context.Context, namespace string, q service.AuditQuery) (service.AuditPage, error) {
	page := service.AuditPage{Kept: time.Unix(1_700_000_000, 0)}
	if a.calls != nil {
		found, err := a.calls.Calls(ctx, call.Query{Namespace: namespace, Limit: q.Limit})
		for _, c := range found.Calls {
			page.Records = append(page.Records, call.ChainRecord{Key: "call", CallID: c.ID, Record: []byte("{}")})
		}
		return page, err
	}
	all := []call.ChainRecord{{Position: 3, Key: "k", Link: []byte(namespace), Record: []byte("{}")}, {Position: 7}}
	all = slices.DeleteFunc(all, func(r call.ChainRecord) bool { return r.Position <= q.Position })
	page.Records = all[:min(q.Limit, len(all))]
	return page, a.bad
}

func (a *admin) VerifyAudit(context.Context, string, service.AuditStart) (service.AuditPart, error) {
	return service.AuditPart{Records: 2, Done: true}, a.bad
}

func (a *admin) AuditCheckpoints(namespace string, _ int64, limit int) ([]service.AuditCheckpoint, error) {
	return []service.AuditCheckpoint{{Position: int64(limit), Line: namespace}}, a.bad
}

func (a *admin) AuditKinds() []string { return []string{"accepted", "finished"} }

func (a *admin) Retry(source string) bool { return strings.HasPrefix(source, "mcp:") }

func (a *admin) Workers() []service.WorkerState { return slices.Clone(a.workers) }

func (a *admin) Load() ([]service.LoadSample, time.Duration) { return a.load, 10 * time.Second }

func (a *admin) Problems(context.Context, *access.Identity) ([]service.Problem, error) {
	return slices.Clone(a.problems), a.bad
}

func (a *admin) SetLogLevel(level string) (previous string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	previous, a.level = a.level, level
	return previous
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// check is like must, for goroutines other than the one of the test.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// within returns a context with a time limit that is long enough for every test, even on a busy machine.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// reason returns the code of an error and the reason in its ErrorInfo.
func reason(err error) (codes.Code, string) {
	st := status.Convert(err)
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return st.Code(), info.GetReason()
		}
	}
	return st.Code(), ""
}

func wantRefusal(t testing.TB, err error, code codes.Code, why string) {
	t.Helper()
	if c, r := reason(err); c != code || r != why {
		t.Errorf("got %v %q (%v), want %v %q", c, r, err, code, why)
	}
}

// A framed is a response that carries a frame.
type framed interface{ GetFrame() *tooldv1.Frame }

// readAll reads frames until the stream ends. If the stream ends without an error, the error is nil.
func readAll[R framed](next func() (R, error)) ([]*tooldv1.Frame, error) {
	var all []*tooldv1.Frame
	for {
		r, err := next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, r.GetFrame())
	}
}

// events returns all events in the frames.
func events(all []*tooldv1.Frame) (out []*tooldv1.CallEvent) {
	for _, f := range all {
		out = append(out, f.GetEvents()...)
	}
	return out
}

// kinds returns the kind of each frame, in order, without heartbeats.
func kinds(all []*tooldv1.Frame) (out []string) {
	for _, f := range all {
		for _, e := range f.GetEvents() {
			out = append(out, fieldOf(e, "event"))
		}
		if c := fieldOf(f, "control"); c != "" && c != "heartbeat" {
			out = append(out, c)
		}
	}
	return out
}

// longID pads a short name to the length that call and decision ids need.
func longID(name string) string { return name + strings.Repeat("-", max(16-len(name), 0)) }
