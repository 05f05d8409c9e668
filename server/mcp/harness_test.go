package mcpserver_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/toold-dev/toold/daemon"
	"github.com/toold-dev/toold/daemon/config"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	mcpserver "github.com/toold-dev/toold/server/mcp"
	"github.com/toold-dev/toold/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// roles has the users of the tests and their roles. All users are in one namespace.
var roles = map[string]string{"alice": "caller", "bob": "caller", "oscar": "operator, caller", "ann": "approver", "ada": "caller, approver", "root": "admin"}

const rules = `
rules:
  - {name: hidden, action: deny, tools: [secret]}
  - {name: four eyes, action: ask, tools: [launch], four_eyes: true}
  - {name: two, action: ask, tools: [transfer], count: 2}
  - {name: one, action: ask, tools: [deploy, visit]}
  - {name: rest, action: allow, tools: ["*"]}
`

// A world is a daemon with a data directory. It may stop and start again.
type world struct {
	t    *testing.T
	dir  string
	conn *grpc.ClientConn
	stop func()
	last *mcpserver.Server // the server of the last call of serve

	old     context.Context // done when the credentials of users whose name ends with oldCredential have expired
	expire  context.CancelFunc
	booked  atomic.Int32
	started chan string // receives the id of each call of the tool "hold" when the call begins
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "toold") // the path of t.TempDir may be too long for a socket
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := &world{t: t, dir: dir, started: make(chan string, 100)}
	w.old, w.expire = context.WithCancel(context.Background())
	t.Cleanup(w.expire)
	must(t, os.Mkdir(filepath.Join(dir, "work"), 0o755))
	w.write(rules)
	var tokens strings.Builder
	for name, has := range roles {
		sum := sha256.Sum256([]byte(tokenOf(name)))
		fmt.Fprintf(&tokens, "    - {name: %s, roles: [%s], hash: sha256:%s}\n", name, has, hex.EncodeToString(sum[:]))
	}
	must(t, os.WriteFile(filepath.Join(dir, "toold.yaml"), []byte("auth:\n  tokens:\n"+tokens.String()), 0o600))
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

// start starts the daemon.
func (w *world) start() {
	w.t.Helper()
	at := func(name string) string { return filepath.Join(w.dir, name) }
	cfg, err := config.Parse([]string{
		"--config", at("toold.yaml"), "--data", at("data"), "--workspace", at("work"), "--rules", at("rules.yaml"), "--listen-tcp", "127.0.0.1:0", "--log-level", "error",
	}, nil)
	must(w.t, err)
	ready, ended := make(chan daemon.Ready, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	d := daemon.New(cfg, daemon.WithTools(w.testTools()...), daemon.WithReady(func(r daemon.Ready) { ready <- r }))
	go func() { ended <- d.Run(ctx) }()
	select {
	case r := <-ready:
		w.conn, err = grpc.NewClient(r.TCP, grpc.WithTransportCredentials(insecure.NewCredentials()))
		must(w.t, err)
	case err := <-ended:
		w.t.Fatalf("the daemon ended: %v", err)
	}
	w.stop = func() {
		w.conn.Close()
		cancel()
		check(w.t, <-ended)
		w.stop = func() {}
	}
}

// write replaces the rule file. The daemon reads it at its next start or reload.
func (w *world) write(rules string) {
	w.t.Helper()
	must(w.t, os.WriteFile(filepath.Join(w.dir, "rules.yaml"), []byte(rules), 0o600))
}

func tokenOf(user string) string { return user + "-0123456789abcdefghijklmnop" }

// userKey is the key of a user's name in the context of an HTTP request.
type userKey struct{}

// Invoke and NewStream make the world the connection of the MCP server under test. They send a request to the daemon with the token of the
// user in ctx.
func (w *world) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if w.hasExpired(ctx) {
		return errExpired
	}
	return w.conn.Invoke(withToken(ctx), method, args, reply, opts...)
}

// oldCredential is a suffix for the names of users. The credential of a user with this suffix expires when the test says so.
const oldCredential = "+old"

var errExpired = status.Error(codes.Unauthenticated, "the credential has expired")

func (w *world) hasExpired(ctx context.Context) bool {
	user, _ := ctx.Value(userKey{}).(string)
	return strings.HasSuffix(user, oldCredential) && w.old.Err() != nil
}

