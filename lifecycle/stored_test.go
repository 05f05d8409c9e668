package lifecycle_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// printing returns a tool that prints as many KiB as its argument has letters.
func printing(id string) tool.Tool {
	return made(id, mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		for range len(c.Arguments.String("n")) {
			if err := c.Output("stdout", []byte(strings.Repeat("x", 1<<10))); err != nil {
				return nil, err
			}
		}
		return tool.Text("ok"), nil
	})
}

func TestStoredBytesAreLimited(t *testing.T) {
	change := func(c *lifecycle.Config) { c.StoredBytes = 100 << 10 }
	inBubble(t, []tool.Tool{printing("print")}, change, func(t *testing.T, w *world) {
		twenty := `{"n":"` + strings.Repeat("k", 20) + `"}`
		c, n := w.do(spec("print", twenty)), 1
		for ; c.Status == call.Succeeded && n < 10; n++ {
			c = w.do(spec("print", twenty))
		}
		if n != 5 { // The last call was admitted below the limit, and reached the limit while it printed.
			t.Errorf("%d calls of 20 KiB and more in 100 KiB", n)
		}
		if e := c.Result.Error; c.Status != call.Failed || c.Executed != call.Started || e.Code != tool.ResourceExhausted || e.Reason != "STORAGE_QUOTA" {
			t.Fatalf("%s %s %+v", c.Status, c.Executed, c.Result)
		}
		refused := func() {
			t.Helper()
			s := spec("print", `{}`)
			_, err := w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{})
			wantRefusal(t, err, call.ResourceExhausted, "STORAGE_QUOTA")
			if r, _ := errors.AsType[*call.Refusal](err); r.RetryAfter == 0 {
				t.Error("no time to come back")
			}
			_, err = w.e.Records().Get(t.Context(), alice, s.ID)
			wantRefusal(t, err, call.NotFound, "CALL_NOT_FOUND")
		}
		refused()
		if err := w.beginAs("other", "alice", "print"); err != nil {
			t.Errorf("another namespace: %v", err)
		}

		w.crash() // The next daemon must measure the stored bytes again.
		measure := func() {
			t.Helper()
			if err := w.e.MeasureStorage(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		measure()
		if got := w.e.StorageUsage()["ns"]; got < 90<<10 || got > 150<<10 {
			t.Errorf("%d bytes were measured", got)
		}
		refused()
		time.Sleep(time.Minute)
		trimmed, err := w.store.Trim(t.Context(), w.store.Now().Add(time.Hour), 0, 0, 100)
		if err != nil || len(trimmed) == 0 {
			t.Fatal(trimmed, err)
		}
		for _, key := range trimmed {
			if err := w.store.Spool().Remove(key); err != nil {
				t.Fatal(err)
			}
		}
		measure()
		if c := w.do(spec("print", twenty)); c.Status != call.Succeeded {
			t.Errorf("when there is room again: %s", c.Status)
		}
	})
}

func TestStoredBytesAreNotCountedUnlessLimited(t *testing.T) {
	inBubble(t, []tool.Tool{printing("print")}, nil, func(t *testing.T, w *world) {
		w.do(spec("print", `{"n":"kkk"}`))
		if err := w.e.MeasureStorage(t.Context()); err != nil || w.e.StorageUsage() != nil {
			t.Errorf("%v, %v", w.e.StorageUsage(), err)
		}
	})
}
