package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// TestT84WorkerOutlivesTheDaemon (T84) kills the daemon while a worker runs calls. The next daemon continues the calls: no call runs twice,
// and the outcomes that the worker reports are used. After a second kill the worker does not reconnect, and recovery ends the calls.
func TestT84WorkerOutlivesTheDaemon(t *testing.T) { inEach(t, workerOutlives) }

func workerOutlives(t *testing.T, l language) {
	s := newSite(t, "")
	p := s.start("--workers-lease", "60s")
	w := p.worker(l, "unix:"+p.ready.Unix, "")
	dir := t.TempDir()
	file := func(id string) string { return filepath.Join(dir, id) }
	args := func(id string) string { return fmt.Sprintf(`{"file":%q}`, file(id)) }
	calls := map[string]string{"outlives-as-held": "held", "outlives-as-held-known": "held_known", "outlives-as-idempotent": "held_idempotent"}
	const lost = "outlives-not-twice"
	for id, tool := range calls {
		p.begin(id, tool, args(id))
		awaitLines(t, file(id), 1)
	}
	p.begin(lost, "held", args(lost))
	awaitLines(t, file(lost), 1)
	p.kill()
	p = s.start("--workers-lease", "60s")
	for id, tool := range calls {
		must(t, os.WriteFile(file(id)+".go", nil, 0o600))
		if c := p.end(id, tool, args(id)); c.GetResult().GetMessage() != "held on attempt 1" || len(c.GetAttempts()) != 1 || c.GetExecuted() != tooldv1.Executed_EXECUTED_FINISHED {
			t.Errorf("%s: %v", tool, c)
		}
		if n := len(awaitLines(t, file(id), 1)); n != 1 {
			t.Errorf("%s ran %d times", tool, n)
		}
		stream, err := p.calls.WatchCalls(t.Context(), &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_CallId{CallId: id}, AfterSequence: new(int64)})
		must(t, err)
		var next int64 = 1
		for f, err := stream.Recv(); err == nil; f, err = stream.Recv() {
			for _, e := range f.GetFrame().GetEvents() {
				if e.GetSequence() != next {
					t.Errorf("%s: event %d where %d follows", tool, e.GetSequence(), next)
				}
				next++
			}
		}
		if next != 4 {
			t.Errorf("%s has %d events, want accepted, attempt_started and finished", tool, next-1)
		}
	}
	p.kill()
	must(t, w.Process.Kill())
	_ = w.Wait()
	p = s.start("--workers-lease", "500ms")
	if c := p.get(lost); c.GetResult().GetError().GetCode() != tooldv1.ErrorCode_ERROR_CODE_IN_DOUBT || len(c.GetAttempts()) != 1 {
		t.Errorf("a call whose worker did not come back: %v", c)
	}
}