// expiring is a stream of a credential that may expire.
type expiring struct {
	grpc.ClientStream
	expired func() bool
}

func (e expiring) RecvMsg(m any) error {
	if err := e.ClientStream.RecvMsg(m); err == nil || !e.expired() {
		return err
	}
	return errExpired
}

func (w *world) NewStream(ctx context.Context, d *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if w.hasExpired(ctx) {
		return nil, errExpired
	}
	if user, _ := ctx.Value(userKey{}).(string); !strings.HasSuffix(user, oldCredential) {
		return w.conn.NewStream(withToken(ctx), d, method, opts...)
	}
	bounded, cancel := context.WithCancel(withToken(ctx))
	context.AfterFunc(w.old, cancel)
	s, err := w.conn.NewStream(bounded, d, method, opts...)
	return expiring{s, func() bool { return w.hasExpired(ctx) }}, err
}

func withToken(ctx context.Context) context.Context {
	user, _ := ctx.Value(userKey{}).(string)
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+tokenOf(strings.TrimSuffix(user, oldCredential)))
}

// serve starts an HTTP server for the handler. The header User names the user of a request.
func (w *world) serve(cfg mcpserver.Config) string {
	w.t.Helper()
	cfg.Conn, cfg.Version = w, "1.2.3"
	cfg.Authenticate = func(ctx context.Context) (string, error) {
		user, _ := ctx.Value(userKey{}).(string)
		_, err := tooldv1.NewToolServiceClient(w).ListTools(ctx, &tooldv1.ListToolsRequest{PageSize: 1})
		return mcpserver.Principal("default", strings.TrimSuffix(user, oldCredential)), err
	}
	m := mcpserver.New(cfg)
	w.last = m
	h := m.Handler()
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(rw, r.WithContext(context.WithValue(r.Context(), userKey{}, r.Header.Get("User"))))
	}))
	w.t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		m.Close()
	})
	return s.URL
}

// userHeader adds the header User to requests.
type userHeader string

func (u userHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("User", string(u))
	return http.DefaultTransport.RoundTrip(r)
}

// legacy is the newest protocol version with sessions.
const legacy = "2025-11-25"

// connect returns a client of a user. An empty version means the newest protocol.
func connect(t *testing.T, url, user, version string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts)
	transport := &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: userHeader(user)}}
	session, err := c.Connect(within(t), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	must(t, err)
	t.Cleanup(func() { session.Close() })
	return session
}

