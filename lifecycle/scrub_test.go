package lifecycle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// scrubber replaces one word in all texts. While broken is set, it panics.
type scrubber struct{ broken bool }

const hushed = "hunter2"

func (s *scrubber) Text(t string) string {
	if s.broken {
		panic("broken on purpose")
	}
	return strings.ReplaceAll(t, hushed, "***")
}

func (s *scrubber) JSON(t string) string { return s.Text(t) }

func (s *scrubber) Artifact(_ string, b []byte) []byte { return []byte(s.Text(string(b))) }

func (s *scrubber) Contents(in []tool.Content) (out []tool.Content) {
	for _, c := range in {
		c.Text = s.Text(c.Text)
		out = append(out, c)
	}
	return out
}

func (s *scrubber) Result(in *tool.Result) *tool.Result {
	out := *in
	out.Data, out.Message = s.Text(in.Data), s.Text(in.Message)
	return &out
}

func (s *scrubber) Filter(*hook.Input) func(call.Event) ([]call.Event, []hook.Record) {
	return func(e call.Event) ([]call.Event, []hook.Record) { return []call.Event{e}, nil }
}

// asksOnce returns a tool that puts a secret into a description, an artifact and a question. After the answer, the tool ends.
func asksOnce() *whole {
	return &whole{
		d: tool.Descriptor{ID: "t", Parameters: json.RawMessage(anyObject)},
		describe: func(context.Context, *tool.Call) (tool.Description, error) {
			return tool.Description{
				Title: "show " + hushed, Notes: []string{hushed}, Locations: []tool.Location{{Path: hushed}}, Basis: "basis-" + hushed,
				Preview: []tool.Content{{Type: tool.ContentText, Text: hushed}},
			}, nil
		},
		execute: func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			if c.Resume != nil {
				return tool.Text(c.Resume.Basis), nil // The tool must receive its own basis without filtering.
			}
			if _, err := c.SaveArtifact("a", "text/plain", []byte("artifact "+hushed)); err != nil {
				return nil, err
			}
			return tool.SuspendedWith(tool.Ticket{Message: "is it " + hushed + "?", Parameters: json.RawMessage(`{"it":"` + hushed + `"}`)}), nil
		},
	}
}

func scrubs(s *scrubber) func(*lifecycle.Config) {
	return func(c *lifecycle.Config) {
		c.Hooks.Filter = []hook.Entry[hook.Filter]{{Name: "scrub", Hook: s}}
		c.Hooks.Gate = []hook.Entry[hook.Gate]{namedGate("g", func(in *hook.Input) (hook.Verdict, error) {
			if strings.Contains(in.Arguments.Text(), "deny") {
				return hook.SetResult(tool.Fail("denied %s", "it")), nil
			}
			return hook.Allow(), nil
		})}
	}
}

// TestT112DataOutsideEventsIsFiltered checks data that is stored or published outside events. It must have passed the filters, and its digest must cover
// the filtered text.
func TestT112DataOutsideEventsIsFiltered(t *testing.T) {
	inBubble(t, []tool.Tool{asksOnce()}, scrubs(&scrubber{}), func(t *testing.T, w *world) {
		s := spec("t", `{"password":"`+hushed+`"}`)
		c := w.do(s)
		if c.Status != call.Suspended {
			t.Fatalf("status %s, %+v", c.Status, c.Result)
		}
		if c.Requested != s.Arguments || c.Effective != s.Arguments || c.Open().Pending.Arguments != s.Arguments {
			t.Errorf("the arguments were changed: %s, %s, %s", c.Requested, c.Effective, c.Open().Pending.Arguments)
		}
		if d := c.Description; d.Title != "show ***" || d.Notes[0] != "***" || d.Locations[0].Path != "***" || d.Preview[0].Text != "***" {
			t.Errorf("description %+v", d)
		}
		o := c.Open()
		if o.Message != "is it ***?" || string(o.Parameters) != `{"it":"***"}` || o.Description.Title != "show ***" {
			t.Errorf("question %+v", o)
		}
		part, err := w.e.Artifacts().ReadArtifact(t.Context(), alice, c.ID, "a", 0, 100)
		if err != nil || string(part.Bytes) != "artifact ***" {
			t.Errorf("artifact %q, %v", part.Bytes, err)
		}
		v, err := w.e.Describe(t.Context(), alice, s)
		if err != nil || strings.Contains(fmt.Sprint(v.Description), "show "+hushed) {
			t.Errorf("DescribeCall returns %+v, %v", v, err)
		}
		// The answer applies to the question as filtered; the tool still receives its unfiltered basis.
		c, err = w.resume(alice, c, tool.Decision{Action: tool.Resume})
		if err != nil || c.Status != call.Succeeded || !strings.Contains(c.Result.Message, "basis-"+hushed) {
			t.Errorf("after the answer: %+v, %v", c, err)
		}
	})
}

// TestT112FilterThatFails checks that data is not stored when the filter that should check it failed.
func TestT112FilterThatFails(t *testing.T) {
	inBubble(t, []tool.Tool{asksOnce()}, scrubs(&scrubber{broken: true}), func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		part, err := w.e.Artifacts().ReadArtifact(t.Context(), alice, c.ID, "a", 0, 100)
		if err != nil || strings.Contains(string(part.Bytes), hushed) {
			t.Errorf("artifact %q, %v", part.Bytes, err)
		}
		c.Description.Basis, c.Rounds[0].Suspension.Description.Basis = "", "" // Ignore the basis: filters do not change it, because only the tool reads it.
		if text := fmt.Sprintf("%+v", c); c.Status != call.Suspended || strings.Contains(text, hushed) {
			t.Errorf("the record has it: %s", text)
		}
	})
}

// TestT112LateAnswer checks that the late result of an abandoned attempt is filtered before it is stored.
func TestT112LateAnswer(t *testing.T) {
	deaf := made("t", mutating, func(context.Context, *tool.Call) (*tool.Result, error) {
		time.Sleep(time.Minute)
		return tool.Text("late " + hushed), nil
	})
	inBubble(t, []tool.Tool{deaf}, func(c *lifecycle.Config) {
		scrubs(&scrubber{})(c)
		c.Attempt, c.Grace = time.Second, time.Second
	}, func(t *testing.T, w *world) {
		if c := w.do(spec("t", "")); c.Executed != call.ExecutedUnknown {
			t.Fatalf("executed %s", c.Executed)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		records, err := w.store.Records(t.Context(), "ns", lifecycle.LateResults, 0, 10)
		if err != nil || len(records) != 1 || strings.Contains(string(records[0].Bytes), hushed) || !strings.Contains(string(records[0].Bytes), "late ***") {
			t.Errorf("records %v, %v", records, err)
		}
	})
}
