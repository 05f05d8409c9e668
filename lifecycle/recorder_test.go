package lifecycle_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// recording is a filter that stores a record for each event.
type recording struct{ watching }

func (recording) Record(in *hook.Input) func(*call.Event) []hook.Record {
	return func(ev *call.Event) []hook.Record {
		return []hook.Record{{Kind: "note", Key: in.CallID, Bytes: []byte(ev.Type)}}
	}
}

// TestRecordsCommitWithTheirEvents checks that a record of a Recorder is stored only together with its event. When the journal refuses the
// end of a call, or a decision comes too late, the record of that event is not stored. The event that is stored instead has a separate
// record.
func TestRecordsCommitWithTheirEvents(t *testing.T) {
	config := func(c *lifecycle.Config) {
		c.Hooks.Filter = []hook.Entry[hook.Filter]{{Name: "recorder", Hook: recording{}}}
	}
	ask := made("ask", mutating, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		if c.Resume == nil {
			return tool.SuspendedWith(tool.Ticket{Message: "go on?"}), nil
		}
		return tool.Text("went on"), c.Progress(tool.ProgressRunning, 0.5, "half")
	})
	read := made("read", reading, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		return tool.Text("read"), c.Progress(tool.ProgressRunning, 0.5, "half")
	})
	inBubble(t, []tool.Tool{ask, read}, config, func(t *testing.T, w *world) {
		full := true
		w.useStore(nil, failing(func(_ int, c *change) bool { return full && (c.ends() || c.Decision != nil) }))
		asked := w.do(spec("ask", ""))
		watcher, err := w.e.Watch(t.Context(), alice, asked.ID, "", true) // The watcher keeps the call in memory.
		if err != nil {
			t.Fatal(err)
		}
		defer watcher.Close()
		if _, err := w.e.Cancel(t.Context(), alice, asked.ID, "", 0); err == nil {
			t.Fatal("cancelled on a full journal")
		}
		if _, err := w.resume(alice, asked, no("no")); err == nil {
			t.Fatal("declined on a full journal")
		}
		full = false
		w.answer(alice, asked, yes())
		other := w.do(spec("read", ""))
		time.Sleep(time.Second)
		for _, id := range []string{asked.ID, other.ID} {
			var want, got []string
			for _, ev := range w.checkLog(id) {
				want = append(want, string(ev.Type))
			}
			records, err := w.store.Records(t.Context(), "ns", "note", 0, 100)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				if r.Key == id {
					got = append(got, string(r.Bytes))
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("records of %q, events %q", got, want)
			}
		}
	})
}