// testTools are the tools of the daemon.
func (w *world) testTools() []tool.Tool {
	reading := tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe}
	d := func(id string, e tool.Effects) tool.Descriptor {
		return tool.Descriptor{ID: id, Effects: e, Parameters: json.RawMessage(`{"type":"object"}`)}
	}
	echo := d("echo", reading)
	echo.DisplayName, echo.Description, echo.ResultSchema = "Echo", "Returns its arguments.", json.RawMessage(`{"type":"object"}`)
	hold := func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		w.started <- c.ID
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	route := d("route", reading)
	route.Parameters = json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},` +
		`"to":{"type":"object","properties":{"zone":{"type":"integer","x-mcp-header":"Zone"}}},"fast":{"type":"boolean","x-mcp-header":"Fast"},"list":{"type":"array","x-mcp-header":"List"}}}`)
	job, look, errand := d("job", tool.Effects{}), d("look", reading), d("errand", tool.Effects{})
	job.Metadata, look.Metadata, errand.Metadata = map[string]string{"mcp.task": "always"}, map[string]string{"mcp.task": "always"}, map[string]string{"mcp.task": "required"}
	return []tool.Tool{
		tool.Func(echo, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			return &tool.Result{Status: tool.StatusSuccess, Data: c.Arguments.Text()}, nil
		}),
		tool.Func(d("fail", reading), func(context.Context, *tool.Call) (*tool.Result, error) {
			return &tool.Result{Status: tool.StatusError, Error: &tool.Error{Code: tool.ExecutionFailed, Message: "the printer is on fire"}}, nil
		}),
		tool.Func(d("steps", reading), func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			for i := range 3 {
				if err := c.ReportProgress(tool.Progress{Status: tool.ProgressRunning, Loaded: int64(i + 1), Total: 3, Message: fmt.Sprint("step ", i+1)}); err != nil {
					return nil, err
				}
			}
			return &tool.Result{Status: tool.StatusSuccess, Message: "done"}, nil
		}),
		tool.Func(d("hold", tool.Effects{}), hold),
		tool.Func(d("mixed", reading), mixed),
		tool.Func(job, hold), tool.Func(look, hold), tool.Func(errand, nothing), tool.Func(route, nothing),
		tool.Func(d("book", tool.Effects{}), w.book), tool.Func(d("visit", tool.Effects{}), w.book),
		tool.Func(d("secret", tool.Effects{}), nothing), tool.Func(d("launch", tool.Effects{}), nothing),
		tool.Func(d("transfer", tool.Effects{}), nothing), tool.Func(d("deploy", tool.Effects{}), nothing),
	}
}

func nothing(context.Context, *tool.Call) (*tool.Result, error) {
	return &tool.Result{Status: tool.StatusSuccess, Message: "done"}, nil
}

// book asks for a name, then for the details, and counts how often it finishes.
func (w *world) book(_ context.Context, c *tool.Call) (*tool.Result, error) {
	switch {
	case c.Resume == nil || c.Resume.Reason == "approval":
		return tool.SuspendedWith(tool.Ticket{Action: "input", Message: "Your name?\u202e", ResponseSchema: json.RawMessage(`{"type":"string","minLength":2,"pattern":"^[A-Z]"}`)}), nil
	case len(c.Checkpoint) == 0:
		if err := c.SaveCheckpoint([]byte(c.Resume.Result)); err != nil {
			return nil, err
		}
		return tool.SuspendedWith(tool.Ticket{Action: "input", Message: "Details?", ResponseSchema: json.RawMessage(
			`{"type":"object","properties":{"seats":{"type":"integer","minimum":1},"class":{"enum":["first","second"]}},"required":["seats"],"additionalProperties":false}`)}), nil
	}
	w.booked.Add(1)
	return &tool.Result{Status: tool.StatusSuccess, Message: string(c.Checkpoint) + " " + c.Resume.Result}, nil
}

// mixed returns a result with one piece of each kind of content.
func mixed(_ context.Context, c *tool.Call) (*tool.Result, error) {
	large, err := c.SaveArtifact("large", "image/png", make([]byte, 300<<10))
	if err != nil {
		return nil, err
	}
	huge, err := c.SaveArtifact("huge file", "audio/wav", make([]byte, 5<<20))
	return &tool.Result{Status: tool.StatusSuccess, Message: "all of it", Content: []tool.Content{
		{Type: tool.ContentText, Text: "all of it"},
		{Type: tool.ContentText, Text: "more"},
		{Type: tool.ContentImage, MIMEType: "image/gif", Data: []byte("GIF")},
		{Type: tool.ContentImage, MIMEType: "image/png", Artifact: large.Name},
		{Type: tool.ContentAudio, MIMEType: "audio/wav", Artifact: huge.Name},
		{Type: tool.ContentDocument, MIMEType: "application/pdf", Data: []byte("%PDF"), URI: "file:///a.pdf"},
		{Type: tool.ContentDocument, MIMEType: "text/plain", Data: []byte("plain"), Name: "a.txt"},
		{Type: tool.ContentDiff, Text: "-a\n+b"},
		{Type: tool.ContentLink, URI: "https://example.com/x", Name: "x", MIMEType: "text/html"},
	}}, err
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func textOf(r *mcp.CallToolResult) string {
	var all []string
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			all = append(all, text.Text)
		}
	}
	return strings.Join(all, "\n")
}

// request sends a ping with this HTTP method and returns the status of the response.
func (w *world) request(method, url, user, session, version string) int {
	w.t.Helper()
	return w.send(method, url, user, session, version, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
}

func (w *world) send(method, url, user, session, version, body string) int {
	w.t.Helper()
	got := w.open(method, url, user, session, version, body)
	got.Body.Close()
	return got.StatusCode
}

// open sends a request and returns its response while the body may still be open.
func (w *world) open(method, url, user, session, version, body string) *http.Response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(within(w.t), method, url, strings.NewReader(body))
	must(w.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", version)
	r.Header.Set("User", user)
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	got, err := http.DefaultClient.Do(r)
	must(w.t, err)
	w.t.Cleanup(func() { got.Body.Close() })
	return got
}
