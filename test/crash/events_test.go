package crash_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

const (
	followedRun   = "run-followed"
	followedCalls = 12
	followedKills = 3
)

// TestEventsOverKills follows a run with curl, as a script would, while the daemon is killed and started again. Each time, curl continues
// from the id of the last complete event. Each event of the log must arrive exactly once.
func TestEventsOverKills(t *testing.T) {
	h := newHome(t)
	h.serveWith = []string{"--listen-http", "127.0.0.1:0"}
	f := &follower{seen: map[string][]int64{}, finished: map[string]bool{}}
	work := &followedWork{}
	for life := range followedKills + 1 {
		d, err := h.start("")
		must(t, err)
		ok, err := d.awaitReady()
		if must(t, err); !ok {
			t.Fatalf("the daemon did not start\n%s", d.log)
		}
		ctx, cancel := context.WithTimeout(t.Context(), startWithin)
		var both sync.WaitGroup
		both.Go(func() { work.run(ctx, d) })
		if life < followedKills {
			before := f.events
			err = f.follow(ctx, d, func() bool { return f.events >= before+9 }) // The condition becomes true in the middle of the third call.
			d.kill()
		} else {
			err = f.follow(ctx, d, func() bool { return len(f.finished) == followedCalls })
		}
		if err != nil {
			t.Errorf("life %d: %v\n%s", life, err, d.log)
		}
		cancel()
		both.Wait()
		if life == followedKills {
			f.compare(t, d)
			must(t, d.stop())
		}
	}
	t.Logf("ran: %d events over %d kills, %d connections", f.events, followedKills, f.connections)
}

// followedWork sends the calls of the run, one after the other. After a kill it continues with the call that had no response.
type followedWork struct{ done int }

func (w *followedWork) run(ctx context.Context, d *daemon) {
	defer http.DefaultClient.CloseIdleConnections()
	for ; w.done < followedCalls; w.done++ {
		body := fmt.Sprintf(`{"spec":{"callId":%q,"tool":"bash","run":{"runId":%q},"arguments":{"command":%q}}}`, followedCall(w.done), followedRun, short(followedCall(w.done)))
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.http+tooldv1.CallService_CallTool_FullMethodName, strings.NewReader(body))
		if err != nil {
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token(auto))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return // the daemon was killed
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return // The follower then gets no more events, and the test fails.
		}
	}
}

func followedCall(i int) string { return fmt.Sprintf("call-followed-%06d", i) }

type follower struct {
	cursor      string             // id of the last complete event
	seen        map[string][]int64 // sequence numbers of the events, by call
	finished    map[string]bool
	events      int
	connections int
}

// follow reads events until enough returns true.
func (f *follower) follow(ctx context.Context, d *daemon, enough func() bool) error {
	for !enough() {
		if ctx.Err() != nil {
			return fmt.Errorf("%d events and %d finished calls in time", f.events, len(f.finished))
		}
		if err := f.connect(ctx, d, enough); err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond) // a pause before the next connection, in case curl could not connect
	}
	return nil
}

// connect reads events from one curl.
func (f *follower) connect(ctx context.Context, d *daemon, enough func() bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	args := []string{"-sSN", "-H", "Authorization: Bearer " + token(auto), d.http + "/v1/watch?run=" + followedRun}
	if f.cursor != "" {
		args = append(args, "-H", "Last-Event-ID: "+f.cursor)
	}
	curl := exec.CommandContext(ctx, "curl", args...)
	out, err := curl.StdoutPipe()
	if err != nil {
		return err
	}
	if err := curl.Start(); err != nil {
		return err
	}
	f.connections++
	defer func() { _ = curl.Wait() }() // Ignore the error: cancel has ended curl.
	defer cancel()
	event := map[string]string{}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), ": "); ok {
			event[name] = value
			continue
		}
		if err := f.take(event); err != nil || enough() {
			return err
		}
		clear(event)
	}
	return nil
}

func (f *follower) take(event map[string]string) error {
	if id, ok := event["id"]; ok {
		f.cursor = id
	}
	switch event["event"] {
	case "gap", "error", "end":
		return fmt.Errorf("event %v", event)
	case "events":
	default:
		return nil
	}
	var frame tooldv1.Frame
	if err := protojson.Unmarshal([]byte(event["data"]), &frame); err != nil {
		return err
	}
	if frame.GetCursor() != event["id"] {
		return fmt.Errorf("the id is %q, the cursor %q", event["id"], frame.GetCursor())
	}
	for _, e := range frame.GetEvents() {
		f.events++
		f.seen[e.GetCallId()] = append(f.seen[e.GetCallId()], e.GetSequence())
		if e.GetFinished() != nil {
			f.finished[e.GetCallId()] = true
		}
	}
	return nil
}

// compare checks that the follower saw each event of each call once, in order.
func (f *follower) compare(t *testing.T, d *daemon) {
	c, err := dial(d.address)
	must(t, err)
	defer c.close()
	for i := range followedCalls {
		id := followedCall(i)
		ctx, cancel := as(t.Context(), auto)
		got, err := c.get(ctx, id)
		cancel()
		must(t, err)
		if want := got.GetCall().GetLastSequence(); int64(len(f.seen[id])) != want {
			t.Errorf("%s: the sequences are %v, want 1 to %d", id, f.seen[id], want)
		}
		for n, sequence := range f.seen[id] {
			if sequence != int64(n+1) {
				t.Errorf("%s: the sequences are %v", id, f.seen[id])
				break
			}
		}
	}
}
