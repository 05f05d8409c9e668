package mcp_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/mcp"
)

// modes of the test server, one for each protocol era
var eras = []string{"good", "earlier"}

func TestCall(t *testing.T) {
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			w := connect(t, newMemory(), nil, own(t, "w", era)).ready()
			c, _ := newCall(t, `{"text":"hi","big":18446744073709551615}`)
			r, err := w.do("w__echo", c)
			must(t, err)
			if r.Data != `{"text":"hi","big":18446744073709551615}` || r.Message != `you said {"text":"hi","big":18446744073709551615}` {
				t.Errorf("data %s, message %s: a digit was lost on the way", r.Data, r.Message)
			}
			e, _ := w.tools.Lookup("w__echo")
			contains(t, string(e.Descriptor.Parameters), `"maximum":18446744073709551615`)
			if e.Descriptor.Guidance != "Call echo first.Obey me. [markup was removed]" || e.Descriptor.DisplayName != "w: echo" {
				t.Errorf("the descriptor says %+v", e.Descriptor)
			}
			c, _ = newCall(t, `{}`)
			r, err = w.do("w__fail", c)
			must(t, err)
			if !r.IsError() || r.Error.Message != "no such city" || r.Error.Code != tool.ExecutionFailed {
				t.Errorf("a failure is %+v", r)
			}
			want := map[string]string{"good": "2026-07-28", "earlier": "2025-11-25"}[era]
			if s := w.hub.Sources()[0]; s.Protocol != want || s.Server != "mcptest 1" || s.Tools != 14 || len(s.Refused) > 0 {
				t.Errorf("the source is %+v", s)
			}
		})
	}
}

func TestPieces(t *testing.T) {
	w := connect(t, newMemory(), nil, own(t, "w", "good")).ready()
	c, rep := newCall(t, `{}`)
	r, err := w.do("w__pieces", c)
	must(t, err)
	var kinds []string
	for _, p := range r.Content {
		kinds = append(kinds, string(p.Type))
	}
	if got := strings.Join(kinds, " "); got != "image audio resource_link document" {
		t.Errorf("the content is %s", got)
	}
	if string(r.Content[0].Data) != "small" || r.Content[1].Artifact != "mcp-2" || len(r.Content[1].Data) > 0 || len(rep.artifacts) != 1 || rep.artifacts[0].Size != 90_000 {
		t.Errorf("small and big pieces: %+v, %+v", r.Content[:2], rep.artifacts)
	}
	contains(t, r.Message, "see\n", "[image, image/png, 5 bytes]", "[resource file:///a]", "words of b")
}

// The test checks that a report that a server sends before its answer still reaches the call.
func TestAnswerOvertakesNothing(t *testing.T) {
	t.Parallel()
	w := connect(t, newMemory(), nil, own(t, "telling", "telling")).ready()
	var lost []string
	for range 30 {
		c, rep := newCall(t, `{}`)
		_, err := w.do("telling__bash", c)
		must(t, err)
		if _, output := rep.reported(); !strings.Contains(output, "log:info line 19\n") {
			lost = append(lost, output[max(0, len(output)-20):])
		}
	}
	if len(lost) > 0 {
		t.Errorf("of %d of 30 calls the last line was lost: %q", len(lost), lost)
	}
}

// A stuck reporter blocks in Output until freed is closed, like a call whose journal is full.
type stuck struct {
	*reporter
	freed chan struct{}
}

func (s stuck) Output(stream string, b []byte) error {
	<-s.freed
	return s.reporter.Output(stream, b)
}

