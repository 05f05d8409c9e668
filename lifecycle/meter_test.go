package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/toold-dev/toold/lifecycle/meter"
	"github.com/toold-dev/toold/tool"
)

func TestToolStats(t *testing.T) {
	slow := made("slow", mutating, func(context.Context, *tool.Call) (*tool.Result, error) {
		time.Sleep(3 * time.Second)
		return &tool.Result{Status: tool.StatusSuccess, Process: &tool.ProcessReport{KillUnverified: []int{7}}}, nil
	})
	broken := made("broken", reading, func(context.Context, *tool.Call) (*tool.Result, error) { return nil, errors.New("no") })
	tools := []tool.Tool{echo("fast", reading), slow, broken, asks("asks", tool.Ticket{})}
	inBubble(t, tools, nil, func(t *testing.T, w *world) {
		for range 3 {
			w.do(spec("fast", "{}"))
		}
		w.do(spec("fast", "nonsense"))
		w.do(spec("slow", "{}"))
		w.do(spec("broken", "{}"))
		for i := range 5 {
			w.do(spec(fmt.Sprintf("unknown-%d", i), "{}"))
		}
		first, second := w.do(spec("asks", "{}")), w.do(spec("asks", "{}"))
		if _, err := w.resume(alice, first, tool.Decision{Action: tool.Cancel}); err != nil {
			t.Fatal(err)
		}
		w.crash() // The answer to the second call goes to the next daemon, which did not see this call begin.
		if len(w.past[0].Meters().Stats()) != 5 {
			t.Errorf("counted are %v", w.past[0].Meters().Stats())
		}
		if _, err := w.resume(alice, second, tool.Decision{Action: tool.Resume, Result: `1`}); err != nil {
			t.Fatal(err)
		}
		before, after := w.past[0].Meters().Stats(), w.e.Meters().Stats()
		for id, want := range map[string]map[tool.Code]int64{
			"fast": {"SUCCEEDED": 3, tool.InvalidArguments: 1}, "slow": {"SUCCEEDED": 1}, "broken": {tool.ExecutionFailed: 1},
			"asks": {tool.Cancelled: 1}, meter.Other: {tool.NotFound: 5},
		} {
			if got := before[id].Ended; !maps.Equal(got, want) {
				t.Errorf("%s ended %v, want %v", id, got, want)
			}
		}
		if s := before["slow"]; s.KillUnverified != 1 || s.Attempt.Sum != int64(3*time.Second) || s.Attempt.Count() != 1 || s.Call.Count() != 1 {
			t.Errorf("slow: %+v", s)
		}
		if s := before["asks"]; s.Suspended != 2 || s.Call.Count() != 0 {
			t.Errorf("asks: %+v", s)
		}
		if s := after["asks"]; s.Ended["SUCCEEDED"] != 1 || s.Suspended != 0 {
			t.Errorf("asks, with the next daemon: %+v", s)
		}
	})
}

// TestCountsOfTheEngine checks that the counts of open resources return to zero, and that each published event is counted once.
func TestCountsOfTheEngine(t *testing.T) {
	prints := made("prints", reading, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		return tool.Text("done"), c.Output("stdout", make([]byte, 100_000))
	})
	inBubble(t, []tool.Tool{prints, echo("t", mutating)}, nil, func(t *testing.T, w *world) {
		c := w.do(spec("t", "{}"))
		watcher, err := w.e.Watch(t.Context(), alice, c.ID, "", false)
		if err != nil {
			t.Fatal(err)
		}
		feed, err := w.e.Watches().WatchFeed(t.Context(), alice, "run-1", "", "", true)
		if err != nil {
			t.Fatal(err)
		}
		if n := w.e.Stats().Watchers; n < 2 {
			t.Errorf("%d watchers", n)
		}
		open := w.e.Stats().Watchers
		watcher.Close()
		watcher.Close()
		feed.Close()
		if n := w.e.Stats().Watchers; n != open-2 {
			t.Errorf("%d watchers of %d are left", n, open)
		}
		before := w.e.Stats().Events
		c = w.do(spec("prints", "{}"))
		s := w.e.Stats()
		if s.Events-before != c.LastSequence || s.OutputBytes != 100_000 {
			t.Errorf("%d events counted of %d, %d bytes", s.Events-before, c.LastSequence, s.OutputBytes)
		}
	})
}
