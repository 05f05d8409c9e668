package mcp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/mcp"
	"github.com/toold-dev/toold/tools/mcp/mcptest"
)

// The test checks that a daemon that may have lost its store sends no call to a server over HTTP (T126). Each call that is sent contains
// the epoch, the attempt and the idempotency key.
func TestT126NoCallOfAFencedDaemon(t *testing.T) {
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			var calls atomic.Int32
			var headers atomic.Pointer[http.Header]
			inner := mcptest.Handler(era)
			var owner atomic.Bool
			w := connect(t, newMemory(), func(c *mcp.Config) {
				c.Own = func(context.Context) error {
					if owner.Load() {
						return nil
					}
					return errors.New("another daemon has taken over the journal")
				}
			}, overHTTP(t, "w", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					body, err := io.ReadAll(r.Body)
					if err != nil {
						t.Error(err)
					}
					if strings.Contains(string(body), `"tools/call"`) {
						calls.Add(1)
						headers.Store(&r.Header)
					} else if r.Header.Get("Idempotency-Key") != "" {
						t.Errorf("%s carries a key", body)
					}
					r.Body = io.NopCloser(strings.NewReader(string(body)))
				}
				inner.ServeHTTP(w, r)
			}))).ready()
			c, _ := newCall(t, `{"text":"hi"}`)
			c.Epoch, c.Attempt = 7, 3
			if _, err := w.do("w__echo", c); !errors.Is(err, tool.ErrNotRun) || calls.Load() > 0 {
				t.Errorf("%v; %d calls were sent", err, calls.Load())
			}
			owner.Store(true)
			if _, err := w.do("w__echo", c); err != nil {
				t.Fatal(err)
			}
			h := *headers.Load()
			if h.Get("Toold-Epoch") != "7" || h.Get("Toold-Attempt") != "3" || h.Get("Idempotency-Key") != c.IdempotencyKey() {
				t.Errorf("the call carries %v", h)
			}
		})
	}
}