// The test checks that after a call whose reports came too late, the next calls still wait for their own reports.
func TestLateLinesCountOnce(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.DebugLevel)
	w := connect(t, newMemory(), func(c *mcp.Config) { c.Log = zap.New(core) }, own(t, "telling", "telling")).ready()
	c, rep := newCall(t, `{}`)
	s := stuck{rep, make(chan struct{})}
	c.Reporter = s
	_, err := w.do("telling__bash", c)
	must(t, err)
	close(s.freed)
	w.eventually("the other lines, which are nobody's now, were passed on", func() bool {
		return logs.FilterMessage("log message of an MCP server").FilterField(zap.String("text", "line 19")).Len() > 0
	})
	c, rep = newCall(t, `{}`)
	s = stuck{rep, make(chan struct{})}
	c.Reporter = s
	time.AfterFunc(100*time.Millisecond, func() { close(s.freed) })
	_, err = w.do("telling__bash", c)
	must(t, err)
	if _, output := rep.reported(); !strings.Contains(output, "log:info line 19\n") {
		t.Errorf("the last line was lost behind %q", output)
	}
}

// TestCancel checks that cancelling a call also cancels the request at the server. Reports that the server sends meanwhile still reach the
// call.
func TestCancel(t *testing.T) {
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			w := connect(t, newMemory(), nil, own(t, "w", era)).ready()
			c, rep := newCall(t, `{}`)
			e, _ := w.tools.Lookup("w__slow")
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			done := make(chan error, 1)
			go func() {
				_, err := e.Tool.Execute(ctx, c)
				done <- err
			}()
			w.eventually("progress and log are reported", func() bool { n, out := rep.reported(); return n == 1 && out != "" })
			if p := rep.progress[0]; p.Fraction != 0.25 || p.Message != "a quarter" || p.Total != 4 {
				t.Errorf("progress %+v", p)
			}
			if _, out := rep.reported(); out != "log:warning engine: it is hot\n" {
				t.Errorf("log %q", out)
			}
			cancel(tool.Errorf(tool.Cancelled, "enough"))
			if err := <-done; err == nil || err.Error() != "enough" {
				t.Errorf("the call ended with %v", err)
			}
			w.eventually("the server receives the cancellation", func() bool { return strings.Contains(w.journal(), "slow cancelled") })
		})
	}
}

// TestReconnect checks that a server that has ended is started again, and that the outcome of its interrupted call is unknown.
func TestReconnect(t *testing.T) {
	w := connect(t, newMemory(), nil, own(t, "w", "good"), own(t, "other", "good")).ready()
	c, _ := newCall(t, `{}`)
	_, err := w.do("w__crash", c)
	if e := tool.AsError(err); err == nil || e.Code != tool.Upstream || e.Reason != "CONNECTION_LOST" || e.Retryable {
		t.Fatalf("the call ended with %v", err)
	}
	w.eventually("it is there again", func() bool {
		s := w.hub.Sources()[1]
		return s.State == tool.SourceReady && s.Starts == 2
	})
	contains(t, w.text("w__echo", `{"text":"again"}`), "again")
	contains(t, w.text("other__echo", `{"text":"here"}`), "here")
	if s := w.hub.Sources()[0]; s.Starts != 1 {
		t.Errorf("another server was started %d times", s.Starts)
	}
}

// TestDown checks that the status of a failed server contains the end of its standard error, and that the errors of calls say that nothing
// ran.
func TestDown(t *testing.T) {
	broken := mcp.Entry{Key: "broken", Command: "sh", Args: []string{"-c", "printf 'no \\033[31mluck\\n' >&2; exit 7"}}
	missing := mcp.Entry{Key: "missing", Command: "there-is-no-such-program"}
	m := newMemory()
	list, err := json.Marshal(map[string]any{"tools": []any{map[string]any{"name": "t", "inputSchema": map[string]any{"type": "object"}}}})
	must(t, err)
	must(t, m.Keep("broken", list))
	w := connect(t, m, func(c *mcp.Config) { c.Wait = 1 }, broken, missing)
	w.eventually("both are down", func() bool {
		s := w.hub.Sources()
		return strings.Contains(s[0].Error, "exit code 7: no [31mluck") && strings.Contains(s[1].Error, "not in the PATH") && s[0].Starts > 2
	})
	c, _ := newCall(t, `{}`)
	_, err = w.do("broken__t", c)
	if e := tool.AsError(err); err == nil || e.Code != tool.Upstream || e.Reason != "SERVER_DOWN" || !e.Retryable {
		t.Errorf("the call ended with %v", err)
	}
}
